"""All steps of a world together, and what must hold in each of its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from support.interleavings.bridge import Bridge, published
from support.interleavings.cleaner import CleanerOfWorlds
from support.interleavings.explore import Explored, Step, explore
from support.interleavings.gate import GateRecords
from support.interleavings.metastore import (
    BEFORE,
    beginning,
    everything,
    snapshot_of,
    steps_of_readers,
    steps_of_vacuums,
    steps_of_writer,
)
from support.interleavings.scenario import Scenario
from support.interleavings.world import Directories, World, chosen, reads
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan, plan_cleaning
from tidegate.events import CleaningReleased, Event
from tidegate.events.codec import encode
from tidegate.hive.names import Base, parse_name
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.hive_metastore.values import Holds, holds_of, write_ids_of_compaction


@dataclass(frozen=True, slots=True)
class Rules:
    """What the services decide by. A test puts a fault in place of one.

    Attributes:
        holds_of: What a vacuum waits for.
        write_ids: Its snapshot, of what is valid when the bridge asks, and its highest write id.
        plan: What its cleaning removes.
        queue_first: Whether a look asks for visible vacuums before locks and transactions, or last.
        frees_elsewhere: Whether a transaction that locked other tables only has ended here.
        gate_remembers: Whether what the gate knows outlives it.
        gate_waits_on: Whether it goes on waiting after a release that was not the last.
        plans_again: Whether a cleaning that was cut short is done again.
        checks_products: Whether the products are looked at before each removal.
    """

    holds_of: Callable[..., Holds] = holds_of
    write_ids: Callable[[ValidWriteIds, int], ValidWriteIds] = write_ids_of_compaction
    plan: Callable[[Sequence[ListedDirectory], CleaningReleased], CleaningPlan] = plan_cleaning
    queue_first: bool = True
    frees_elsewhere: bool = True
    gate_remembers: bool = True
    gate_waits_on: bool = True
    plans_again: bool = True
    checks_products: bool = True


@dataclass(eq=False)
class Model:
    """A scenario with its services; call `run`.

    Attributes:
        scenario: The world before its first step.
        rules: The real ones, unless a test breaks one.
        events: Every event that any of the worlds has, by number.
    """

    scenario: Scenario
    rules: Rules = field(default_factory=Rules)
    events: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        """Start the services."""
        self._numbers: dict[bytes, int] = {}
        self._ends: dict[tuple[Directories, object], bool] = {}
        self._bridge = Bridge(self)
        self._gate = GateRecords(self)
        self._cleaner = CleanerOfWorlds(self)

    def run(self) -> Explored:
        """Visit every state.

        Raises:
            Violation: a reader misses rows, or a vacuum can't be cleaned any more.
        """
        return explore(beginning(self.scenario), self._steps, self._wrong, self._is_end)

    def number(self, event: Event) -> int:
        """The number of an event; equal events have the same."""
        number = self._numbers.setdefault(encode(event), len(self.events))
        if number == len(self.events):
            self.events.append(event)
        return number

    def fault(self, world: World, kind: str) -> World | None:
        """The world with one fault less to come; None if none of this kind may."""
        if not world.faults or kind not in self.scenario.kinds_of_faults:
            return None
        return world._replace(faults=world.faults - 1)

    def _steps(self, world: World) -> Iterator[Step[World]]:
        """All that can happen next. What is published is read at once, unless a topic lags."""
        if self._gate.reads(world):
            return self._gate.steps(world)
        return chain(
            steps_of_readers(world, self.scenario),
            steps_of_writer(world, self.scenario),
            steps_of_vacuums(world, self.scenario),
            self._bridge.steps(world),
            self._gate.steps_of_lag(world),
            self._cleaner.steps(world),
            self._repeated(world),
        )

    def _repeated(self, world: World) -> Iterator[Step[World]]:
        """A publisher that did not receive the broker's answer publishes an event again."""
        if (after := self.fault(world, "repeated")) is not None:
            for number in sorted(world.published):
                name = f"{type(self.events[number]).__name__} {number} is published again"
                yield name, True, published(after, [self.events[number]], self)

    def _wrong(self, world: World) -> str | None:
        """Whether a reader, an old one or one that begins now, misses a row or has one too many."""
        disks = self._cleaner.disks(world)
        return next((found for disk in disks if (found := self._misses(world, disk))), None)

    def _misses(self, world: World, disk: Directories) -> str | None:
        full = {directory.name for directory in disk if directory.rows is not None}
        snapshots = [("a new reader", snapshot_of(world, self.scenario))]
        for index, reader in enumerate(world.readers):
            if self.scenario.readers[index] == "elsewhere" or reader.snapshot is None:
                continue
            if reader.phase != "listed":
                snapshots.append((f"reader {index + 1}", reader.snapshot))
            elif not full.issuperset(reader.chosen):
                return f"reader {index + 1} reads {set(reader.chosen) - full}, which is gone"
        for index, vacuum in enumerate(world.vacuums):
            if vacuum.phase == "begun" and not full.issuperset(vacuum.chosen):
                return f"vacuum {index + 1} reads {set(vacuum.chosen) - full}, which is gone"
        for name, snapshot in snapshots:
            found = reads(disk, snapshot)
            # Hive 3 takes a base whose highest write id is open for the reader, with either cleaner
            if found != snapshot.rows and found != reads(everything(world), snapshot):
                return f"{name} finds {found}, not {set(snapshot.rows)}"
        return None

    def _is_end(self, world: World) -> bool:
        """Whether the vacuums are done and nothing is left of what they replaced."""
        if any(vacuum.phase not in {"visible", "none"} for vacuum in world.vacuums):
            return False
        if world.commands or world.removing or world.vacuum_topic or world.lock_topic:
            return False
        now = snapshot_of(world, self.scenario)
        key = (world.directories, now)
        if key not in self._ends:
            made = [directory.name for vacuum in world.vacuums for directory in vacuum.made]
            highest = max((parse_name(name).max_write_id for name in made), default=0)
            # empty directories too: a cleaner sees them. What an overwrite replaced, the vacuums'
            # products among it, is a later vacuum's to remove
            whole = tuple(
                directory._replace(rows=frozenset())
                for directory in world.directories
                if not _is_overwrite(directory.name)
            )
            state = chosen(whole, now)
            self._ends[key] = state is not None and not (
                state.obsolete
                or any(parse_name(name).max_write_id <= highest for name in state.aborted)
            )
        return self._ends[key]


def _is_overwrite(name: str) -> bool:
    """Whether it is the base of the writer, whose write id is above those of all others."""
    acid = parse_name(name)
    return isinstance(acid, Base) and acid.write_id > len(BEFORE) and acid.visibility_txn is None
