"""What a reset of a group would change, as a value: the plan is the dry run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.replay.targets import Back, Target, ToEarliest, ToMoment, ToOffset
from tidegate.runtime.bus import Partition


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a group stands in a partition.

    Attributes:
        held: The offsets that the partition holds.
        committed: Where the group goes on; None where it never committed.
        at_moment: The offset of the moment that the target names, if it names one.
    """

    held: range
    committed: int | None
    at_moment: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A group's new place in one partition."""

    partition: Partition
    from_offset: int
    to_offset: int
    again: int
    """How many records would be read again, at most: a topic may have holes."""


@dataclass(frozen=True, slots=True)
class GroupReplay:
    """The reset of one service's group. Partitions where it would stay are not among the moves."""

    service: str
    group: str
    moves: tuple[Move, ...]
    restores: int = 0
    """Requests among the records that ask for a restore."""

    @property
    def records(self) -> int:
        """How many records would be read again, at most."""
        return sum(move.again for move in self.moves)

    def back(self, number: int) -> dict[str, int]:
        """The new offset of each topic in the partitions of a number."""
        mine = (move for move in self.moves if move.partition.number == number)
        return {move.partition.topic: move.to_offset for move in mine}


def plan_group(
    service: str, group: str, standings: Mapping[Partition, Standing], target: Target
) -> GroupReplay:
    """Plan a reset. It only goes back: records are read again, none is ever passed over.

    The exception is a gap, where the group's place is gone from the topic: no record can be read
    there, so the group goes to the nearest that is left. A group that never committed begins at
    the beginning anyway.
    """
    moves = (_move(part, standing, target) for part, standing in sorted(standings.items()))
    return GroupReplay(service, group, tuple(move for move in moves if move))


def _move(partition: Partition, standing: Standing, target: Target) -> Move | None:
    if standing.committed is None:
        return None
    held, at = standing.held, standing.committed
    to = min(max(_wanted(standing, at, target), held.start), held.stop)
    if to == at or (to > at >= held.start):
        return None
    return Move(partition, at, to, max(0, min(at, held.stop) - to))


def _wanted(standing: Standing, at: int, target: Target) -> int:
    match target:
        case ToOffset(offset):
            return offset
        case ToMoment():
            return at if standing.at_moment is None else standing.at_moment
        case ToEarliest():
            return standing.held.start
        case Back(records):
            return at - records
