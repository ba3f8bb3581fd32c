"""Replays on a real broker, by the command line, with the services running in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.acid_orc import AcidTable
from support.hudi_tables import HandMade, at, end_of, four_commits, snapshot
from support.replays import Place, checks, commits_checked, publish_commits
from support.waiting import wait_for
from tidegate.errors import ConfigError, TidegateError
from tidegate.events import (
    Event,
    LockHold,
    SavepointCreated,
    SavepointsChecked,
    SavepointsCheckRequested,
    VacuumKind,
)
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.ops.replay.events import REPLAYED_FROM
from tidegate.service.assembly import SERVICES

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
SNAPSHOT = "shop.log:3:9223372036854775807::"
LATER = "20260301130000000"


def play(place: Place) -> None:
    """Savepoints by policy and on request, a restore, a vacuum that waits for its readers."""
    customers = four_commits(place.lake / "customers", 9)
    orders = four_commits(place.lake / "orders", 9)
    log = AcidTable(place.lake / "log", {"id": "bigint"})
    for write_id in (1, 2, 3):
        log.insert(write_id, [(write_id,)])
    made = log.compact_minor(1, 3, ValidWriteIds.parse(SNAPSHOT))
    with place.running(), place.publisher() as publisher:
        publisher.commit(**place.subject("customers"), instant=at(4))
        wait_for("the policy's savepoint", lambda: savepoints(place) == [("customers", at(4))])
        publisher.request_savepoint(**place.subject("customers"), requested_by="ana")
        publisher.request_savepoint(**place.subject("orders"), instant=at(2), requested_by="ana")
        publisher.lock_released(**place.subject("log"), lock_id=3)
        publisher.vacuum_finished(
            **place.subject("log"),
            kind=VacuumKind.MINOR,
            directories=made,
            min_write_id=1,
            max_write_id=3,
            valid_write_ids=SNAPSHOT,
            own_lock_id=1,
            locks=[LockHold(lock_id=n) for n in (1, 2, 3)],
        )
        wait_for("the savepoints", lambda: len(savepoints(place)) == 3)
        publisher.request_restore(
            **place.subject("orders"),
            savepoint=at(2),
            requested_by="ana",
            reason="bad",
            seen_up_to=end_of(at(4)),
        )
        publisher.lock_released(**place.subject("log"), lock_id=1)
        publisher.lock_released(**place.subject("log"), lock_id=2)
        wait_for("the final outcomes", lambda: len(ends(place)) == 3)
        place.wait_until_idle()
    # the tables live on: a commit after the restore, a savepoint removed by hand, a newer commit
    orders.commit(LATER, at(2))
    for path in list(customers.timeline.glob(f"*{at(4)}*.savepoint*")):
        path.unlink()
    customers.commit(LATER, at(4))
    with place.running(), place.publisher() as publisher:  # which gets its savepoint, too
        publisher.commit(**place.subject("customers"), instant=LATER)
        wait_for("its savepoint", lambda: savepoints(place)[3:] == [("customers", LATER)])
        place.wait_until_idle()


def ends(place: Place) -> set[str]:
    names = {type(outcome).__name__ for outcome in place.outcomes()}
    return names & {"DirectoriesCleaned", "RestoreCompleted", "SavepointCreated"}


def savepoints(place: Place) -> list[tuple[str, str]]:
    """The tables and instants of the requests and checks that found or made a savepoint."""
    created = (event for event in place.outcomes() if isinstance(event, SavepointCreated))
    return [(event.table.rsplit(".", 1)[-1], event.instant) for event in created]


def decided_once(place: Place) -> list[Event]:
    """The commands other than checks, which may be repeated: they change only what is due."""
    commands = place.commands()
    return [command for command in commands if not isinstance(command, SavepointsCheckRequested)]


def content(root: Path) -> dict[str, object]:
    """The files of the tables, without the claims of tasks."""
    return {name: it for name, it in snapshot(root).items() if "/.tidegate/" not in name}


def without_empty_checks(outcomes: Sequence[Event]) -> set[str]:
    """The ids of the outcomes, without those of checks that changed nothing."""
    return {
        event.event_id
        for event in outcomes
        if not isinstance(event, SavepointsChecked) or event.made or event.removed
    }


@pytest.mark.slow
def test_the_whole_history_replayed_on_tables_that_are_done_changes_nothing(place: Place) -> None:
    play(place)
    tables, outcomes = content(place.lake), without_empty_checks(place.outcomes())
    assert len(outcomes) == 10
    assert (len(decided_once(place)), len(checks(place))) == (4, 2)
    assert any(LATER in name for name in tables)

    for service in SERVICES:
        shown = place.call("group", service, "--to-earliest", "--execute", "--with-restores")
        assert sum(reset["again"] for reset in shown["changes"]) > 0, service
    with place.running():
        place.wait_until_idle()
    assert content(place.lake) == tables
    assert without_empty_checks(place.outcomes()) == outcomes
    # no decider asked again, but for the checks, which found nothing to do
    assert (len(decided_once(place)), len(checks(place))) == (4, 4)

    for topic in ("commits", "vacuums", "locks", "requests", "tasks"):
        shown = place.call(
            "events", "--topic", topic, "--from-offset", "0", "--execute", "--with-restores"
        )
        assert shown["changes"], topic
    with place.running():
        place.wait_until_idle()
    assert content(place.lake) == tables
    assert without_empty_checks(place.outcomes()) == outcomes
    # no request was used again, and no task was issued again, but for the checks of two commits
    assert (len(decided_once(place)), len(checks(place))) == (4, 6)
    assert place.audience.dead_letters() == []
    replayed = [r for r in place.audience.records("locks") if REPLAYED_FROM in dict(r.headers)]
    assert len(replayed) == 3


def checked(place: Place) -> list[str]:
    return [instant for _, instant in commits_checked(place)]


def test_what_a_decider_missed_is_made_up_for_and_what_it_did_is_not_done_again(
    place: Place,
) -> None:
    table = HandMade(place.lake / "customers").create()
    table.commit(at(1))
    services = ("coordinator", "savepoint-writer")
    with place.running(*services):
        publish_commits(place, [1])
        wait_for("the savepoint", lambda: savepoints(place) == [("customers", at(1))])
        place.wait_until_idle(*services)
    table.commit(at(2), at(1))
    table.commit(at(3), at(2))
    with place.running(*services, rules=""):
        publish_commits(place, [2, 3])
        place.wait_until_idle(*services)
    with place.running(*services):
        place.wait_until_idle(*services)
    assert checked(place) == [at(1)]
    assert len(savepoints(place)) == 1

    place.call("group", "coordinator", "--to-earliest", "--execute")
    with place.running(*services):
        wait_for("the savepoints", lambda: len(savepoints(place)) == 3)
        place.wait_until_idle(*services)
    # of the checks that wait for that of the first commit, only the newest is issued
    assert (checked(place)[:2], checked(place)[-1]) == ([at(1), at(1)], at(3))

    # none was made or found a second time
    assert savepoints(place) == [("customers", at(minute)) for minute in (1, 2, 3)]
    made = [e.made for e in place.outcomes() if isinstance(e, SavepointsChecked)]
    assert (len(made), sum(made)) == (len(checked(place)), 3)


def test_a_dry_run_says_what_would_change_and_changes_nothing(place: Place) -> None:
    publish_commits(place, [1, 2, 3])
    with place.running("coordinator"):
        place.end_tasks()
    assert checked(place) == [at(1), at(3)]

    shown = place.call("group", "coordinator", "--topic", "commits", "--to-offset", "1")
    events = place.call("events", "--topic", "commits", "-t", "lake.shop.customers")

    [reset] = shown["changes"]
    assert (reset["from_offset"], reset["to_offset"], reset["again"]) == (3, 1, 2)
    assert reset["group"] == f"{place.prefix}.coordinator"
    assert [event["event"] for event in events["changes"]] == ["CommitCompleted"] * 3
    assert place.call("group", "coordinator", "--topic", "commits", "--to-offset", "1") == shown
    assert len(place.audience.records("commits")) == 3
    assert place.call("group", "coordinator", "--topic", "commits", "--since", "1h")["changes"] == [
        {**reset, "to_offset": 0, "again": 3}
    ]


def test_a_running_service_is_not_put_back(place: Place) -> None:
    publish_commits(place, [1])
    with place.running("coordinator"):
        wait_for("the commands", lambda: len(checked(place)) == 1)
        with pytest.raises(TidegateError, match="stop the service first"):
            place.call("group", "coordinator", "--to-earliest", "--execute")
        publish_commits(place, [2])
        place.end_tasks()
        assert checked(place) == [at(1), at(2)]


def test_restores_are_not_replayed_by_the_way(place: Place) -> None:
    four_commits(place.lake / "orders", 9)
    services = ("coordinator", "restorer")
    with place.running(*services), place.publisher() as publisher:
        publisher.request_restore(
            **place.subject("orders"),
            savepoint=at(2),
            requested_by="ana",
            reason="bad",
            seen_up_to=end_of(at(4)),
        )
        wait_for("the outcomes", lambda: len(place.outcomes()) == 1)
        place.wait_until_idle(*services)

    assert place.call("group", "restorer", "--to-earliest")["restores"] == 1
    for replayed in (
        ("group", "restorer", "--to-earliest"),
        ("group", "coordinator", "--to-earliest"),
        ("events", "--topic", "requests", "--from-offset", "0"),
        ("events", "--topic", "tasks", "--from-offset", "0"),
    ):
        with pytest.raises(TidegateError, match="1 of the selected records are restores"):
            place.call(*replayed, "--execute")
    assert place.unread("restorer") == 0
    assert len(place.audience.records("requests")) == len(place.audience.records("tasks")) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(("group", "unknown", "--to-earliest"), id="no such service"),
        pytest.param(("group", "restorer"), id="no target"),
        pytest.param(("group", "restorer", "--to-earliest", "--to-offset", "1"), id="two targets"),
        pytest.param(("group", "restorer", "--since", "2026-11-21T12:00:00"), id="no zone"),
        pytest.param(("group", "restorer", "--to-earliest", "--topic", "locks"), id="not consumed"),
        pytest.param(("group", "restorer", "--to-earliest", "--partition", "9"), id="partition"),
        pytest.param(("events", "--topic", "commits"), id="no condition"),
        pytest.param(("events", "--topic", "dead-letters", "--from-offset", "0"), id="no events"),
    ],
)
def test_a_wrong_call_is_refused(place: Place, wrong: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        place.call(*wrong)
