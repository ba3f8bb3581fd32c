"""The cleaner asks the broker who holds a table before it removes anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.acid import FIVE_LISTINGS, INSERTS, TABLE, build, names_in, release
from support.memory_bus import MemoryBus
from support.quarantined import removal_of
from support.samples import NOON, memory_bus, message
from tidegate.cleaning import Cleaner
from tidegate.cleaning.hold_lookup import HoldLookup
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import (
    CleaningDeferred,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningRefused,
    CleaningReleased,
    CleaningStarted,
    Command,
    Event,
)
from tidegate.events.reasons import Reason
from tidegate.events.wire import Wire
from tidegate.runtime.authorization import Authorization, Unauthorized
from tidegate.runtime.bus import Partition, Record, Watermarks
from tidegate.runtime.protocols import SignedBy
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

AFTER_MINOR = FIVE_LISTINGS[1].directories
MINUTE = 60_000


class Signed(Authorization):
    """Requests of `eve` prove nothing."""

    def check(self, event: Event, record: Record) -> SignedBy | None:
        del record
        if isinstance(event, Command) and event.asked_by == "eve":
            raise Unauthorized(Reason.NOT_SIGNED, "not signed")
        return None


@pytest.fixture
def bus() -> MemoryBus:
    bus = memory_bus()
    bus.now_ms = lambda: round(NOON.timestamp() * 1000)
    return bus


def lookup(bus: MemoryBus) -> HoldLookup:
    return HoldLookup(bus, Wire(), "tidegate", Signed())


def hold(who: str = "mara", table: str = TABLE) -> CleaningHoldRequested:
    return CleaningHoldRequested(
        event_id=f"hold-{who}",
        table=table,
        occurred_at=NOON,
        source="cli",
        requested_by=who,
        reason="a report is stuck",
    )


def removal(who: str = "mara") -> CleaningHoldRemovalRequested:
    return CleaningHoldRemovalRequested(
        event_id=f"back-{who}",
        table=TABLE,
        occurred_at=NOON,
        source="cli",
        requested_by=who,
        reason="done",
    )


def command(**changes: object) -> CleaningReleased:
    return release("/wh/t", occurred_at=NOON, **changes)


def test_a_table_is_held_from_its_hold_to_the_removal(bus: MemoryBus) -> None:
    holds = lookup(bus)
    assert holds.hold_on(command()) is None
    bus.send([message(hold()), message(hold("ben", "hive.default.other"))])
    assert holds.hold_on(command()) == hold()
    assert holds.hold_on(command(table="hive.default.third")) is None
    bus.send([message(removal())])
    assert holds.hold_on(command()) is None
    bus.send([message(hold("zoe"))])
    assert holds.hold_on(command()) == hold("zoe")


def test_a_hold_from_before_the_command_counts_also_for_a_cleaner_that_was_just_started(
    bus: MemoryBus,
) -> None:
    bus.now_ms = lambda: round(NOON.timestamp() * 1000) - 10 * MINUTE
    bus.send([message(hold())])
    assert lookup(bus).hold_on(command()) == hold()


def test_a_command_that_is_older_than_what_was_read_is_looked_up_anew(bus: MemoryBus) -> None:
    bus.now_ms = lambda: round((NOON - timedelta(days=9)).timestamp() * 1000)
    bus.send([message(hold())])
    holds = lookup(bus)
    assert holds.hold_on(command()) is None  # so old that the gate has seen it
    old = release("/wh/t", occurred_at=NOON - timedelta(days=9))
    assert holds.hold_on(old) == hold()


def test_a_hold_from_a_long_weekend_on_which_the_gate_was_down_counts(bus: MemoryBus) -> None:
    """The gate reads its topics side by side: it may meet a release of today before that hold."""
    bus.now_ms = lambda: round((NOON - timedelta(days=4)).timestamp() * 1000)
    bus.send([message(hold())])
    assert lookup(bus).hold_on(command()) == hold()


class Trimmed(MemoryBus):
    """Its topics' retention has removed what is before an offset."""

    first = 0

    def watermarks(self, partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
        found = super().watermarks(partitions)
        return {partition: replace(marks, first=self.first) for partition, marks in found.items()}

    def spans(self, topic: str, since_ms: int = 0) -> dict[Partition, range]:
        found = super().spans(topic, since_ms)
        return {
            partition: range(max(self.first, span.start), span.stop)
            for partition, span in found.items()
        }

    def read(self, spans: Mapping[Partition, range]) -> list[Record]:
        return [record for record in super().read(spans) if record.offset >= self.first]


def test_a_hold_whose_removal_is_gone_by_retention_is_forgotten_too() -> None:
    """Else its table would never be cleaned again: the gate knows of no hold to remove."""
    bus = Trimmed(["tidegate.requests"], 1)
    bus.now_ms = lambda: round(NOON.timestamp() * 1000)
    holds = lookup(bus)
    bus.send([message(hold())])
    assert holds.hold_on(command()) == hold()
    bus.send([message(removal()), message(hold("ben", "hive.default.other"))])
    bus.first = 2
    assert holds.hold_on(command()) is None


def test_of_a_topic_that_was_created_again_everything_is_read() -> None:
    """It may have as many records as the old one had: only the broker's id tells them apart."""
    bus = memory_bus(partitions=1)
    bus.now_ms = lambda: round(NOON.timestamp() * 1000)
    holds = lookup(bus)
    bus.send([message(hold("zoe")), message(removal("zoe"))])
    assert holds.hold_on(command()) is None
    bus.recreate("tidegate.requests")
    bus.send([message(hold()), *(message(hold("ben", "hive.default.other")) for _ in range(3))])
    assert holds.hold_on(command()) == hold()
    bus.recreate("tidegate.requests")
    assert holds.hold_on(command()) is None


def test_who_has_not_signed_neither_holds_nor_lets_go(bus: MemoryBus) -> None:
    holds = lookup(bus)
    bus.send([message(hold("eve"))])
    assert holds.hold_on(command()) is None
    bus.send([message(hold()), message(removal("eve"))])
    assert holds.hold_on(command()) == hold()


def test_where_the_topic_can_not_be_read_nothing_is_removed() -> None:
    without = MemoryBus(["tidegate.outcomes"], 1)
    with pytest.raises(TransientError):
        lookup(without).hold_on(command())


class Between:
    """A hold that comes after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def hold_on(self, command: Command) -> CleaningHoldRequested | None:
        del command
        self.looks -= 1
        return hold() if self.looks < 0 else None


def cleaner(root: Path, looks: int) -> Cleaner:
    files = Warehouse(WarehouseRoots.of(str(root)))
    return Cleaner(files, ThreadMap(), lambda: NOON, holds=Between(looks))


def test_a_command_that_waited_in_the_queue_meets_the_hold(tmp_path: Path) -> None:
    table = build(tmp_path / "t", AFTER_MINOR)
    its = release(str(table))
    (deferred,) = cleaner(tmp_path, 0).execute(its)
    assert isinstance(deferred, CleaningDeferred)
    assert (deferred.hold, deferred.held_by, deferred.caused_by) == (
        "hold-mara",
        "mara",
        its.event_id,
    )
    assert names_in(table) == sorted(AFTER_MINOR)


def test_a_hold_that_comes_after_the_plan_is_met_before_the_first_round(tmp_path: Path) -> None:
    table = build(tmp_path / "t", AFTER_MINOR)
    started, deferred = cleaner(tmp_path, 1).execute(release(str(table)))
    assert isinstance(started, CleaningStarted)
    assert started.directories == INSERTS
    assert isinstance(deferred, CleaningDeferred)
    assert names_in(table) == sorted(AFTER_MINOR)


def test_a_quarantine_of_a_held_table_is_not_removed(tmp_path: Path) -> None:
    table = build(tmp_path / "t", AFTER_MINOR)
    (refused,) = cleaner(tmp_path, 0).execute(removal_of(release(str(table))))
    assert isinstance(refused, CleaningRefused)
    assert refused.reason == "table-held"
    assert "mara holds" in refused.message
