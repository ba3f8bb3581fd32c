"""The real gate, with its records as a changelog would have them, and the deaths of its process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from support.interleavings.explore import Step
from support.interleavings.scenario import Faults
from support.interleavings.world import World
from tidegate.coordinator.holds import HOLD
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.rows.position import POSITION_KEY, Position
from tidegate.coordinator.rows.store import Store
from tidegate.events import CleaningReleased, LockReleased

if TYPE_CHECKING:
    from support.interleavings.steps import Model

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOPICS: Final = ("vacuum_topic", "lock_topic")
Records = tuple[tuple[bytes, bytes], ...]
"""The rows of a table."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """The gate's answer to an event: its commands, and its records after each write."""

    commands: tuple[int, ...]
    written: int
    """The rows once all of it is remembered."""


class GateRecords:
    """Decides on events; what was decided once is remembered, because worlds repeat."""

    def __init__(self, model: Model) -> None:
        """Take the numbers of events and the rules from a model."""
        self._model, self._gate = model, ReaderGate()
        self._store = Store((*self._gate.row_types, HOLD))
        self._records: list[Records] = [()]
        self._numbers: dict[Records, int] = {self._records[0]: 0}
        self._decided: dict[tuple[int, int], _Decided] = {}

    def reads(self, world: World) -> bool:
        """Whether there is an event for it to read now."""
        return any(getattr(world, topic) for topic in TOPICS if topic != world.lagging)

    def steps(self, world: World) -> Iterator[Step[World]]:
        """Read the next event of either topic, or die while deciding on it, or a topic lags."""
        for topic in TOPICS:
            waiting: tuple[int, ...] = getattr(world, topic)
            if not waiting or topic == world.lagging:
                continue
            number = waiting[0]
            decided = self._decide(world.gate, number)
            name = f"gate reads {type(self._model.events[number]).__name__} {number}"
            read = _read(world, topic)
            said = (*world.commands, *decided.commands)
            gate = decided.written
            if not self._model.rules.gate_waits_on and self._is_only_one_of_many(decided, number):
                gate = 0
            yield name, False, read._replace(gate=gate, commands=said)
            yield from self._deaths(world, decided, name)
            if "lag" in self._kinds and world.faults and world.lagging is None:
                lags = world._replace(lagging=topic, faults=world.faults - 1)
                yield f"the {topic.replace('_', ' ')} lags behind", True, lags

    def steps_of_lag(self, world: World) -> Iterator[Step[World]]:
        """A topic that lagged behind is read again, any time later."""
        if world.lagging is not None:
            name = f"the {world.lagging.replace('_', ' ')} is read again"
            yield name, False, world._replace(lagging=None)

    @property
    def _kinds(self) -> Faults:
        return self._model.scenario.kinds_of_faults

    def _is_only_one_of_many(self, decided: _Decided, number: int) -> bool:
        """Whether this release was not the last of those that a vacuum waits for."""
        return isinstance(self._model.events[number], LockReleased) and not decided.commands

    def _deaths(self, world: World, decided: _Decided, name: str) -> Iterator[Step[World]]:
        if not world.faults or "gate dies" not in self._kinds:
            return
        after = world._replace(faults=world.faults - 1)
        if not self._model.rules.gate_remembers:
            yield f"{name} and dies", True, after._replace(gate=0)
            return
        # remembered before it is published: its successor publishes it
        yield f"{name} and dies, nothing remembered", True, after
        said = (*world.commands, *decided.commands)
        remembered = after._replace(gate=decided.written, commands=said)
        yield f"{name} and dies once it is remembered", True, remembered
        again = remembered._replace(commands=(*said, *decided.commands))
        yield f"{name} and dies once it is published", True, again

    def _decide(self, gate: int, number: int) -> _Decided:
        key = (gate, number)
        if key not in self._decided:
            self._decided[key] = self._decided_on(gate, number)
        return self._decided[key]

    def _decided_on(self, gate: int, number: int) -> _Decided:
        before = self._records[gate]
        store = self._store  # to create its tables again takes ten times as long as a decision
        for kind in store.row_types:
            store.execute(f"delete from {kind}")  # noqa: S608
        store.restore([*before, Position().record()])
        self._gate.restored(store)
        store.begin()
        decided = self._gate.handle(self._model.events[number], store, NOON).commands
        store.commit()
        commands = [command for command in decided if isinstance(command, CleaningReleased)]
        after = dict(before)
        for key, value in store.batch():
            if value is None:
                after.pop(key, None)
            elif key != POSITION_KEY:
                after[key] = value
        return _Decided(
            tuple(self._model.number(command) for command in commands), self._stored(after)
        )

    def _stored(self, rows: Mapping[bytes, bytes]) -> int:
        records = tuple(sorted(rows.items()))
        number = self._numbers.setdefault(records, len(self._records))
        if number == len(self._records):
            self._records.append(records)
        return number


def _read(world: World, topic: str) -> World:
    if topic == "vacuum_topic":
        return world._replace(vacuum_topic=world.vacuum_topic[1:])
    return world._replace(lock_topic=world.lock_topic[1:])
