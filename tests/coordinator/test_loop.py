"""Crash rules 1 to 4 and 6 of a decider, on the bus in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from support.changelogs import OpenPartition
from support.memory_bus import MemoryBus, MemoryChangelog, MemorySubscription
from support.rows import restored
from support.samples import (
    NOON,
    EveryThird,
    commands_on,
    commit,
    counted_of,
    end_tasks,
    events_on,
    memory_bus,
    message,
    release,
    savepoint_request,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.rows.position import POSITION_KEY
from tidegate.coordinator.rows.records import row_key
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Effects
from tidegate.coordinator.vacuums import waiting_vacuums
from tidegate.errors import (
    ConfigError,
    DeadLetterFlood,
    DeliveryError,
    MessageTooLargeError,
    OffsetGapError,
    StopService,
    TidegateError,
    TransientError,
)
from tidegate.events import Event, SavepointRejected, SavepointRequested, VacuumFinished
from tidegate.publisher import Message
from tidegate.runtime.bus import (
    NO_METADATA,
    ChangelogRecord,
    CommitMetadata,
    Offsets,
    Partition,
    Record,
    Watermarks,
)
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.retry import RetryPolicy

COMMANDS = "tidegate.outcomes"
DEAD = "tidegate.dead-letters"
CHANGELOG = "tidegate.coordinator.changelog"
ORDERS = row_key("lake.sales.orders", "counted")


class Killed(BaseException):
    """A SIGKILL: nothing after it runs."""


class DyingBus(MemoryBus):
    """Dies at its `fuse`-th act: before a send, in the middle of a changelog write, at a commit."""

    fuse = 10**9
    acts: Sequence[str] = ()

    def burn(self, act: str) -> None:
        self.acts = [*self.acts, act]
        self.fuse -= 1
        if self.fuse < 0:
            raise Killed

    def send(self, messages: Sequence[Message]) -> None:
        for item in messages:
            self.burn(item.topic)
            super().send([item])

    def changelog(self, topic: str) -> MemoryChangelog:
        return MemoryChangelog(self, topic)


class DyingSubscription(MemorySubscription):
    """Dies before it commits."""

    def commit(
        self, at: Offsets, metadata: CommitMetadata = NO_METADATA, *, wait: bool = False
    ) -> None:
        assert isinstance(self._bus, DyingBus)
        self._bus.burn("commit")
        super().commit(at, metadata, wait=wait)


def dying_bus() -> DyingBus:
    plain = memory_bus(partitions=1)
    return DyingBus({log.topic for log in plain._logs}, partitions=1)


def work_off(loop: CoordinatorLoop) -> None:
    while loop.step(0):
        pass


def commands(bus: MemoryBus) -> list[str | None]:
    return [item.caused_by for item in events_on(bus, COMMANDS)]


def test_a_decider_says_its_commands_and_remembers_its_state() -> None:
    bus = memory_bus()
    bus.send([message(commit(n)) for n in range(4)])
    loop = CoordinatorLoop(EveryThird(), bus)
    work_off(loop)

    assert commands(bus) == [commit(2).event_id]
    (entry,) = [r for r in bus.records(CHANGELOG) if r.key == ORDERS]
    assert entry.value == b"[1]"


class Auditor(EveryThird):
    """Publishes a command and an outcome for every third event."""

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        if not super().handle(event, rows, at).outcomes:
            return Effects()
        command = SavepointRequested.about(
            event, requested_by="third", source="auditor", occurred_at=at
        )
        rejected = SavepointRejected.about(
            command, reason="no-such-commit", message="why", source="auditor", occurred_at=at
        )
        return Effects([command], [rejected])


def test_rule_2_rows_are_remembered_before_commands_and_outcomes_are_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("support.memory_bus.MemorySubscription", DyingSubscription)
    bus = dying_bus()
    MemoryBus.send(bus, [message(commit(n)) for n in range(3)])
    loop = CoordinatorLoop(Auditor(), bus)
    work_off(loop)

    acts = [act for act in bus.acts if act != DEAD]
    rows = acts.index("tidegate.outcomes")
    assert set(acts[:rows]) == {CHANGELOG}
    assert acts[rows : rows + 3] == ["tidegate.outcomes", "tidegate.tasks", "commit"]
    (command,) = commands_on(bus)
    assert [item.caused_by for item in events_on(bus, "tidegate.outcomes")] == [command.event_id]
    MemoryBus.send(bus, [message(commit(3))])
    work_off(loop)
    assert len(events_on(bus, "tidegate.outcomes")) == 1, "what was published is not pending"


def test_rule_1_a_new_process_restores_the_state_before_its_first_event() -> None:
    bus = memory_bus()
    bus.send([message(commit(0)), message(commit(1))])
    first = CoordinatorLoop(EveryThird(), bus)
    work_off(first)
    first.close()

    second = CoordinatorLoop(EveryThird(), bus)
    bus.send([message(commit(2))])
    work_off(second)

    assert commands(bus) == [commit(2).event_id]


def test_rule_1_topics_that_are_not_copartitioned_are_refused_at_the_start() -> None:
    class Uneven(MemoryBus):
        def partitions(self, topic: str) -> int:
            return 4 if topic == "tidegate.locks" else 3

    bus = Uneven([f"tidegate.{t}" for t in ("commits", "locks", "tasks")])
    with pytest.raises(ConfigError, match=r"same number of partitions: .*tidegate.locks: 4"):
        CoordinatorLoop(EveryThird(), bus)


def applied_and_gone(bus: MemoryBus, count: int) -> None:
    """A decider applies some commits and leaves; its group's offsets are forgotten."""
    bus.send([message(commit(n)) for n in range(count)])
    first = CoordinatorLoop(EveryThird(), bus)
    work_off(first)
    first.close()
    bus.committed.clear()


