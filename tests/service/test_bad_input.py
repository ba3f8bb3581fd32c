"""All services on one bus: bad input gets a clear answer of its own and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.acid import FIVE_LISTINGS, IDS_1_TO_3, INSERTS, MINOR_3, TABLE, build, names_in
from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    snapshot,
    timeline_names,
)
from support.memory_bus import MemoryBus
from support.samples import (
    ended,
    events_on,
    memory_bus,
    message,
    outcomes_on,
    task_message,
    task_of,
    tasks_on,
)
from tidegate.events import (
    CleaningRefused,
    Command,
    CommitCompleted,
    Event,
    LockReleased,
    RestoreCompleted,
    RestoreRejected,
    SavepointCreated,
    SavepointRejected,
    SavepointsChecked,
    TaskEnded,
    VacuumFinished,
)
from tidegate.publisher import Message
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.service.assembly import SERVICES, Loop, assemble
from tidegate.service.settings import Settings
from tidegate.tables.claim import HIVE, HUDI

OUTCOMES = "tidegate.outcomes"
DEAD = "tidegate.dead-letters"
Say = Callable[..., Sequence[Event]]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A warehouse with a Hudi table and a vacuumed ACID table; a table of each kind outside."""
    for root in (tmp_path / "lake", tmp_path / "outside"):
        root.mkdir()
        four_commits(root / "orders", 9)
        build(root / "table_txn_001", FIVE_LISTINGS[1].directories)
    return tmp_path / "lake"


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus()


@pytest.fixture
def loops(lake: Path, bus: MemoryBus) -> Iterator[list[Loop]]:
    shown = {
        "warehouse": {"roots": [str(lake)]},
        "cleaning": {"confirm_with": "nothing"},
        "restores": {"watch_seconds": 0},
        "savepoints": [{"tables": "lake.*", "when": "every_commit", "lifetime": "forever"}],
    }
    joined = [assemble(name, Settings.model_validate(shown), bus) for name in SERVICES]
    yield joined
    for loop in joined:
        loop.close()


@pytest.fixture
def say(bus: MemoryBus, loops: list[Loop]) -> Say:
    """Publish events or raw messages, let the services come to rest, give the outcomes."""

    def publish(*said: Event | Message) -> Sequence[Event]:
        bus.send([item if isinstance(item, Message) else message(item) for item in said])
        come_to_rest(loops)
        return outcomes_on(bus)

    return publish


def come_to_rest(loops: list[Loop]) -> None:
    deadline, rests = time.monotonic() + 30, 0
    while rests < 3:
        busy = [loop.step(0.001) for loop in loops]  # type: ignore[attr-defined]  # both kinds step
        idle = not any(loop.pending for loop in loops if isinstance(loop, ExecutorLoop))
        rests = rests + 1 if idle and not any(busy) else 0
        assert time.monotonic() < deadline, "the services do not come to rest"


def dead(bus: MemoryBus) -> list[tuple[str, str, str]]:
    """Of each dead letter: the topic, who set it aside, and what went wrong."""
    dead_letters = [dict(record.headers) for record in bus.records(DEAD)]
    names = ("x-original-topic", "__connect.errors.connector.name", "x-exception-message")
    rows = [tuple((headers[name] or b"").decode() for name in names) for headers in dead_letters]
    return sorted(rows)  # type: ignore[arg-type]


def tables(root: Path) -> dict[str, bytes]:
    """All bytes of all tables, but for the answers and the claims that Tidegate keeps there."""
    own = (f"/{HUDI}/", f"/{HIVE}/")
    return {
        name: content
        for name, content in snapshot(root).items()
        if not any(folder in name for folder in own)
    }


def orders(lake: Path, name: str = "orders") -> HandMade:
    return HandMade(lake / name)


def commit(location: Path, instant: str) -> CommitCompleted:
    given = {"table": "lake.sales.orders", "location": str(location), "instant": instant}
    return CommitCompleted.model_validate(
        given | {"occurred_at": NOW, "source": "ingest", "action": "commit"}
    )


def vacuum(location: Path, *directories: str, **changes: object) -> list[Event]:
    """A minor vacuum of three inserts, and the release of its only lock, its own."""
    subject = {"table": TABLE, "location": str(location), "occurred_at": NOW, "source": "hive"}
    shown = {
        "kind": "minor",
        "directories": directories or (MINOR_3,),
        "min_write_id": 1,
        "max_write_id": 3,
        "valid_write_ids": IDS_1_TO_3,
        "own_lock_id": 7,
        "locks": ({"lock_id": 7},),
    }
    return [
        VacuumFinished.model_validate(subject | shown | changes),
        LockReleased.model_validate(subject | {"lock_id": 7}),
    ]


def assert_every_task_has_ended(bus: MemoryBus, count: int) -> None:
    issued = {(task.table, task.number) for task in tasks_on(bus)}
    ends = [event for event in events_on(bus, OUTCOMES) if isinstance(event, TaskEnded)]
    assert {(end.table, end.number) for end in ends} == issued
    assert (len(ends), len(issued)) == (count, count)


