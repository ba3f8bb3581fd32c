"""Which holds of a waiting vacuum have not ended, and whose they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tidegate.cleaning.gate_index import GateIndex, lock_token, transaction_token
from tidegate.cleaning.gate_state import VACUUM, GateState, HeldLock, VacuumRecord, WaitingVacuum
from tidegate.runtime.decider.state_store import StateStore


@dataclass(frozen=True, slots=True)
class LackedHold:
    """A lock, or a transaction without a known lock, that has not ended yet.

    `owner` and `lock_type` are None where whoever published the vacuum did not say.
    """

    lock_id: int | None
    transaction_id: int | None
    owner: str | None = None
    lock_type: str | None = None
    partition: str | None = None

    def __str__(self) -> str:
        """For people, with the owner where it is known."""
        lock = "" if self.lock_id is None else f"lock {self.lock_id}"
        txn = "" if self.transaction_id is None else f"transaction {self.transaction_id}"
        kind = f" ({self.lock_type})" if self.lock_type else ""
        owner = f" of {self.owner}" if self.owner else ""
        return f"{' in '.join(filter(None, (lock, txn)))}{kind}{owner}"


@dataclass(frozen=True, slots=True)
class LackingVacuum:
    """A vacuum that waits, and what it waits for. `since` is the broker's time."""

    table: str
    location: str
    partition: str | None
    event_id: str
    since: datetime
    kind: str
    directories: tuple[str, ...]
    holds: int
    """How many it had when it became visible."""
    lacks: tuple[LackedHold, ...]

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        return asdict(self) | {"since": self.since.isoformat(timespec="milliseconds")}


def lacking_vacuums(store: StateStore[GateState]) -> Iterator[LackingVacuum]:
    """The vacuums that wait, of every table in a store, in no particular order.

    Raises:
        StopService: a record can't be read.
    """
    for table, _ in store.tables():
        index = store.state(table).loaded
        for name in index.pieces.names():
            piece = index.pieces.get(name) if name[0] == VACUUM else None
            if isinstance(piece, WaitingVacuum | VacuumRecord):
                yield _lacking(table, piece.whole(), index)


def _lacking(table: str, waiting: WaitingVacuum, index: GateIndex) -> LackingVacuum:
    locks = [each for each in waiting.locks if not index.has_ended(_tokens(each))]
    in_locks = {each.transaction_id for each in locks}
    # a lock that has ended may still name the owner of a transaction that has not
    owners = {each.transaction_id: each.owner for each in waiting.locks if each.owner}
    transactions = [
        each
        for each in waiting.transactions
        if each not in in_locks and not index.has_ended((transaction_token(each),))
    ]
    made = waiting.vacuum
    return LackingVacuum(
        table=table,
        location=made.location,
        partition=made.partition,
        event_id=waiting.event_id,
        since=waiting.since,
        kind=str(made.kind),
        directories=made.directories,
        holds=len(waiting.locks) + len(waiting.transactions),
        lacks=(
            *(
                LackedHold(each[0], each[1], each.owner, each.lock_type, each.partition)
                for each in locks
            ),
            *(LackedHold(None, each, owners.get(each)) for each in transactions),
        ),
    )


def _tokens(lock: HeldLock) -> tuple[int, ...]:
    if lock.transaction_id is None:
        return (lock_token(lock.lock_id),)
    return lock_token(lock.lock_id), transaction_token(lock.transaction_id)