def test_rule_7_a_topic_that_was_created_again_is_neither_skipped_nor_read_as_the_old_one() -> None:
    bus = memory_bus(partitions=1)
    applied_and_gone(bus, 2)
    commits = bus.log(Partition("tidegate.commits", 0))
    commits.clear()
    bus.topic_ids["tidegate.commits"] = "another"
    bus.send([message(commit(n)) for n in range(10, 16)])

    with pytest.raises(OffsetGapError, match=r"tidegate\.commits was deleted and created again"):
        work_off(CoordinatorLoop(EveryThird(), bus))
    assert commands(bus) == []


def test_rule_7_a_topic_shorter_than_what_was_applied_of_it_stops_the_service() -> None:
    bus = memory_bus(partitions=1)
    applied_and_gone(bus, 2)
    del bus.log(Partition("tidegate.commits", 0))[1:]

    with pytest.raises(OffsetGapError, match=r"offset 2 of tidegate\.commits .* holds 0 to 1"):
        work_off(CoordinatorLoop(EveryThird(), bus))


def test_rule_7_events_deleted_before_they_were_applied_stop_the_service() -> None:
    class Retained(MemoryBus):
        def watermarks(self, partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
            found = super().watermarks(partitions)
            gone = {p: len(self.log(p)) for p in found if p.topic != CHANGELOG}
            return {p: replace(item, first=gone.get(p, 0)) for p, item in found.items()}

    plain = memory_bus(partitions=1)
    bus = Retained({log.topic for log in plain._logs}, partitions=1)
    applied_and_gone(bus, 2)
    bus.send([message(commit(2))])

    with pytest.raises(OffsetGapError, match=r"offset 2 of tidegate\.commits .* holds 3 to 3"):
        work_off(CoordinatorLoop(EveryThird(), bus))


@pytest.mark.parametrize("fuse", range(24))
def test_rules_2_and_3_a_death_at_any_moment_loses_nothing_and_counts_nothing_twice(
    fuse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.memory_bus.MemorySubscription", DyingSubscription)
    bus = dying_bus()
    wave_1 = [message(commit(n)) for n in range(4)] + [message(commit(0, "lake.sales.returns"))]
    wave_2 = [message(release(n)) for n in range(3)] + [message(commit(4))]
    MemoryBus.send(bus, wave_1)
    bus.fuse = fuse
    for _ in range(50):  # every process after the first lives three acts longer
        try:
            loop = CoordinatorLoop(EveryThird(), bus)
            work_off(loop)
            if wave_2:
                MemoryBus.send(bus, wave_2)
                wave_2 = []
                work_off(loop)
            break
        except Killed:
            bus._members.clear()
            fuse += 3
            bus.fuse = fuse

    # Eight events of orders in all: the third and the sixth say something, however often.
    said = list(dict.fromkeys(commands(bus)))
    assert len(said) == 2
    assert said[0] == commit(2).event_id
    assert counted_of(loop._owned[0].store, "lake.sales.orders") == 2
    assert counted_of(loop._owned[0].store, "lake.sales.returns") == 1


def test_rule_2_remember_then_publish_then_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.memory_bus.MemorySubscription", DyingSubscription)
    bus = dying_bus()
    MemoryBus.send(bus, [message(commit(n)) for n in range(3)])
    work_off(CoordinatorLoop(EveryThird(), bus))

    assert bus.acts[:5] == [*[CHANGELOG] * 3, COMMANDS, "commit"]


def gate_events() -> list[Message]:
    """Two tables: one whose vacuums wait in pieces, and one whose vacuum is never free."""
    orders, returns = "lake.sales.orders", "lake.sales.returns"
    facts: list[Event] = [vacuum_of(orders, 1, 9), vacuum_of(orders, 2, 9), vacuum_of(returns, 9)]
    facts += [release(lock, orders) for lock in (1, 3, 2, 4, 5)]
    return [message(event) for event in facts]


def vacuum_of(table: str, *locks: int) -> VacuumFinished:
    return VacuumFinished.model_validate(
        {
            "table": table,
            "location": "/lake/t",
            "occurred_at": NOON,
            "source": "compactor",
            "kind": "minor",
            "directories": (f"delta_{locks[0]:07}_{locks[0]:07}",),
            "min_write_id": locks[0],
            "max_write_id": locks[0],
            "valid_write_ids": "sales.t:9:9223372036854775807::",
            "own_lock_id": locks[0],
            "locks": [{"lock_id": lock} for lock in locks],
        }
    )


@pytest.mark.parametrize("fuse", range(40))
def test_rules_2_and_3_a_death_between_the_pieces_of_a_table_loses_nothing(
    fuse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.memory_bus.MemorySubscription", DyingSubscription)
    bus = DyingBus({log.topic for log in memory_bus()._logs}, partitions=1)
    waves = [gate_events(), [message(release(9))], [message(vacuum_of("lake.sales.orders", 3, 4))]]
    left = fuse
    while waves:
        bus.fuse, left = left, left + 3
        try:
            loop = CoordinatorLoop(ReaderGate(), bus)
            while waves:
                MemoryBus.send(bus, waves[0])
                waves.pop(0)
                while loop.step(0):
                    pass
        except Killed:
            bus._members.clear()
    bus.fuse = 10**9
    bus._members.clear()
    loop = CoordinatorLoop(ReaderGate(), bus)
    end_tasks(bus, loop)

    released = {(item.table, item.caused_by) for item in commands_on(bus)}
    orders = [vacuum_of("lake.sales.orders", *locks) for locks in ((1, 9), (2, 9), (3, 4))]
    assert released == {("lake.sales.orders", order.event_id) for order in orders}
    waiting = [vacuum.table for vacuum in waiting_vacuums(loop._owned[0].store)]
    assert waiting == ["lake.sales.returns"]


def test_rule_1_state_made_for_another_number_of_partitions_is_refused() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0))])
    loop = CoordinatorLoop(EveryThird(), bus)
    work_off(loop)
    loop.close()
    grown = memory_bus(partitions=2)
    grown._logs |= bus._logs
    grown.committed = bus.committed

    with pytest.raises(ConfigError, match="2 partitions, but the state was made for 1"):
        work_off(CoordinatorLoop(EveryThird(), grown))


