"""Checks of an event before it is sent, beyond the form of its fields.

The cleaner would refuse an inconsistent vacuum only after its last reader has ended, perhaps days
later. With this check its publisher gets the error at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from typing import Final

from tidegate.errors import (
    DeliveryError,
    FormatError,
    InvalidEventError,
    MessageTooLargeError,
    NotStored,
    Receipt,
    Unconfirmed,
)
from tidegate.events import CommitCompleted, Event, Request, VacuumFinished, WritesAborted
from tidegate.hive.compaction import Compaction, InconsistentCompaction
from tidegate.hive.write_ids import NOTHING_OPEN, ValidWriteIds
from tidegate.hudi.instant import WRITES

_STRAY: Final = frozenset({"", ".", ".."})
_SIGNS: Final = re.compile(r"[\\\x00-\x1f]")
_SHOWN: Final = 3
_TOO_LARGE: Final = "; raise max.message.bytes of the topic"
_TOO_MANY_HOLDS: Final = (
    ", or leave out the locks whose transaction_id is among open_transactions: they end with it"
)


def check_publishable(event: Event) -> None:
    """Check that the fields of an event are consistent.

    Raises:
        InvalidEventError: a service would refuse it; it says why.
    """
    try:
        event.occurred_at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidEventError("occurred_at: in UTC the year is before 1 or after 9999") from error
    if isinstance(event, CommitCompleted) and event.action not in WRITES:
        raise InvalidEventError(
            f"invalid CommitCompleted: action: {event.action!r} is not one of"
            f" {', '.join(sorted(WRITES))}; upsert, insert and the like are an operation"
        )
    if isinstance(event, VacuumFinished | WritesAborted):
        try:
            snapshot = _snapshot_of(event)
            if isinstance(event, VacuumFinished):
                _check_vacuum(event, snapshot)
        except (FormatError, InconsistentCompaction) as error:
            raise InvalidEventError(f"invalid {type(event).__name__}: {error}") from error


def _snapshot_of(event: VacuumFinished | WritesAborted) -> ValidWriteIds:
    try:
        return ValidWriteIds.of_table(event.valid_write_ids, event.table)
    except FormatError as error:
        raise FormatError(
            f"valid_write_ids: {error}; copy them from the Metastore, such as"
            " sales.visits:3:9223372036854775807::"
        ) from error


def _check_vacuum(event: VacuumFinished, snapshot: ValidWriteIds) -> None:
    Compaction.of(event, snapshot)
    if snapshot.min_open == NOTHING_OPEN and snapshot.opens_in(
        event.min_write_id, event.max_write_id
    ):
        raise InconsistentCompaction(
            "the snapshot lists open write ids that the vacuum compacted, and its least open id"
            " says that none is open"
        )
    own = event.own_transaction_id
    transactions = {} if own is None else {event.own_lock_id: own}
    for lock in event.locks:
        txn = lock.transaction_id
        if txn is not None and transactions.setdefault(lock.lock_id, txn) != txn:
            raise InconsistentCompaction(
                f"lock {lock.lock_id} is of one transaction, not of {transactions[lock.lock_id]}"
                f" and of {txn}"
            )
    partition = event.partition
    if partition is not None and (_STRAY & set(partition.split("/")) or _SIGNS.search(partition)):
        raise InconsistentCompaction(f"the partition {partition!r} is not a path below the table")


def error_of_batch(error: DeliveryError, events: Sequence[Event]) -> DeliveryError:
    """The same error with the ids of the events, and the results in their order."""
    requests = [event.event_id for event in events if isinstance(event, Request)]
    hint = f"; repeat with the request id {', '.join(requests)}" if requests else ""
    if isinstance(error, MessageTooLargeError):
        hint = _TOO_LARGE
        if any(isinstance(event, VacuumFinished) for event in events):
            hint += _TOO_MANY_HOLDS
    elif type(error) is not DeliveryError:
        hint = ""  # what is denied was not stored, and repeating it is useless
    named = type(error)(f"{error}{_refused(error, events)}{hint}")
    named.event_ids = tuple(event.event_id for event in events)
    named.results = tuple(
        result._replace(event_id=event_id)
        for result, event_id in zip(error.results, named.event_ids, strict=False)
    )
    return named


def _refused(error: DeliveryError, events: Sequence[Event]) -> str:
    """The message that lists the events that were not stored; `results` has all of them."""
    if len(events) == 1:
        return ""
    refused = [
        f"event {number} ({event.event_id}): {result.reason}"
        for number, (event, result) in enumerate(zip(events, error.results, strict=False), 1)
        if isinstance(result, NotStored)
    ]
    stored = sum(isinstance(result, Receipt) for result in error.results)
    unknown = sum(isinstance(result, Unconfirmed) for result in error.results)
    shown = ", ".join(refused[:_SHOWN]) + (", ..." if len(refused) > _SHOWN else "")
    return (
        f"; {stored} stored, {unknown} unconfirmed, {len(refused)} not stored"
        f"{': ' if refused else ''}{shown}"
    )
