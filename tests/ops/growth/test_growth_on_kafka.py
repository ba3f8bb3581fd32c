"""A deployment gets more partitions on a real broker, and no waiting vacuum is forgotten."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from support.replays import Place
from support.waiting import wait_for
from tidegate.errors import ConfigError, TidegateError
from tidegate.events import CleaningReleased
from tidegate.local.demo.monitor import TopicMonitor
from tidegate.ops.groups import GroupInUseError
from tidegate.ops.growth import Growth, GrowthPlan
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import assemble

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
GATE = "reader-gate"
TABLES = [f"t{number}" for number in range(20)]
LOCKS = range(1, 4)


def publish_vacuums(place: Place) -> None:
    """Three vacuums a table, each with a lock of its own and one that a reader has."""
    with place.publisher() as publisher:
        for table in TABLES:
            for lock in LOCKS:
                publisher.vacuum_finished(
                    **place.subject(table),
                    kind="minor",
                    directories=[f"delta_{lock:07d}_{lock:07d}"],
                    min_write_id=lock,
                    max_write_id=lock,
                    valid_write_ids=f"shop.{table}:{lock}:9223372036854775807::",
                    own_lock_id=lock,
                    locks=[{"lock_id": lock}, {"lock_id": 100 + lock}],
                )
                publisher.lock_released(**place.subject(table), lock_id=lock)


def release_readers(place: Place) -> None:
    with place.publisher() as publisher:
        for table in TABLES:
            for lock in LOCKS:
                publisher.lock_released(**place.subject(table), lock_id=100 + lock)


def released(place: Place, partitions: int = 5) -> int:
    commands = TopicMonitor(place.servers, place.prefix, partitions).commands()
    return len({command.event_id for command in commands if isinstance(command, CleaningReleased)})


def start(place: Place) -> None:
    """Run the gate in this thread until it has its partitions, or refuses them."""
    settings, stop = place.settings(), threading.Event()
    bus = KafkaBus(settings.connection(), {"session.timeout.ms": 6000})
    loop = assemble(GATE, settings, bus)
    timer = threading.Timer(5, stop.set)
    timer.start()
    try:
        loop.run(stop)
    finally:
        timer.cancel()
        loop.close()
        bus.close()


def grow(place: Place, partitions: int) -> GrowthPlan:
    with Growth(place.settings()) as growth:
        plan = growth.plan(partitions)
        growth.execute(plan)
        return plan


def test_every_vacuum_that_waited_before_is_released_after(place: Place) -> None:
    publish_vacuums(place)
    with place.running(GATE):
        place.wait_until_idle(GATE)
        with pytest.raises(GroupInUseError), Growth(place.settings()) as growth:
            growth.plan(5)
    assert released(place, 2) == 0

    plan = grow(place, 5)
    assert set(plan.topics.values()) == {2}
    assert plan.tables[GATE] > 0
    with Growth(place.settings()) as growth:
        assert growth.plan(5).is_done

    release_readers(place)
    with place.running(GATE):
        wait_for("all of them", lambda: released(place) == len(TABLES) * len(LOCKS), seconds=60)


def test_after_a_crash_between_copying_and_removing_nothing_is_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_vacuums(place)
    with place.running(GATE):
        place.wait_until_idle(GATE)

    class Crash(Exception):  # noqa: N818 - not an error of the program
        pass

    def crash(log: object, number: int, entries: list[tuple[bytes, bytes | None]]) -> None:
        if entries and entries[0][1] is None:
            raise Crash
        write(log, number, entries)

    write = __import__("tidegate.ops.growth.cluster", fromlist=["_write"])._write
    monkeypatch.setattr("tidegate.ops.growth.cluster._write", crash)
    with pytest.raises(Crash):
        grow(place, 5)
    monkeypatch.undo()
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", place.servers)
    with pytest.raises(ConfigError, match="the state was made for 2"):
        start(place)

    grow(place, 5)
    release_readers(place)
    with place.running(GATE):
        wait_for("all of them", lambda: released(place) == len(TABLES) * len(LOCKS), seconds=60)


def test_topics_that_were_grown_by_hand_are_refused_by_the_gate_and_put_right(place: Place) -> None:
    publish_vacuums(place)
    with place.running(GATE):
        place.wait_until_idle(GATE)
    admin = AdminClient({"bootstrap.servers": place.servers})
    names = [name for name in admin.list_topics(timeout=60).topics if name.startswith(place.prefix)]
    for future in admin.create_partitions([NewPartitions(name, 5) for name in names]).values():
        future.result(60)

    grow(place, 5)
    release_readers(place)
    with place.running(GATE):
        wait_for("all of them", lambda: released(place) == len(TABLES) * len(LOCKS), seconds=60)


def test_unread_records_are_refused_before_anything_changes(place: Place) -> None:
    publish_vacuums(place)

    with pytest.raises(TidegateError, match="unread records: reader-gate 120"):
        grow(place, 5)
    with pytest.raises(ConfigError, match="can't have fewer"):
        grow(place, 1)
