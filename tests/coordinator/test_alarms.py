"""What waits too long is said once, and once when it is over; also across restarts. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from support.acid import IDS_1_TO_4, NOON, TABLE
from support.acid_events import released, vacuum
from support.rows import Rows
from tidegate.coordinator.alarms import AlarmSettings
from tidegate.coordinator.alarms.unknown_tables import UnknownTables
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.subject import Subjects
from tidegate.events import (
    Event,
    LockReleased,
    Outcome,
    OutstandingReader,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumFinished,
    VacuumFlagged,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.fields import span

DAY = timedelta(days=1)
LATER = NOON + DAY
SECOND = timedelta(seconds=1)


class Gate(Rows):
    """A gate whose process is killed after every decision: another one reads its changelog."""

    def __init__(self, *rules: AlarmSettings, restarts: bool = True) -> None:
        subjects = Subjects(UnknownTables(rules), ReaderGate(alarms=rules))
        super().__init__(subjects, restarts=restarts)

    def decide(self, *events: Event, at: datetime = NOON) -> list[Outcome]:
        before = len(self.outcomes)
        self.handle(*events, at=at)
        return self.outcomes[before:]

    def said_at(self, at: datetime) -> list[Outcome]:
        before = len(self.outcomes)
        self.tick(at)
        return self.outcomes[before:]


def kinds(outcomes: list[Outcome]) -> list[type[Event]]:
    return [type(outcome) for outcome in outcomes]


def test_a_vacuum_that_waits_longer_than_the_limit_is_said_once() -> None:
    gate = Gate()
    waits = vacuum(7, 8, open_transactions=[90], transactions_of={8: 80})
    gate.decide(waits, released(7))

    assert gate.said_at(LATER - SECOND) == []
    [said] = gate.said_at(LATER)
    assert isinstance(said, VacuumOverdue)
    assert (said.caused_by, said.table, said.since, said.occurred_at) == (
        waits.event_id,
        TABLE,
        NOON,
        LATER,
    )
    assert said.waits_for == (
        OutstandingReader(lock_id=8, transaction_id=80, owner="user-8"),
        OutstandingReader(transaction_id=90),
    )
    assert said.holds_left == 2
    assert said.limit_seconds == DAY.total_seconds()
    assert "longer than 1d. Outstanding: lock 8 in transaction 80 of user-8" in said.message
    assert gate.said_at(LATER + DAY) == []


def test_when_it_is_released_that_is_said_too_and_once() -> None:
    gate = Gate()
    waits = vacuum(7, 8)
    gate.decide(waits, released(7))
    gate.said_at(LATER)
    [over] = gate.decide(released(8), released(8), at=LATER + SECOND)

    assert isinstance(over, VacuumOverdueResolved)
    assert (over.caused_by, over.since, over.overdue_since) == (waits.event_id, NOON, LATER)
    assert over.replaced_by is None
    assert gate.decide(waits, at=LATER + DAY) == []
    assert gate.said_at(LATER + 2 * DAY) == []


def test_what_was_released_in_time_is_never_said() -> None:
    gate = Gate()
    gate.decide(vacuum(7, 8), released(7), released(8))

    assert gate.said_at(LATER) == []


def test_a_correction_ends_the_alarm_of_the_first_publication_and_may_begin_its_own() -> None:
    gate = Gate()
    first = vacuum(7, 8)
    corrected = vacuum(7, 8, snapshot=IDS_1_TO_4)
    gate.decide(first)
    gate.said_at(LATER)
    said = gate.decide(corrected, at=LATER + SECOND)

    assert kinds(said) == [VacuumOverdueResolved, VacuumFlagged]
    assert [item.replaced_by for item in said if isinstance(item, VacuumOverdueResolved)] == [
        corrected.event_id
    ]
    [again] = gate.said_at(LATER + 2 * SECOND)
    assert (again.caused_by, type(again)) == (corrected.event_id, VacuumOverdue)


def test_the_same_publication_again_does_not_say_it_again() -> None:
    gate = Gate()
    gate.decide(vacuum(7, 8))
    gate.said_at(LATER)

    assert gate.decide(vacuum(7, 8, 9), at=LATER + SECOND) == []  # another lock is merged
    assert gate.said_at(LATER + DAY) == []
    assert kinds(gate.decide(released(7), released(8), released(9))) == [VacuumOverdueResolved]


def test_the_first_rule_that_matches_a_table_sets_its_limits() -> None:
    rules = AlarmSettings(tables="hive.default.*", overdue_after=1), AlarmSettings(overdue_after=0)
    gate = Gate(*rules)
    gate.decide(vacuum(7), vacuum(8, table="hive.other.t"))

    assert [item.table for item in gate.said_at(NOON + SECOND)] == [TABLE]
    assert gate.said_at(NOON + 365 * DAY) == []


def test_of_thousands_that_wait_those_that_are_due_are_said_and_no_others() -> None:
    gate = Gate(restarts=False)
    early = [vacuum(n, made=f"delta_{n:07}_{n:07}") for n in range(1, 400)]
    late = [vacuum(n, made=f"delta_{n:07}_{n:07}") for n in range(400, 5_000)]
    gate.decide(*early)
    gate.decide(*late, at=NOON + SECOND)

    said = gate.said_at(LATER)
    assert sorted(map(str, (item.caused_by for item in said))) == sorted(
        item.event_id for item in early
    )


def test_the_times_of_vacuums_that_are_gone_take_no_lasting_memory() -> None:
    gate = Gate(restarts=False)
    gate.said_at(NOON)
    for n in range(1, 3_000):
        gate.decide(vacuum(n, made=f"delta_{n:07}_{n:07}"), released(n))
        if n % 2:
            gate.decide(vacuum(n + 10_000, made=f"delta_{n:07}_{n:07}_v1"))
            gate.decide(released(n + 10_000))

    [rows] = gate.store.one("select count(*) from vacuum")
    [reported] = gate.store.one("select count(*) from overdue")
    assert (rows, reported) == (0, 0)


def test_a_release_of_an_unknown_table_is_reported_once() -> None:
    gate = Gate()
    gate.decide(released(7, txn=70), released(8), at=NOON)

    assert gate.said_at(NOON + 7 * DAY - SECOND) == []
    [said] = gate.said_at(NOON + 7 * DAY)
    assert isinstance(said, UnknownTableReleased)
    assert (said.lock_id, said.transaction_id, said.published_by) == (7, 70, "bridge")
    assert (said.since, said.table) == (NOON, TABLE)
    assert said.caused_by == released(7, txn=70).event_id
    assert gate.decide(released(9), at=NOON + 8 * DAY) == []
    assert gate.said_at(NOON + 30 * DAY) == []


def test_a_vacuum_of_it_ends_that_alarm() -> None:
    gate = Gate()
    gate.decide(released(7))
    gate.said_at(NOON + 7 * DAY)
    first = vacuum(8)
    [over] = gate.decide(first, at=NOON + 8 * DAY)

    assert isinstance(over, UnknownTableResolved)
    assert (over.caused_by, over.since, over.unknown_since) == (
        first.event_id,
        NOON,
        NOON + 7 * DAY,
    )
    assert gate.decide(vacuum(8), released(9), at=NOON + 9 * DAY) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([released(7), vacuum(8)], id="the release came first"),
        pytest.param([vacuum(8), released(7)], id="the vacuum came first"),
        pytest.param([vacuum(7), released(7), released(9)], id="its vacuum is cleaned"),
    ],
)
def test_a_table_with_a_vacuum_is_known(events: list[VacuumFinished | LockReleased]) -> None:
    gate = Gate(AlarmSettings(overdue_after=0))
    gate.decide(*events)

    assert gate.said_at(NOON + 30 * DAY) == []


def test_after_a_replay_from_the_beginning_the_same_ids_are_said() -> None:
    events = vacuum(7, 8), released(7)
    first, second = Gate(), Gate()
    first.decide(*events)
    second.decide(*events, at=NOON + SECOND)

    assert [item.event_id for item in first.said_at(LATER)] == [
        item.event_id for item in second.said_at(LATER + DAY)
    ]


@pytest.mark.parametrize(
    ("seconds", "written"), [(86_400, "1d"), (129_600, "36h"), (90, "90s"), (120, "2m"), (0, "0s")]
)
def test_a_limit_is_written_as_in_the_settings(seconds: int, written: str) -> None:
    assert span(timedelta(seconds=seconds)) == written
