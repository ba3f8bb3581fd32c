"""Visit every state that a world can get into; show the shortest way to the first bad one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

S = TypeVar("S", bound=Hashable)
Step = tuple[str, bool, S]
"""The step, whether it is a fault, and the state after it."""


@dataclass(frozen=True, slots=True)
class Explored:
    """A world that holds: how many states and steps it has."""

    states: int
    steps: int


class Violation(AssertionError):  # noqa: N818 - it is an assertion's failure
    """A state that must not be, and the steps that lead to it."""


def explore(
    first: S,
    steps: Callable[[S], Iterable[Step[S]]],
    wrong: Callable[[S], str | None],
    is_end: Callable[[S], bool],
) -> Explored:
    """Visit every state, breadth first.

    Args:
        first: Where the world begins.
        steps: What can happen next.
        wrong: What is wrong with a state, or None.
        is_end: Whether all is done. From every state one must be reachable without another fault.

    Raises:
        Violation: a state is wrong, or no end can be reached from it.
    """
    numbers: dict[S, int] = {first: 0}
    states = [first]
    parents, labels, names = array("q", [-1]), array("H", [0]), {"the beginning": 0}
    sources, targets = array("I"), array("I")

    def trace(number: int) -> str:
        shown = list(names)
        lines: list[str] = []
        while number >= 0:
            lines.append(shown[labels[number]])
            number = parents[number]
        return "\n  ".join(reversed(lines))

    count = 0
    for at, state in enumerate(states):  # grows while it is walked
        if (fault := wrong(state)) is not None:
            raise Violation(f"{fault}\n  {trace(at)}")
        for name, is_fault, after in steps(state):
            count += 1
            number = numbers.setdefault(after, len(states))
            if number == len(states):
                states.append(after)
                parents.append(at)
                labels.append(names.setdefault(name, len(names)))
            if not is_fault and number != at:
                sources.append(at)
                targets.append(number)
    if (stuck := _cannot_end(states, sources, targets, is_end)) is not None:
        raise Violation(f"not all is cleaned in the end, whatever happens\n  {trace(stuck)}")
    return Explored(len(states), count)


def _cannot_end(
    states: list[S], sources: array[int], targets: array[int], is_end: Callable[[S], bool]
) -> int | None:
    """The first state from which no end can be reached; None if there is none."""
    starts = array("I", bytes(4 * (len(states) + 1)))  # counting sort of the steps by their target
    for target in targets:
        starts[target + 1] += 1
    for number in range(len(states)):
        starts[number + 1] += starts[number]
    before, free = array("I", bytes(4 * len(sources))), starts[:]
    for source, target in zip(sources, targets, strict=True):
        before[free[target]] = source
        free[target] += 1
    reached = bytearray(len(states))
    left = [number for number, state in enumerate(states) if is_end(state)]
    for number in left:
        reached[number] = 1
    while left:
        number = left.pop()
        for source in before[starts[number] : starts[number + 1]]:
            if not reached[source]:
                reached[source] = 1
                left.append(source)
    stuck = reached.find(0)
    return None if stuck < 0 else stuck