def at_the_second_chunk(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let a step take two records at a time, and something happen before it takes the next two."""
    monkeypatch.setattr("tidegate.coordinator.loop.CHUNK", 2)
    poll, polls = MemorySubscription.poll, iter(range(1000))

    def busy(member: MemorySubscription, limit: int, timeout: float) -> Sequence[Record]:
        if next(polls) == 1:
            act()
        return poll(member, limit, timeout)

    monkeypatch.setattr(MemorySubscription, "poll", busy)


def test_rule_2_what_a_step_began_is_finished_before_its_partitions_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(n)) for n in range(5)])
    loop = CoordinatorLoop(EveryThird(), bus)
    at_the_second_chunk(monkeypatch, lambda: CoordinatorLoop(EveryThird(), bus))

    assert loop.step(0) == 5
    assert counted_of(loop._owned[0].store, "lake.sales.orders") == 2
    assert commands(bus) == [commit(2).event_id]


def test_rule_4_what_a_step_began_on_a_partition_that_was_lost_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(n)) for n in range(5)])
    loop = CoordinatorLoop(EveryThird(), bus)
    assert isinstance(loop._subscription, MemorySubscription)
    at_the_second_chunk(monkeypatch, loop._subscription.expel)

    assert loop.step(0) == 2
    assert bus.records(CHANGELOG) == []
    assert bus.committed["tidegate.coordinator"] == {}


def test_rule_2_after_a_fault_nothing_is_remembered_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(changelog: MemoryChangelog, entries: Sequence[object]) -> None:
        raise StopService(f"no room in {changelog} for {len(entries)}")

    bus = memory_bus(partitions=1)
    bus.send([message(commit(n)) for n in range(3)])
    loop = CoordinatorLoop(EveryThird(), bus)
    with monkeypatch.context() as full:
        full.setattr(MemoryChangelog, "write", refuse)
        with pytest.raises(StopService):
            loop.step(0)
    loop.close()

    assert bus.records(CHANGELOG) == []
    assert bus.committed["tidegate.coordinator"] == {}


def test_rule_2_a_write_that_is_tried_again_has_the_tables_and_not_only_the_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write, faults = MemoryChangelog.write, [TransientError("the broker is away")]

    def write_later(log: MemoryChangelog, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        if faults:
            raise faults.pop()
        write(log, entries)

    monkeypatch.setattr(MemoryChangelog, "write", write_later)
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0))])
    work_off(CoordinatorLoop(EveryThird(), bus, retries=RetryPolicy(3, 0.001, 0.001)))

    keys = [record.key for record in bus.records(CHANGELOG)]
    assert keys == [ORDERS, POSITION_KEY]


class NoCommands(MemoryBus):
    """Does not take commands while it is away."""

    is_away = True

    def send(self, messages: Sequence[Message]) -> None:
        if self.is_away and any(item.topic == COMMANDS for item in messages):
            raise DeliveryError("the broker did not confirm a command")
        super().send(messages)


def test_rule_2_a_command_that_was_not_delivered_leaves_its_event_unacknowledged() -> None:
    bus = NoCommands({log.topic for log in memory_bus()._logs}, partitions=1)
    bus.send([message(commit(n)) for n in range(3)])
    loop = CoordinatorLoop(EveryThird(), bus, retries=RetryPolicy(2, 0.001, 0.001))

    with pytest.raises(DeliveryError):
        work_off(loop)
    loop.close()
    assert bus.committed["tidegate.coordinator"] == {}

    bus._members.clear()
    bus.is_away = False
    bus.send([message(commit(3))])
    published: list[int] = []

    class Watching(EveryThird):
        def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
            published.append(len(commands(bus)))
            return super().handle(event, rows, at)

    loop = CoordinatorLoop(Watching(), bus)
    loop.step(0)
    assert published == [1], "what was remembered is published before the first new event"
    assert commands(bus) == [commit(2).event_id]
    assert counted_of(loop._owned[0].store) == 1


def test_rule_3_a_repeated_command_has_the_same_id() -> None:
    bus = memory_bus()
    bus.send([message(commit(n)) for n in range(3)])
    for _ in range(2):  # the second process finds neither state nor offset of the first
        loop = CoordinatorLoop(EveryThird(), bus)
        work_off(loop)
        bus.committed.clear()
        bus._members.clear()
        for number in range(3):
            bus.log(Partition(CHANGELOG, number)).clear()

    reported = events_on(bus, COMMANDS)
    assert len(reported) == 2
    assert reported[0] == reported[1]


def test_rule_4_a_process_that_lost_its_partitions_cannot_overwrite_its_successors_state() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0))])
    zombie = CoordinatorLoop(EveryThird(), bus)
    work_off(zombie)
    stalled = zombie._owned[0]

    assert isinstance(zombie._subscription, MemorySubscription)
    zombie._subscription.expel()
    successor = CoordinatorLoop(EveryThird(), bus)
    bus.send([message(commit(1))])
    work_off(successor)
    before = list(bus.log(Partition(CHANGELOG, 0)))

    # it wakes up in the middle of its batch and goes on to remember
    stalled.store.begin()
    stalled.store.put("counted", "lake.sales.orders", columns=(7,))
    stalled.store.commit()
    with pytest.raises(StopService, match="another process"):
        zombie._owned.write({0: stalled})
    assert bus.log(Partition(CHANGELOG, 0)) == before


def test_rule_6_a_poison_message_goes_to_the_dead_letters_and_the_rest_goes_on() -> None:
    bus = memory_bus()
    poison = Message("tidegate.commits", b"lake.sales.orders", b"not avro", (("own", b"header"),))
    bus.send([message(commit(0)), poison, message(commit(1)), message(commit(2))])
    work_off(CoordinatorLoop(EveryThird(), bus))

    assert commands(bus) == [commit(2).event_id]
    (dead_letter_,) = bus.records(DEAD)
    headers = dict(dead_letter_.headers)
    assert (dead_letter_.key, dead_letter_.value) == (poison.key, poison.value)
    assert headers["own"] == b"header"
    assert headers["__connect.errors.topic"] == b"tidegate.commits"
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["x-original-topic"] == b"tidegate.commits"
    assert b"neither an Avro single object" in (headers["__streams.errors.message"] or b"")


def test_rule_6_an_event_on_the_wrong_topic_is_set_aside_and_not_skipped() -> None:
    bus = memory_bus()
    stray = message(savepoint_request(0))
    bus.send([Message("tidegate.commits", stray.key, stray.value)])
    work_off(CoordinatorLoop(EveryThird(), bus))

    (dead_letter_,) = bus.records(DEAD)
    expected = b"SavepointRequested belongs on tidegate.requests"
    assert dict(dead_letter_.headers)["x-exception-message"] == expected


class Broken(EveryThird):
    """A decider with a fault in its code."""

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        raise ZeroDivisionError(f"{rows} {event.event_id} {at}")


def test_rule_6_bad_code_does_not_drain_a_topic_into_the_dead_letters() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(n, f"lake.a.t{n % 60}")) for n in range(200)])
    loop = CoordinatorLoop(Broken(), bus)

    with pytest.raises(DeadLetterFlood):
        work_off(loop)
    assert len(bus.records(DEAD)) == 50
    assert bus.committed["tidegate.coordinator"] == {Partition("tidegate.commits", 0): 50}
    loop.close()

    with pytest.raises(DeadLetterFlood):
        work_off(CoordinatorLoop(Broken(), bus))
    assert len(bus.records(DEAD)) == 50


def test_what_was_published_is_removed_from_the_changelog_with_the_next_batch() -> None:
    bus = memory_bus()
    bus.send([message(commit(n)) for n in range(3)])
    loop = CoordinatorLoop(EveryThird(), bus)
    work_off(loop)
    unsent = row_key("", "outbox", 1)
    keys = [r.key for r in bus.records(CHANGELOG)]
    assert keys[:3] == [ORDERS, unsent, POSITION_KEY]
    # with the batch in which it reads its own outcome back
    later = [(r.key, r.value is None) for r in bus.records(CHANGELOG)[3:]]
    assert later == [(unsent, True), (POSITION_KEY, False)]


class Picky(EveryThird):
    """Raises after it has changed rows, for every second event."""

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        effects = super().handle(event, rows, at)
        if int(getattr(event, "instant", "0")) % 2:
            raise ZeroDivisionError(event.event_id)
        return effects


def test_an_exception_rolls_one_event_back_and_the_others_of_the_batch_stay() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(n)) for n in range(5)])  # 0, 2 and 4 count
    loop = CoordinatorLoop(Picky(), bus)
    work_off(loop)
    assert commands(bus) == [commit(4).event_id]
    assert len(bus.records(DEAD)) == 2
    loop.close()
    assert counted_of(restored(Picky(), records_of(bus))) == 0


def records_of(bus: MemoryBus) -> list[ChangelogRecord]:
    return [(r.key or b"", r.value) for r in bus.log(Partition(CHANGELOG, 0))]


@pytest.mark.parametrize("cut", range(4))
def test_half_a_batch_does_not_count(cut: int) -> None:
    """A process that dies within a write leaves records without an end mark behind them."""
    bus = memory_bus(partitions=1)
    bus.send([message(commit(n)) for n in range(2)])
    first = CoordinatorLoop(EveryThird(), bus)
    work_off(first)
    first.close()
    bus.send([message(commit(2)), message(commit(9, "lake.sales.returns"))])
    second = CoordinatorLoop(EveryThird(), bus)
    second.step(0)
    bus._members.clear()
    log = bus.log(Partition(CHANGELOG, 0))
    assert [r.key for r in log[2:]].index(POSITION_KEY) == 3
    del log[2 + cut :]
    bus.committed["tidegate.coordinator"][Partition("tidegate.commits", 0)] = 2
    bus.log(Partition(COMMANDS, 0)).clear()

    third = CoordinatorLoop(EveryThird(), bus)
    work_off(third)
    assert commands(bus) == [commit(2).event_id]
    store = third._owned[0].store
    assert (counted_of(store), counted_of(store, "lake.sales.returns")) == (0, 1)
    third.close()
    again = restored(EveryThird(), records_of(bus))
    assert (counted_of(again), counted_of(again, "lake.sales.returns")) == (0, 1)


def test_two_members_share_the_partitions_and_each_table_has_one_owner() -> None:
    bus = memory_bus()
    one, other = CoordinatorLoop(EveryThird(), bus), CoordinatorLoop(EveryThird(), bus)
    tables = [f"lake.sales.t{n}" for n in range(12)]
    bus.send([message(commit(n, table)) for table in tables for n in range(3)])
    while one.step(0) + other.step(0):
        pass

    assert sorted(e.table for e in events_on(bus, COMMANDS)) == sorted(tables)
    assert sorted([*one._owned, *other._owned]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (POSITION_KEY, b"[half"),
        (ORDERS, b"[half"),
        (row_key("", "outbox", 1), b"[]\n[half"),
        (row_key("", "outbox", 1), b'[]\n["topic", 1, null, [], null]'),
    ],
)
def test_nothing_is_decided_on_a_memory_that_cannot_be_read(key: bytes, value: bytes) -> None:
    bus = memory_bus(partitions=1)
    OpenPartition(bus, CHANGELOG).write([(key, value), (POSITION_KEY, b"{}")])
    bus.send([message(commit(0))])

    with pytest.raises(TidegateError, match="can't be read"):
        work_off(CoordinatorLoop(EveryThird(), bus))
    assert bus.log(Partition(CHANGELOG, 0))[2:] == []
    assert bus.records(DEAD) == []


def test_rule_1_a_changelog_that_was_lost_is_noticed() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0)), message(commit(1))])
    first = CoordinatorLoop(EveryThird(), bus)
    work_off(first)
    first.close()
    bus.log(Partition(CHANGELOG, 0)).clear()
    bus.send([message(commit(2))])

    with pytest.raises(OffsetGapError, match="the changelog has lost"):
        work_off(CoordinatorLoop(EveryThird(), bus))
    assert commands(bus) == []


def test_an_error_without_valid_text_is_a_dead_letter_too() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0))])
    (record,) = bus.records("tidegate.commits")
    dead_letter_ = dead_letter(record, "coordinator", OSError("gone: \udcff"), DEAD)

    assert dict(dead_letter_.headers)["x-exception-message"] == b"gone: \\udcff"


def test_a_reason_of_any_length_leaves_a_dead_letter_that_its_topic_takes() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0))])
    (record,) = bus.records("tidegate.commits")
    dead_letter_ = dead_letter(record, "coordinator", ValueError("no " * 10**6), DEAD)

    assert sum(len(content or b"") for _, content in dead_letter_.headers) < 50_000
    reported = dict(dead_letter_.headers)["x-exception-message"] or b""
    assert reported.endswith(b"... and 2992000 more characters")


class SmallBus(MemoryBus):
    """Its dead letters take no value of more than a hundred bytes."""

    def send(self, messages: Sequence[Message]) -> None:
        if any(item.topic == DEAD and len(item.value or b"") > 100 for item in messages):
            raise MessageTooLargeError("too large")
        super().send(messages)


def test_rule_6_a_dead_letter_that_is_too_large_is_written_without_its_value() -> None:
    topics = {log.topic for log in memory_bus()._logs}
    bus = SmallBus(topics, partitions=1)
    poison = Message("tidegate.commits", b"k", b"?" * 101)
    bus.send([poison, message(commit(0))])
    work_off(CoordinatorLoop(EveryThird(), bus, retries=RetryPolicy(2, 0.001, 0.001)))

    (dead_letter_,) = bus.records(DEAD)
    assert (dead_letter_.key, dead_letter_.value) == (b"k", None)
    assert dict(dead_letter_.headers)["tidegate-value-left-out"] == b"101"
    assert dict(dead_letter_.headers)["x-original-offset"] == b"0"
    assert bus.committed["tidegate.coordinator"] == {Partition("tidegate.commits", 0): 2}