def test_good_input_is_worked_off_by_these_very_services(
    say: Say, lake: Path, bus: MemoryBus
) -> None:
    outcomes = say(commit(lake / "orders", at(4)), *vacuum(lake / "table_txn_001"))

    shown = {type(outcome).__name__ for outcome in outcomes}
    savepoint, cleaning = {"SavepointCreated", "SavepointsChecked"}, {"CleaningStarted"}
    assert shown == savepoint | cleaning | {"DirectoriesCleaned"}
    assert_every_task_has_ended(bus, 2)
    assert (lake / f"orders/.hoodie/timeline/{at(4)}.savepoint.inflight").exists()
    assert set(INSERTS) & set(names_in(lake / "table_txn_001")) == set()
    assert dead(bus) == []


@pytest.mark.parametrize(
    ("topic", "hearers"),
    [
        ("tidegate.commits", ["coordinator"]),
        ("tidegate.vacuums", ["coordinator"]),
        ("tidegate.locks", ["coordinator"]),
        ("tidegate.requests", ["coordinator"]),
        ("tidegate.tasks", ["cleaner", "restorer", "savepoint-writer"]),
    ],
)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(b"poison", "neither an Avro single object", id="no event"),
        pytest.param(None, "the message is empty", id="nothing"),
        pytest.param(b"\xc3\x01" + b"\x00" * 8, "unknown schema", id="an unknown schema"),
    ],
)
def test_an_undecodable_message_goes_to_the_dead_letters_of_each_consumer(  # noqa: PLR0913, PLR0917 - fixtures and a case
    say: Say,
    lake: Path,
    bus: MemoryBus,
    topic: str,
    hearers: list[str],
    value: bytes | None,
    reason: str,
) -> None:
    before = tables(lake.parent)
    outcomes = say(Message(topic, b"lake.sales.orders", value))

    assert outcomes == []
    assert [(where, who) for where, who, _ in dead(bus)] == [(topic, who) for who in hearers]
    assert all(reason in why for _, _, why in dead(bus))
    assert {record.value for record in bus.records(DEAD)} == {value}
    assert tables(lake.parent) == before


def test_an_event_on_the_wrong_topic_or_key_goes_to_the_dead_letters(
    say: Say, lake: Path, bus: MemoryBus
) -> None:
    before = tables(lake.parent)
    good = message(commit(lake / "orders", at(2)))
    outcomes = say(
        Message("tidegate.locks", good.key, good.value),
        Message("tidegate.commits", b"lake.sales.other", good.value),
    )

    assert outcomes == []
    assert [(where, who) for where, who, _ in dead(bus)] == [
        ("tidegate.commits", "coordinator"),
        ("tidegate.locks", "coordinator"),
    ]
    assert tables(lake.parent) == before


def test_what_follows_a_poison_message_is_worked_off(say: Say, lake: Path, bus: MemoryBus) -> None:
    poison = Message("tidegate.commits", b"lake.sales.orders", b"poison")
    outcomes = say(poison, commit(lake / "orders", at(4)), poison)

    created, checked = outcomes
    assert isinstance(created, SavepointCreated)
    assert isinstance(checked, SavepointsChecked)
    assert len(dead(bus)) == 2


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        pytest.param("lake/none", "no-such-table", id="an unknown table"),
        pytest.param("outside/orders", "outside-warehouse", id="outside the roots"),
        pytest.param("lake/../outside/orders", "outside-warehouse", id="a step upwards"),
        pytest.param("lake/link", "outside-warehouse", id="a link out of the roots"),
        pytest.param("lake", "outside-warehouse", id="the root itself"),
        pytest.param("lake/table_txn_001", "no-such-table", id="a table of another format"),
        pytest.param("lake/orders ", "no-such-table", id="a space at the end"),
        pytest.param("lake/orders/.hoodie/hoodie.properties", "no-such-table", id="a file"),
    ],
)
def test_a_bad_location_is_rejected_with_its_reason(
    say: Say, lake: Path, bus: MemoryBus, place: str, reason: str
) -> None:
    (lake / "link").symlink_to(lake.parent / "outside/orders")
    before = tables(lake.parent)
    where = f"{lake.parent}/{place}"
    shown = {"location": where}
    outcomes = say(
        commit(Path("/"), at(2)).model_copy(update=shown),
        savepoint_request(orders(lake), at(2), **shown),
        restore_request(orders(lake), at(2), **shown),
    )

    reasons = [(type(o), o.reason) for o in outcomes if hasattr(o, "reason")]
    expected = [(SavepointRejected, reason)] * 2 + [(RestoreRejected, reason)]
    assert sorted(map(str, reasons)) == sorted(map(str, expected))
    assert (len(outcomes), dead(bus)) == (3, [])
    assert tables(lake.parent) == before


