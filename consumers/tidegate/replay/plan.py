"""What a reset of a group would change, as a value: the plan is the dry run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.replay.targets import Back, Target, ToEarliest, ToMoment, ToOffset
from tidegate.runtime.bus import Partition


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a decider's memory says of an input partition.

    Attributes:
        applied: The offset that it applies next; None where it says nothing.
        is_of_another_topic: The topic was deleted and created again since.
        of_tables: The furthest that one of the tables that are meant was applied on its own.
    """

    applied: int | None
    is_of_another_topic: bool = False
    of_tables: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a group stands in a partition.

    Attributes:
        held: The offsets that the partition holds.
        committed: Where the group goes on; None where it never committed, or the broker forgot it.
        at_moment: The offset of the moment that the target names, if it names one.
        memory: A decider's; None for an executor.
    """

    held: range
    committed: int | None
    at_moment: int | None = None
    memory: Remembered | None = None

    @property
    def has_begun(self) -> bool:
        """Whether anything was read here, as far as anyone knows."""
        return bool(self.places) or self.is_renewed

    @property
    def is_renewed(self) -> bool:
        """Whether what is remembered is of a topic that is gone."""
        return self.memory is not None and self.memory.is_of_another_topic

    @property
    def places(self) -> tuple[int, ...]:
        """Up to where records count as dealt with: by the group, and by a decider's memory."""
        applied = self.memory.applied if self.memory else None
        if self.memory and applied is None and self.committed is not None:
            applied = self.held.start  # what a decider takes it for
        return tuple(each for each in (self.committed, applied) if each is not None)

    @property
    def reached(self) -> tuple[int, ...]:
        """The places, and how far ahead of them a replay of others left a table that is meant."""
        own = self.memory.of_tables if self.memory else 0
        return (*self.places, own) if own > max(self.places, default=own) else self.places

    @property
    def fault(self) -> str:
        """Why the service would not start as it stands; empty where it would."""
        if self.is_renewed:
            return "the topic was created again"
        if any(not self.held.start <= each <= self.held.stop for each in self.places):
            return "its place is gone from the topic"
        if self.committed is not None and min(self.places) < self.committed:
            return f"its memory ends at {min(self.places)}"
        return ""


@dataclass(frozen=True, slots=True)
class Share:
    """Whose the records are that would be read again in a partition."""

    of_tables: Mapping[str, int]
    """By table, those that were asked for alone."""
    of_others: int
    others: frozenset[str]
    """The other tables, by name; records under no table's name have none."""


@dataclass(frozen=True, slots=True)
class Move:
    """A group's new place in one partition."""

    partition: Partition
    from_offset: int | None
    """None where the group has no place."""
    to_offset: int
    again: int
    """How many records would be read again, at most: a topic may have holes."""
    fault: str = ""
    """What is put right by the way, so that the service starts again."""
    remembered: int | None = None
    """Up to where a decider's memory says that it was applied."""
    is_for_all: bool = False
    """Whether a decider's offsets mean nothing here any more, whichever table's they are."""
    share: Share | None = None
    """None where all tables are meant."""

    @property
    def span(self) -> range:
        """The offsets that would be read again."""
        return range(self.to_offset, self.to_offset + self.again)


@dataclass(frozen=True, slots=True)
class GroupReplay:
    """The reset of one service's group. Partitions where it would stay are not among the moves."""

    service: str
    group: str
    moves: tuple[Move, ...]
    restores: int = 0
    """Requests among the records that ask for a restore."""
    tables: Mapping[str, int] | None = None
    """The tables that were asked for, and the partition number of each; None: all tables."""
    has_begun: bool = True
    """Whether the group has read anything yet."""

    @property
    def records(self) -> int:
        """How many records would be read again, at most."""
        return sum(move.again for move in self.moves)

    def moves_of(self, number: int) -> Sequence[Move]:
        """The moves in the partitions of a number."""
        return [move for move in self.moves if move.partition.number == number]


def plan_group(
    service: str, group: str, standings: Mapping[Partition, Standing], target: Target
) -> GroupReplay:
    """Plan a reset. It only goes back: records are read again, none is ever passed over.

    Where the service would not start (its place is gone from the topic, its memory ends before it
    or is of a topic that was deleted), it goes to the nearest place from which it does. A group
    that has never begun begins at the beginning anyway.
    """
    moves = (_move(part, standing, target) for part, standing in sorted(standings.items()))
    begun = any(each.has_begun for each in standings.values())
    return GroupReplay(service, group, tuple(move for move in moves if move), has_begun=begun)


def _move(partition: Partition, standing: Standing, target: Target) -> Move | None:
    if not standing.has_begun:
        return None
    held, places = standing.held, standing.places
    if standing.is_renewed:  # nothing of it was applied, whatever offsets are left of the other
        to = held.start
    else:
        wanted = _wanted(standing, places[0], target)
        if not standing.fault and wanted >= max(standing.reached):
            return None
        to = min(_within(held, each) for each in (wanted, *places))
    if not standing.fault and all(to == each for each in (standing.committed, *standing.reached)):
        return None
    applied = standing.memory.applied if standing.memory else None
    return Move(
        partition,
        standing.committed,
        to,
        _within(held, max(_read(standing), default=to)) - to,
        standing.fault,
        applied,
        is_for_all=standing.is_renewed or (applied or 0) > held.stop,
    )


def _read(standing: Standing) -> tuple[int, ...]:
    """Up to where this topic's records were read."""
    if not standing.is_renewed:
        return standing.reached
    return () if standing.committed is None else (standing.committed,)


def _within(held: range, offset: int) -> int:
    return min(max(offset, held.start), held.stop)


def _wanted(standing: Standing, at: int, target: Target) -> int:
    match target:
        case ToOffset(offset):
            return offset
        case ToMoment():
            return standing.held.stop if standing.at_moment is None else standing.at_moment
        case ToEarliest():
            return standing.held.start
        case Back(records):
            return at - records
