"""What one pass over the outcomes keeps."""

from __future__ import annotations

from support.samples import commit
from support.told import (
    completed,
    rejected,
    restore_request,
    savepoint_created,
    started,
)
from tidegate.events import Event
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.status.recent import Recent
from tidegate.runtime.bus import Partition, Record


def after(*events: Event | None) -> Recent:
    recent = Recent()
    for offset, event in enumerate(events):
        record = Record(Partition("t", 0), offset, b"", b"", (), 1000 * offset)
        recent.take(LoggedEvent(record, event))
    return recent


def test_a_restore_runs_from_its_start_to_its_final_outcome() -> None:
    one, two = restore_request("one"), restore_request("two", "lake.sales.customers")

    assert set(after(started(one), started(two)).running) == {"one", "two"}
    assert set(after(started(one), started(two), completed(one)).running) == {"two"}
    assert after(started(one), rejected(one)).running == {}
    assert set(after(completed(one), started(one)).running) == {"one"}


def test_the_last_outcome_of_each_service_counts() -> None:
    recent = after(savepoint_created(1), rejected(restore_request()), savepoint_created(2))

    last = {name: each.event for name, each in recent.last_by_service.items()}
    assert last == {
        "savepoint-writer": savepoint_created(2),
        "restorer": rejected(restore_request()),
    }
    assert (recent.refused, recent.failed) == (1, 0)


def test_a_savepoint_that_was_there_already_is_not_counted_again() -> None:
    again = type(savepoint_created(2)).model_validate(
        savepoint_created(2).model_dump() | {"already_there": True}
    )
    [saved] = after(savepoint_created(1), savepoint_created(2), again).saved.values()

    assert (saved.written, saved.newest, saved.requested_by) == (2, "20261121120000002", "ana")


def test_what_is_no_outcome_or_unreadable_changes_nothing() -> None:
    assert after(None, commit(1)) == Recent()