@pytest.mark.parametrize(
    ("place", "directories", "reason"),
    [
        pytest.param("lake/none", (MINOR_3,), "no-such-table", id="an unknown table"),
        pytest.param("outside/table_txn_001", (MINOR_3,), "outside-warehouse", id="outside"),
        pytest.param("lake/link", (MINOR_3,), "outside-warehouse", id="a link out"),
        pytest.param("lake", (MINOR_3,), "outside-warehouse", id="the root itself"),
        pytest.param(
            "lake/unvacuumed", (MINOR_3,), "products-missing", id="the product is missing"
        ),
        pytest.param("lake/table_txn_001", ("orders",), "bad-name", id="no name of Hive's"),
    ],
)
def test_a_bad_vacuum_is_refused_with_its_reason(  # noqa: PLR0913, PLR0917 - fixtures and a case
    say: Say, lake: Path, bus: MemoryBus, place: str, directories: tuple[str, ...], reason: str
) -> None:
    (lake / "link").symlink_to(lake.parent / "outside/table_txn_001")
    build(lake / "unvacuumed", FIVE_LISTINGS[0].directories)
    before = tables(lake.parent)
    [outcome] = say(*vacuum(lake.parent / place, *directories))

    assert isinstance(outcome, CleaningRefused)
    assert_every_task_has_ended(bus, 1)
    assert (outcome.reason, dead(bus)) == (reason, [])
    assert tables(lake.parent) == before


@pytest.mark.parametrize("instant", [at(9), "20200101000000000", "20200101000000"])
def test_a_commit_or_savepoint_that_does_not_exist_is_rejected(
    say: Say, lake: Path, bus: MemoryBus, instant: str
) -> None:
    before = tables(lake.parent)
    asked = savepoint_request(orders(lake), instant), restore_request(orders(lake), instant)
    restored, saved = sorted(say(*asked), key=lambda outcome: type(outcome).__name__)

    assert isinstance(saved, SavepointRejected)
    assert isinstance(restored, RestoreRejected)
    assert (saved.reason, restored.reason) == ("no-such-commit", "no-such-savepoint")
    assert dead(bus) == []
    assert tables(lake.parent) == before


@pytest.mark.parametrize(
    "beyond",
    [
        pytest.param({"location": "orders"}, id="a relative location"),
        pytest.param({"location": "/lake/orders\n"}, id="a newline in a location"),
        pytest.param({"savepoint": "../../../etc"}, id="a path for an instant"),
        pytest.param({"savepoint": ""}, id="an empty instant"),
        pytest.param({"reason": "r" * 1_001}, id="a long reason"),
        pytest.param({"event_id": "../" * 9}, id="a path for an id"),
    ],
)
@pytest.mark.parametrize(
    ("sent", "topic", "service"),
    [(message, "tidegate.requests", "coordinator"), (task_message, "tidegate.tasks", "restorer")],
)
def test_a_request_with_a_value_beyond_its_limit_goes_to_the_dead_letters(  # noqa: PLR0913, PLR0917 - fixtures and a case
    say: Say,
    lake: Path,
    bus: MemoryBus,
    beyond: dict[str, str],
    sent: Callable[[Command], Message],
    topic: str,
    service: str,
) -> None:
    before = tables(lake.parent)
    foreign = sent(restore_request(orders(lake), at(2)).model_copy(update=beyond))

    assert say(foreign) == []
    [(where, who, why)] = dead(bus)
    assert (where, who) == (topic, service)
    assert next(iter(beyond)) in why
    assert tables(lake.parent) == before


def test_a_restore_to_a_commit_without_a_savepoint_is_rejected(say: Say, lake: Path) -> None:
    before = tables(lake.parent)
    [outcome] = say(restore_request(orders(lake), at(2)))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "no-such-savepoint"
    assert tables(lake.parent) == before


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({}, id="all is as it would be"),
        {"table": "lake.sales.invoices"},
        {"location": "/lake/sales/invoices"},
        {"savepoint": at(1)},
        {"caused_by": "another"},
    ],
)
def test_a_forged_outcome_does_not_stand_for_the_restore_that_it_claims(
    say: Say, lake: Path, forged: dict[str, str]
) -> None:
    table = orders(lake)
    say(savepoint_request(table, at(2)))
    request = restore_request(table, at(2))
    fields = {"savepoint": at(2), "restore_instant": "1", "files_deleted": 0, "duration_ms": 0}
    lie = RestoreCompleted.about(
        request, **fields, instants=(), source="restorer", occurred_at=NOW
    ).model_copy(update={"caused_by": request.event_id} | forged)

    outcomes = say(lie, ended(task_of(request, 2), source="restorer"), request)

    done = [event for event in outcomes if isinstance(event, RestoreCompleted)]
    assert len([restore for restore in done if restore.restore_instant != "1"]) == 1
    assert not [name for name in timeline_names(table) if name.startswith((at(3), at(4)))]
