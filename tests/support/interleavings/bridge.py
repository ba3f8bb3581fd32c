"""The bridge's look at the Metastore, with the real matching of holds and of what has ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from support.interleavings.explore import Step
from support.interleavings.metastore import high_water_mark, locked, open_txns, snapshot_of
from support.interleavings.scenario import DATABASE, LOCATION, NAME, PARTITION, TABLE
from support.interleavings.world import Looking, Vacuum, World
from tidegate.events import (
    Event,
    LockHold,
    LockReleased,
    LockType,
    ReleaseReason,
    VacuumFinished,
    VacuumKind,
)
from tidegate.hive.names import Delta, parse_name
from tidegate.hive_bridge.compactions import Key, key_of, published_key
from tidegate.hive_bridge.waiting import WaitingHolds
from tidegate.hive_metastore.values import (
    READY_FOR_CLEANING,
    HeldTables,
    Lock,
    QueueEntry,
    Transactions,
)

if TYPE_CHECKING:
    from support.interleavings.steps import Model

_NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_OWN_LOCK: Final = 0
_WRITERS_LOCK: Final = 99


class Bridge:
    """Asks for compactions, then locks, then transactions, and publishes what follows.

    What it knows of before is on the topics, so its death loses a look and nothing else.
    """

    def __init__(self, model: Model) -> None:
        """Take the rules and the numbers of events from a model."""
        self._model, self._scenario = model, model.scenario
        self._from_topics: dict[frozenset[int], tuple[set[Key], WaitingHolds]] = {}

    def steps(self, world: World) -> Iterator[Step[World]]:
        """The next call of a look; a look that can find nothing is left out."""
        look, rules = world.looking, self._model.rules
        if look is None:
            waiting, visible = self._state_of_events(world)[1], self._visible(world)
            if visible or (not rules.queue_first and self._is_under_way(world)):
                asked = Looking(visible if rules.queue_first else ())
                yield "bridge asks for compactions", False, world._replace(looking=asked)
            if waiting:  # with a queue as it was before, or that does not answer
                asked = Looking((), self._relevant(world, waiting))
                yield "bridge asks for locks", False, world._replace(looking=asked)
        elif look.locks is None:
            opened = None if rules.queue_first else open_txns(world, self._scenario)
            after = look._replace(locks=locked(world), open=opened)
            yield "bridge asks for locks", False, world._replace(looking=after)
        else:
            if not rules.queue_first:
                look = look._replace(visible=self._visible(world))
            found = self._concluded(world, look)
            calm = world._replace(looking=None)
            name = "bridge asks for transactions and publishes"
            yield name, False, published(calm, found, self._model)
            for count in range(len(found)):
                if (dead := self._model.fault(calm, "bridge dies")) is not None:
                    label = f"bridge dies after {count} of {len(found)} events"
                    yield label, True, published(dead, found[:count], self._model)

    def _state_of_events(self, world: World) -> tuple[set[Key], WaitingHolds]:
        """What it knows from the topics: the vacuums that are published, and what waits."""
        exported = self._from_topics.get(world.published)
        if exported is None:
            events = [self._model.events[number] for number in sorted(world.published)]
            vacuums = [event for event in events if isinstance(event, VacuumFinished)]
            waiting = WaitingHolds("hive")
            waiting.free_elsewhere = self._model.rules.frees_elsewhere
            for vacuum in vacuums:
                waiting.vacuum(vacuum)
            for release in events:
                if isinstance(release, LockReleased):
                    waiting.release(release)
            exported = {published_key(vacuum) for vacuum in vacuums}, waiting
            self._from_topics[world.published] = exported
        return exported

    def _is_under_way(self, world: World) -> bool:
        return any(vacuum.phase in {"begun", "written"} for vacuum in world.vacuums)

    def _visible(self, world: World) -> tuple[int, ...]:
        """The vacuums, by index, that are to be published."""
        exported = self._state_of_events(world)[0]
        queue = [self._queued(index, vacuum) for index, vacuum in enumerate(world.vacuums)]
        return tuple(
            entry.compaction_id
            for entry in queue
            if entry.is_visible and key_of(entry, "hive") not in exported
        )

    def _queued(self, index: int, vacuum: Vacuum) -> QueueEntry:
        """The Metastore's entry of a compaction; Hive 4 calls it ready before it commits."""
        ready = {"visible"} if self._scenario.hive == 3 else {"visible", "written"}
        return QueueEntry(
            index,
            DATABASE,
            TABLE,
            PARTITION,
            VacuumKind(self._scenario.vacuums[index]),
            READY_FOR_CLEANING if vacuum.phase in ready else "working",
            vacuum.highest,
            vacuum.txn or None,
            vacuum.next_txn,
        )

    def _relevant(self, world: World, waiting: WaitingHolds) -> tuple[int, ...]:
        """Of the locks those that can matter to what waits: fewer worlds differ."""
        waits = {id_ for kind in _waited(waiting) for id_ in kind}
        held = {lock_id: self._lock(world, lock_id) for lock_id in locked(world)}
        return tuple(
            index
            for index, hold in held.items()
            if hold.lock_id in waits or hold.transaction_id in waits
        )

    def _concluded(self, world: World, look: Looking) -> list[Event]:
        """What a look publishes, in its order: the ends of holds, then vacuums."""
        opened = open_txns(world, self._scenario) if look.open is None else look.open
        transactions = Transactions(high_water_mark(world), dict.fromkeys(opened, 0))
        held = HeldTables([self._lock(world, lock) for lock in look.locks or ()])
        waiting = self._state_of_events(world)[1]
        found: list[Event] = [
            _release(event.lock_id, event.transaction_id)
            for event in waiting.ended(waiting.begin(), held, transactions)
        ]
        for index in look.visible:
            vacuum = world.vacuums[index]
            found.append(_release(_OWN_LOCK, vacuum.txn or None))
            found.append(self._vacuum(world, index, held, transactions))
        return found

    def _lock(self, world: World, index: int) -> Lock:
        if index < 0:
            return Lock(_WRITERS_LOCK, DATABASE, TABLE, PARTITION, None, world.writes[-1].txn)
        role, txn = self._scenario.readers[index], world.readers[index].txn
        is_elsewhere = "elsewhere" in {role, world.readers[index].phase}
        table = None if role == "database" else "other" if is_elsewhere else TABLE
        partition = PARTITION if role == "partition" else None
        return Lock(index + 1, DATABASE, table, partition, LockType.SHARED_READ, txn)

    def _vacuum(
        self, world: World, index: int, held: HeldTables, transactions: Transactions
    ) -> VacuumFinished:
        vacuum = world.vacuums[index]
        place = (DATABASE, TABLE, PARTITION)
        locks, open_ones = self._model.rules.holds_of(held, transactions, place, vacuum.next_txn)
        products = [parse_name(directory.name) for directory in vacuum.made]
        lows = [product.min_write_id for product in products if isinstance(product, Delta)]
        answer = snapshot_of(world, self._scenario).write_ids
        return VacuumFinished(
            table=NAME,
            location=LOCATION,
            occurred_at=_NOON,
            source="bridge",
            partition=PARTITION,
            kind=VacuumKind(self._scenario.vacuums[index]),
            directories=tuple(directory.name for directory in vacuum.made),
            min_write_id=min(lows, default=1),
            max_write_id=max(product.max_write_id for product in products),
            valid_write_ids=str(self._model.rules.write_ids(answer, vacuum.highest)),
            own_lock_id=_OWN_LOCK,
            own_transaction_id=vacuum.txn or None,
            locks=(LockHold(lock_id=_OWN_LOCK), *locks),
            open_transactions=open_ones,
        )


def published(world: World, events: Collection[Event], model: Model) -> World:
    """The world when the broker has these events."""
    vacuums = [model.number(event) for event in events if isinstance(event, VacuumFinished)]
    locks = [model.number(event) for event in events if isinstance(event, LockReleased)]
    return world._replace(
        vacuum_topic=(*world.vacuum_topic, *vacuums),
        lock_topic=(*world.lock_topic, *locks),
        published=world.published.union(vacuums, locks),
    )


def _release(lock_id: int | None, txn: int | None) -> LockReleased:
    return LockReleased(
        table=NAME,
        location=LOCATION,
        occurred_at=_NOON,
        source="bridge",
        lock_id=lock_id,
        transaction_id=txn,
        reason=ReleaseReason.COMMITTED if txn is not None else ReleaseReason.UNLOCKED,
    )


def _waited(waiting: WaitingHolds) -> tuple[Collection[int], Collection[int]]:
    return waiting._locks, waiting._transactions
