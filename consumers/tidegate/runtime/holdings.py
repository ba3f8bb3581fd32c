"""What a decider's process holds: of each partition its memory, and the work begun on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from tidegate.events import Command
from tidegate.events.topics import changelog
from tidegate.runtime.bus import Bus, Changelog, Offsets, Partition
from tidegate.runtime.garbage import no_garbage
from tidegate.runtime.ledger import Ledger, ledger_for
from tidegate.runtime.patience import Patience
from tidegate.runtime.services import Decider

log = logging.getLogger(__name__)
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 8
"""Changelog partitions that are read back, or written, at the same time."""


@dataclass(slots=True)
class Holding(Generic[S]):
    """One partition number: its memory, and what was decided but is not yet done."""

    ledger: Ledger[S]
    changelog: Changelog
    commands: list[Command] = field(default_factory=list[Command])
    positions: dict[Partition, int] = field(default_factory=dict[Partition, int])


class Holdings(Generic[S]):
    """The partition numbers that a decider's process holds."""

    def __init__(
        self, decider: Decider[S], bus: Bus, prefix: str, inputs: Sequence[str], patience: Patience
    ) -> None:
        """Hold nothing yet."""
        self._decider, self._bus, self._inputs, self._patience = decider, bus, inputs, patience
        self._changelog = changelog(decider.name).name(prefix)
        self._held: dict[int, Holding[S]] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, f"{decider.name}-partitions")

    def __getitem__(self, number: int) -> Holding[S]:
        """Give what is held of a number."""
        return self._held[number]

    def __iter__(self) -> Iterator[int]:
        """The numbers that are held."""
        return iter(self._held)

    def begun(self) -> list[Holding[S]]:
        """Those with work that is not yet done, by number."""
        return [held for _, held in sorted(self._held.items()) if held.positions]

    def restore(self, starts: Offsets) -> None:
        """Take each partition's changelog and read it whole.

        Raises:
            OffsetGapError: events would be passed over, or were acknowledged and are remembered no
                more.
        """
        numbers = sorted({each.number for each in starts})
        with no_garbage():
            held = self._side_by_side(partial(self._take_over, starts), numbers)
        self._held.update(zip(numbers, held, strict=True))

    def remember(self, begun: Sequence[Holding[S]]) -> None:
        """Write what changed in each, side by side; returns when all are written.

        Raises:
            FencedError: another process has taken one of them.
        """
        self._side_by_side(self._remember, begun)

    def forget(self, numbers: Iterable[int] | None = None) -> None:
        """Let some go, with the work begun on them; by default all."""
        for number in tuple(self._held if numbers is None else numbers):
            if held := self._held.pop(number, None):
                held.changelog.close()

    def close(self) -> None:
        """Let all go, and the threads."""
        self.forget()
        self._pool.shutdown()

    def _side_by_side(self, do: Callable[[T], R], each_of: Sequence[T]) -> list[R]:
        """Also after a fault, none of it goes on once this returns or raises."""
        if len(each_of) == 1:
            return [do(each_of[0])]
        doing = [self._pool.submit(do, each) for each in each_of]
        wait(doing)
        return [each.result() for each in doing]

    def _remember(self, held: Holding[S]) -> None:
        entries = held.ledger.entries()
        self._patience.call(lambda: held.changelog.write(entries))

    def _take_over(self, starts: Offsets, number: int) -> Holding[S]:
        return self._patience.call(lambda: self._restore(starts, number))

    def _restore(self, starts: Offsets, number: int) -> Holding[S]:
        memory = self._bus.changelog(self._changelog, number)
        ledger = ledger_for(self._decider.state_type, self._decider.initial())
        ledger.restore(memory.read())
        for topic in self._inputs:
            where = Partition(topic, number)
            ledger.check(topic, self._bus.extent(where), starts.get(where))
        tables = len(ledger)
        log.info("%s holds partition %d with %d tables", self._decider.name, number, tables)
        return Holding(ledger, memory)
