"""Events as a deployment's services would publish them, for tests of what shows them."""

from __future__ import annotations

import time
from datetime import datetime

from support.samples import NOON, savepoint_request
from tidegate.events import (
    AttemptFailed,
    CleaningRefused,
    CleaningReleased,
    Command,
    DirectoriesCleaned,
    Event,
    LockHold,
    Outcome,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
    SavepointCreated,
    VacuumFinished,
    VacuumKind,
    Withdrawal,
    WithdrawalRequested,
)
from tidegate.events.restores import InstantRef
from tidegate.events.topics import topic_of
from tidegate.events.wire import Wire
from tidegate.publisher import ConfirmedProducer, Receipt

ORDERS = "lake.sales.orders"
SAVEPOINT = "20261121041551845"


def publish(servers: str, prefix: str, *events: Event) -> list[Receipt]:
    """Send events one after another, on the topics of a deployment, each in another millisecond.

    What reads several topics orders them by the broker's time.
    """
    producer = ConfirmedProducer({"bootstrap.servers": servers})
    sent: list[Receipt] = []
    for event in events:
        time.sleep(0.002)
        sent += producer.send([Wire().serialize(event, topic_of(type(event)).name(prefix))])
    producer.close()
    return sent


def restore_request(
    request_id: str = "restore-1", table: str = ORDERS, *, plan_only: bool = False
) -> RestoreRequested:
    return RestoreRequested(
        event_id=request_id,
        table=table,
        location="/lake/" + table.rsplit(".", 1)[-1],
        occurred_at=NOON,
        source="cli",
        savepoint=SAVEPOINT,
        requested_by="ana",
        reason="a bad load",
        plan_only=plan_only,
    )


def failed_attempt(command: Command, attempt: int, number: int = 7) -> AttemptFailed:
    return AttemptFailed.about(
        command,
        number=number,
        kind=type(command).__name__,
        attempt=attempt,
        since=NOON,
        message="the disk is full",
        source="savepoint-writer",
        occurred_at=NOON,
    )


def started(request: RestoreRequested) -> Outcome:
    return RestoreStarted.about(
        request,
        savepoint=request.savepoint,
        plan_id="p1",
        instants=(InstantRef(instant="20261121050000000", action="commit"),),
        files=3,
        bytes=2048,
        restore_instant="20261121060000000",
        source="restorer",
        occurred_at=NOON,
    ).to(request)


def awaiting(request: RestoreRequested, until: datetime | None = None) -> Outcome:
    return RestoreAwaitingApproval.about(
        request,
        savepoint=request.savepoint,
        plan_id="p1",
        instants=(InstantRef(instant="20261121050000000", action="commit"),),
        files=3,
        bytes=2048,
        expires_at=until,
        source="restorer",
        occurred_at=NOON,
    ).to(request)


def withdrawal(
    of: Event, kind: type[Withdrawal] = WithdrawalRequested, **more: object
) -> Withdrawal:
    fields: dict[str, object] = {
        "event_id": f"w-{of.event_id}",
        "occurred_at": NOON,
        "source": "cli",
        "request": of.event_id,
        "requested_by": "eva",
        "reason": "the load was repaired",
    }
    return kind.about(of, **fields | more)


def approved(request: RestoreRequested) -> RestoreApproved:
    return RestoreApproved.about(
        request,
        event_id="approval-1",
        request=request.event_id,
        plan_id="p1",
        approved_by="ben",
        reason="looked at it",
        source="cli",
        occurred_at=NOON,
    )


def completed(request: RestoreRequested) -> Outcome:
    return RestoreCompleted.about(
        request,
        savepoint=request.savepoint,
        restore_instant="20261121060000000",
        instants=(InstantRef(instant="20261121050000000", action="commit"),),
        files_deleted=3,
        duration_ms=1500,
        source="restorer",
        occurred_at=NOON,
    ).to(request)


def rejected(request: RestoreRequested) -> Outcome:
    return RestoreRejected.about(
        request,
        savepoint=request.savepoint,
        reason="writer-alive",
        message="a writer is at work",
        source="restorer",
        occurred_at=NOON,
    ).to(request)


def savepoint_created(number: int, table: str = ORDERS) -> Outcome:
    request = savepoint_request(number, table)
    return SavepointCreated.about(
        request,
        instant=str(request.instant),
        partitions=1,
        files=number,
        duration_ms=20,
        source="savepoint-writer",
        occurred_at=NOON,
    ).to(request)


def vacuum(
    *lock_ids: int, table: str = ORDERS, transactions: tuple[int, ...] = (), last: int = 3
) -> VacuumFinished:
    """A vacuum that holds its own lock, the first one, and waits for all."""
    return VacuumFinished(
        table=table,
        location="/lake/" + table.rsplit(".", 1)[-1],
        occurred_at=NOON,
        source="hive",
        kind=VacuumKind.MINOR,
        directories=(f"delta_0000001_{last:07}",),
        min_write_id=1,
        max_write_id=last,
        valid_write_ids=f"sales.{table.rsplit('.', 1)[-1]}:{last}:9223372036854775807::",
        own_lock_id=lock_ids[0],
        locks=tuple(LockHold(lock_id=id_, owner=f"user{id_}") for id_ in lock_ids),
        open_transactions=transactions,
    )


def released(event: VacuumFinished) -> CleaningReleased:
    copied = ("kind", "partition", "directories", "min_write_id", "max_write_id", "valid_write_ids")
    return CleaningReleased.about(
        event,
        **{name: getattr(event, name) for name in copied},
        source="coordinator",
        occurred_at=NOON,
    )


def cleaned(command: Command) -> Outcome:
    return DirectoriesCleaned.about(
        command,
        directories=("delta_0000001_0000001",),
        files=2,
        bytes=100,
        duration_ms=300,
        source="cleaner",
        occurred_at=NOON,
    ).to(command)


def cleaned_in_parts(command: Command, of: int) -> list[Outcome]:
    """One outcome in so many parts, of a directory each."""
    return [
        DirectoriesCleaned.about(
            command,
            directories=(f"delta_{number:07d}_{number:07d}",),
            files=2,
            bytes=100,
            duration_ms=300,
            source="cleaner",
            occurred_at=NOON,
            part=number,
            parts=of,
        )
        for number in range(1, of + 1)
    ]


def cleaning_refused(command: Command) -> Outcome:
    return CleaningRefused.about(
        command,
        reason="products-missing",
        message="delta_0000001_0000003 is not there",
        source="cleaner",
        occurred_at=NOON,
    ).to(command)
