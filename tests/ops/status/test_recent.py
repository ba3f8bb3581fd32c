"""What one pass over the outcomes keeps."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest

from support.deployment_events import (
    awaiting,
    cleaned,
    cleaning_refused,
    completed,
    failed_attempt,
    rejected,
    released,
    restore_request,
    savepoint_created,
    started,
    vacuum,
)
from support.event_examples import example_of
from support.samples import NOON, commit, ended, release, savepoint_request, task_of
from support.signing import cleaning
from tidegate.cli.look.status import _show as show
from tidegate.coordinator.rows.records import hashed
from tidegate.events import (
    CleaningDeferred,
    CleaningProgressed,
    CleaningReleased,
    CommitFlag,
    CommitFlagged,
    Event,
    RestoreFailed,
    RestoreProgressed,
    SavepointCreated,
    SavepointRejected,
    SavepointRemoved,
    SavepointsChecked,
    Stopped,
    TaskEnd,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumFlag,
    VacuumFlagged,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.base import Alarm, TableAlarm, TableAlarmEnded
from tidegate.events.codec import decode
from tidegate.events.reasons import Reason
from tidegate.events.topics import OUTCOMES
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.recent import Recent
from tidegate.ops.status import needs
from tidegate.ops.summary import line_of
from tidegate.runtime.bus import Partition, Record

GATE: dict[str, Any] = {"source": "coordinator", "occurred_at": NOON}


def after(*events: Event | None, day_ago: datetime | None = None) -> Recent:
    recent = Recent(day_ago=day_ago)
    for offset, event in enumerate(events):
        record = Record(Partition("t", 0), offset, b"", b"", (), 1000 * offset)
        recent.take(LoggedEvent(record, event))
    return recent


def test_a_restore_or_a_cleaning_runs_from_its_start_to_the_end_of_its_task() -> None:
    one, two = restore_request("one"), restore_request("two", "lake.sales.customers")
    end = ended(task_of(one))
    copy = ended(task_of(one), end=TaskEnd.NUMBER_TAKEN, highest=9)
    command = cleaning()
    progressed = CleaningProgressed.about(
        command, **GATE, directories_done=1, directories_total=2, files_done=1, files_total=2
    )
    dead_lettered = ended(task_of(command), end=TaskEnd.DEAD_LETTERED, message="no permission")

    assert set(after(started(one), started(two)).running) == {one.table, two.table}
    assert set(after(started(one), started(two), completed(one), end).running) == {two.table}
    assert set(after(started(one), copy).running) == {one.table}
    assert set(after(completed(one), end, started(one)).running) == {one.table}
    stop = ended(task_of(one), end=TaskEnd.ANSWERED, stopped=Stopped.BEGUN)
    superseded = ended(task_of(one), end=TaskEnd.SUPERSEDED)
    assert set(after(started(one), stop, superseded).running) == {one.table}, "it is issued again"
    assert after(started(one), completed(one), superseded).running == {}
    assert set(after(progressed).running) == {command.table}
    assert after(progressed, dead_lettered).running == {}


def test_a_restore_waits_for_an_approval_until_it_is_begun_or_its_time_is_over() -> None:
    one, two = restore_request("one"), restore_request("two", "lake.sales.customers")
    both = awaiting(one, NOON), awaiting(two)

    def left(recent: Recent, later: timedelta) -> list[str | None]:
        waiting = recent.awaiting_at(NOON + later)
        return [item.event.caused_by for item in waiting if item.event is not None]

    assert left(after(*both), timedelta()) == ["one", "two"]
    assert left(after(*both), timedelta(seconds=1)) == ["two"]
    assert left(after(*both, started(one)), timedelta()) == ["two"]
    assert left(after(*both, rejected(two)), timedelta()) == ["one"]
    approved = after(*both)
    approved.approved.add((one.table, hashed("one")))
    assert left(approved, timedelta()) == ["two"]


def test_a_restore_that_failed_half_way_needs_a_person_until_it_is_completed() -> None:
    request = restore_request("one")
    failed = RestoreFailed.about(
        request,
        source="restorer",
        occurred_at=NOON,
        savepoint=request.savepoint,
        restore_instant="20261121051551845",
        message="full",
    )

    dead_lettered = ended(task_of(request), end=TaskEnd.DEAD_LETTERED, message="no permission")

    def needed(*outcomes: Event | None) -> list[str]:
        return needs(after(*outcomes), (), 0, NOON)

    half_way = (
        f"the restore of {request.table} to {request.savepoint} failed half way, and the table"
        f" takes no writes: tidegate explain {request.table}"
    )
    for end in (failed, dead_lettered):
        assert needed(started(request), end)[0] == half_way
        assert half_way not in needed(end, started(request))
        assert half_way not in needed(started(request), end, completed(request))
    assert half_way not in needed(dead_lettered)


def test_a_task_that_is_tried_again_is_under_way_and_soon_needs_a_person() -> None:
    request = savepoint_request(1)
    first, fourth = failed_attempt(request, 1), failed_attempt(request, 4)
    copy = ended(task_of(request, 6), end=TaskEnd.NUMBER_TAKEN, highest=7)
    recent = after(first, fourth, copy)
    fault = "task 7 (SavepointRequested) is tried again: attempt 4 failed: the disk is full (since"

    [line] = map(line_of, recent.failing.values())
    assert fault in line
    assert needs(recent, (), 0, NOON) == []
    [needed] = needs(recent, (), 0, NOON + timedelta(minutes=6))
    assert needed.startswith(f"{request.table}: {fault}")
    assert needed.endswith(f": tidegate explain {request.table}")
    assert after(first, savepoint_created(1), ended(task_of(request, 7))).failing == {}
    # of a process that lost the task's partition while it tried
    assert after(first, ended(task_of(request, 7)), fourth).failing == {}
    assert after(ended(task_of(request, 6)), fourth).failing != {}
    restore = restore_request()
    progressed = RestoreProgressed.about(
        restore,
        source="restorer",
        occurred_at=NOON,
        savepoint="1",
        restore_instant="2",
        instants_done=1,
        instants_total=2,
        files_done=1,
        files_total=2,
    )
    assert after(failed_attempt(restore, 1), progressed).failing == {}
    tried = after(failed_attempt(restore, 1), started(restore))
    assert set(tried.failing) == {restore.table}
    assert tried.under_way() == list(tried.failing.values())  # one task, one line


def test_the_last_outcome_of_each_service_counts() -> None:
    task_of_two = task_of(savepoint_request(2))
    recent = after(
        savepoint_created(1),
        rejected(restore_request()),
        savepoint_created(2),
        ended(task_of_two, source="savepoint-writer"),
    )

    last = {name: item.event for name, item in recent.last_by_service.items()}
    assert last == {
        "savepoint-writer": savepoint_created(2),
        "restorer": rejected(restore_request()),
    }
    assert (recent.refused, recent.failed) == (1, 0)


def test_savepoints_that_were_made_and_removed_are_counted() -> None:
    one, two = saved_at(1), saved_at(2)
    again = one.model_copy(update={"already_there": True})
    recent = after(one, two, again, gone(one))

    assert (recent.savepoints_made, recent.savepoints_removed) == (2, 1)


def saved_at(number: int) -> SavepointCreated:
    created = savepoint_created(number)
    assert isinstance(created, SavepointCreated)
    return created


def gone(created: SavepointCreated) -> SavepointRemoved:
    return SavepointRemoved.about(
        created,
        source="savepoint-writer",
        occurred_at=NOON,
        instant=created.instant,
        savepoints_left=0,
        duration_ms=0,
    )


def test_savepoints_that_no_rule_owns_need_a_person_until_a_check_finds_none() -> None:
    def checked(table: str, *unowned: str) -> SavepointsChecked:
        request = restore_request("check", table)
        fields = {"savepoints": 3, "unowned": unowned, "duration_ms": 1}
        return SavepointsChecked.about(
            request, source="savepoint-writer", occurred_at=NOON, **fields
        )

    orders = checked("lake.sales.orders", "20261121041551845", "20261121051551845")
    seen = after(checked("lake.sales.customers"), orders)

    (line,) = needs(seen, (), 0, NOON)
    assert line == (
        "no rule owns 2 savepoints of lake.sales.orders, so they stay:"
        " tidegate savepoints list lake.sales.orders"
    )
    assert after(orders, checked("lake.sales.orders")).unowned == {}


def test_what_is_not_an_outcome_or_unreadable_changes_nothing() -> None:
    assert after(None, commit(1)) == Recent()


def overdue(event: Event) -> VacuumOverdue:
    return VacuumOverdue.about(
        event, **GATE, since=NOON, limit_seconds=1, holds_left=1, message="it waits"
    )


def test_an_alarm_is_open_until_it_is_resolved() -> None:
    one, two = vacuum(7), vacuum(8)
    unknown = UnknownTableReleased.about(
        release(9), **GATE, since=NOON, limit_seconds=1, published_by="bridge", message="unknown"
    )
    known = UnknownTableResolved.about(one, **GATE, since=NOON, unknown_since=NOON)
    over = VacuumOverdueResolved.about(one, **GATE, since=NOON, overdue_since=NOON)

    assert set(after(overdue(one), overdue(two), unknown).alarms) == {
        one.event_id,
        two.event_id,
        f"{unknown.table} UnknownTableReleased",
    }
    assert set(after(overdue(one), overdue(two), over).alarms) == {two.event_id}
    assert after(unknown, known).alarms == {}


def test_alarms_of_two_kinds_about_one_table_are_open_and_end_independently() -> None:
    class Other(TableAlarm, frozen=True):
        message: str

    class OtherEnded(TableAlarmEnded, frozen=True):
        ends: ClassVar[type[TableAlarm]] = Other

    unknown = decode(example_of("UnknownTableReleased"))
    other = Other.about(unknown, **GATE, message="it is old")
    known = UnknownTableResolved.about(other, **GATE, since=NOON, unknown_since=NOON)

    assert len(after(unknown, other).alarms) == 2
    assert [it.event for it in after(unknown, other, known).alarms.values()] == [other]
    assert after(unknown, other, known, OtherEnded.about(other, **GATE)).alarms == {}
    lines = needs(after(unknown, other), (), 0, NOON)
    assert lines[-1] == f"{other.table}: it is old: tidegate explain {other.table}"


def test_every_alarm_about_a_table_has_an_outcome_that_ends_it() -> None:
    alarms = [kind for kind in OUTCOMES if issubclass(kind, TableAlarm)]
    ends = [kind.ends for kind in OUTCOMES if issubclass(kind, TableAlarmEnded)]

    assert set(alarms) == set(ends)
    assert len(alarms) == len(ends)


def deferred(command: CleaningReleased, reason: Reason) -> CleaningDeferred:
    fields = command.model_dump(include=set(CleaningDeferred.model_fields) - {"event_id"})
    fields |= {**GATE, "caused_by": command.event_id, "reason": reason, "message": "they differ"}
    return CleaningDeferred.model_validate(fields | {"retry_after_ms": 1, "vacuum": "v"})


def test_a_contradicted_vacuum_needs_a_person_until_its_cleaning_ends() -> None:
    command = cleaning()
    contradicted = deferred(command, Reason.NOT_CONFIRMED)

    [line] = needs(after(contradicted), (), 0, NOON)
    assert line == (
        f"the second source contradicts a vacuum of {command.table}:"
        f" tidegate explain {command.table}"
    )
    assert after(contradicted, cleaning_refused(command)).alarms == {}
    assert after(deferred(command, Reason.SECOND_SOURCE_AWAY)).alarms == {}


def flagged_commit(event: Event, flag: CommitFlag) -> CommitFlagged:
    return CommitFlagged.about(
        event, **GATE, instant="20260301103300000", flag=flag, message="nothing completed it"
    )


def flagged_vacuum(event: Event) -> VacuumFlagged:
    fields = {"flag": VacuumFlag.CONTENT_CHANGED, "message": "published again"}
    return VacuumFlagged.about(event, **GATE, **fields)


def test_flagged_commits_and_vacuums_of_today_need_a_person_with_reason_and_command() -> None:
    bad, twice = flagged_commit(commit(1), CommitFlag.NOT_ON_TIMELINE), flagged_vacuum(vacuum(7))
    full = flagged_commit(commit(2), CommitFlag.SAVEPOINTS_AT_MAXIMUM)
    again = flagged_commit(commit(3), CommitFlag.SAVEPOINTS_AT_MAXIMUM)

    assert needs(after(bad, twice), (), 0, NOON) == [
        (
            "flagged commit of lake.sales.orders: 20260301103300000: not-on-timeline: nothing"
            " completed it: tidegate events tail --table lake.sales.orders --topic commits"
        ),
        (
            "flagged vacuum of lake.sales.orders: content-changed: published again:"
            " tidegate waiting --table lake.sales.orders"
        ),
    ]
    [line] = needs(after(full, again), (), 0, NOON)
    assert line.endswith(": tidegate savepoints list lake.sales.orders")
    assert needs(after(bad, twice, day_ago=NOON), (), 0, NOON) == []
    assert needs(after(twice, cleaned(released(vacuum(7)))), (), 0, NOON) == []


def refused_savepoint(number: int, asked_by: str) -> SavepointRejected:
    fields = {"instant": "1", "reason": "x", "message": "y", "source": "savepoint-writer"}
    event = SavepointRejected.about(
        commit(number), occurred_at=NOON, requested_by=asked_by, **fields
    )
    assert isinstance(event, SavepointRejected)
    return event


def test_a_failed_request_needs_a_person_until_a_later_one_of_its_table_succeeds() -> None:
    failed, done = rejected(restore_request("one")), completed(restore_request("two"))
    elsewhere = completed(restore_request("three", "lake.sales.customers"))
    of_a_person = saved_at(1).model_copy(update={"requested_by": "ana"})

    assert len(needs(after(failed, elsewhere, of_a_person), (), 0, NOON)) == 1
    for succeeded in (done, completed(restore_request("one"))):
        assert needs(after(failed, succeeded), (), 0, NOON) == []
    assert needs(after(failed, day_ago=NOON), (), 0, NOON) == []


def test_the_policys_own_checks_are_not_requests() -> None:
    mine, its = refused_savepoint(1, "ana"), refused_savepoint(2, "coordinator")
    made = saved_at(3).model_copy(update={"requested_by": "coordinator"})
    recent = after(mine, its, refused_savepoint(4, "coordinator"))
    look = (
        "of the last 24 hours without a success on the same table since:"
        " tidegate outcomes --failed --since 1d"
    )

    assert recent.refused == 1
    assert needs(recent, (), 0, NOON) == [
        f"1 failed or refused request {look}",
        f"2 failed or refused savepoint checks {look}",
    ]
    assert needs(after(mine, its, made), (), 0, NOON) == [f"1 failed or refused request {look}"]
    of_its_check = its.model_copy(update={"event_id": "", "caused_by": made.caused_by})
    checked = SavepointsChecked.about(
        commit(3), source="savepoint-writer", occurred_at=NOON, savepoints=3, duration_ms=1
    ).model_copy(update={"requested_by": "coordinator", "caused_by": of_its_check.caused_by})
    assert needs(after(of_its_check, checked), (), 0, NOON) == [
        f"1 failed or refused savepoint check {look}"
    ]


def test_of_thousands_of_tasks_that_are_tried_again_the_newest_are_named() -> None:
    failed = failed_attempt(savepoint_request(1), 1)
    tables = [failed.model_copy(update={"table": f"lake.s.t{n}"}) for n in range(12)]

    *lines, rest = needs(after(*tables), (), 0, NOON + timedelta(minutes=6))
    assert [line.partition(":")[0] for line in lines] == [f"lake.s.t{n}" for n in range(2, 12)]
    assert rest == "2 older tasks that are tried again: tidegate status --json"


def service(name: str, *members: str, lag: int = 0, dead_letters: int = 0) -> dict[str, Any]:
    fields: dict[str, Any] = {"service": name, "members": members, "lag": lag, "problem": None}
    return fields | {"dead_letters": dead_letters, "last_outcome": None, "last_poll": None}


def test_a_bridge_that_polls_no_more_needs_a_person() -> None:
    bridge = service("hudi-bridge", "one") | {"problem": "it has not polled since noon"}

    [line] = needs(Recent(), [bridge, service("cleaner", "one", dead_letters=0)], 0, NOON)
    assert line == "hudi-bridge: it has not polled since noon: tidegate doctor"


def found_with(**fields: object) -> dict[str, Any]:
    """What `read_status` returns, with these fields."""
    counts = ("waiting", "savepoints_made", "savepoints_removed", "refused", "failed")
    found: dict[str, Any] = dict.fromkeys(counts, 0)
    found |= dict.fromkeys(("held", "quarantined", "running", "services", "needs"), ())
    return found | {"at": NOON, "since": NOON, "oldest_waiting": None} | fields


@pytest.mark.parametrize(
    ("count", "line"), [(0, "no vacuum waits"), (None, "waiting vacuums: unknown, see above")]
)
def test_no_vacuum_waits_only_if_all_rows_could_be_read(
    count: int | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(found_with(waiting=count))

    assert line in capsys.readouterr().out.splitlines()


def test_status_begins_with_what_needs_a_person_and_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = restore_request("one")
    recent = after(awaiting(request, NOON), overdue(vacuum(7)), rejected(restore_request("two")))
    services = (service("restorer", lag=3), service("cleaner", "cleaner-1", dead_letters=2))
    show(found_with(services=services, needs=needs(recent, services, 0, NOON)))

    first, down, approval, late, dead, refused, table, *_ = capsys.readouterr().out.splitlines()
    assert first == "needs a person:"
    assert approval.startswith("  awaits approval, by 2026-11-21T12:00:00Z: the restore of ")
    assert approval.endswith(
        f": tidegate publish approval --request one --plan-id p1 --table {request.table}"
        f" --location {request.location} --reason 'checked the plan'"
    )
    assert late.endswith(f": tidegate waiting --table {vacuum(7).table}")
    assert dead == "  2 open dead letters of cleaner: tidegate dead-letters list --service cleaner"
    assert refused.endswith(
        "1 failed or refused request of the last 24 hours without a success on the same table"
        " since: tidegate outcomes --failed --since 1d"
    )
    assert down == "  restorer is not running: tidegate run restorer"
    assert table.startswith("service")


ALARMS = [kind for kind in OUTCOMES if issubclass(kind, Alarm)]


@pytest.mark.parametrize("kind", ALARMS)
def test_every_alarm_is_open_until_it_ends_and_needs_a_person(kind: type[Event]) -> None:
    alarm = decode(example_of(kind.__name__))
    recent = after(alarm)
    assert [logged.event for logged in recent.alarms.values()] == [alarm]
    [line] = needs(recent, (), 0, NOON)
    assert alarm.table in line
    assert ("no vacuum of this table" in line) == (kind is UnknownTableReleased)
