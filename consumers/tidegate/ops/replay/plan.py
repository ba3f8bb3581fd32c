"""The plan of a group's reset, as a value; the plan is the dry run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.ops.replay.targets import Target, ToEarliest, ToMoment, ToOffset
from tidegate.runtime.bus import Partition


@dataclass(frozen=True, slots=True)
class AppliedPosition:
    """The coordinator's position on an input partition, from its changelog.

    Attributes:
        applied: The next offset to apply; None if the changelog has none.
        topic_recreated: Whether the topic was deleted and created again since.
        furthest_of_tables: The greatest offset among the selected tables' own positions.
    """

    applied: int | None
    topic_recreated: bool = False
    furthest_of_tables: int = 0


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A consumer group's position on one partition.

    Attributes:
        available: The available offsets.
        committed: The committed offset; None if the group never committed or it expired.
        at_moment: The offset at the target's time, if the target is a time.
        changelog: The position in the coordinator's changelog; None for an executor.
        changelog_recreated: Whether the offset was committed with an earlier changelog.
    """

    available: range
    committed: int | None
    at_moment: int | None = None
    changelog: AppliedPosition | None = None
    changelog_recreated: bool = False

    @property
    def has_started(self) -> bool:
        """Whether an offset or a changelog shows that the group read this partition."""
        return bool(self.next_offsets) or self.topic_recreated

    @property
    def topic_recreated(self) -> bool:
        """Whether the recorded offsets belong to a topic that was deleted."""
        return self.changelog is not None and self.changelog.topic_recreated

    @property
    def next_offsets(self) -> tuple[int, ...]:
        """The next offset to process, by the group and by the coordinator's changelog."""
        applied = self.changelog.applied if self.changelog else None
        if self.changelog and applied is None and self.committed is not None:
            applied = self.available.start  # what the coordinator assumes
        return tuple(offset for offset in (self.committed, applied) if offset is not None)

    @property
    def next_offsets_with_tables(self) -> tuple[int, ...]:
        """The same, plus the selected tables' own offset if it is further ahead."""
        own = self.changelog.furthest_of_tables if self.changelog else 0
        ahead = own > max(self.next_offsets, default=own)
        return (*self.next_offsets, own) if ahead else self.next_offsets

    @property
    def fault(self) -> str:
        """Why the service would refuse to start from here; empty if it would start."""
        if self.topic_recreated:
            return "the topic was recreated"
        if self.changelog_recreated:
            return "its changelog was recreated"
        at = self.next_offsets
        if any(not self.available.start <= offset <= self.available.stop for offset in at):
            return "its offset is no longer in the topic"
        if self.committed is not None and min(at) < self.committed:
            return f"its state ends at {min(at)}"
        return ""


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """The number of records that would be read again in a partition, by table."""

    by_table: Mapping[str, int]
    """The counts of the selected tables."""
    of_other_tables: int
    other_tables: frozenset[str]
    """Their names, without records whose key is not a table's name."""


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A group's new offset in one partition."""

    partition: Partition
    from_offset: int | None
    """None if the group has no offset."""
    to_offset: int
    again: int
    """The maximum number of records to read again: offsets may have holes."""
    fault: str = ""
    """Why the service would refuse to start without the reset; empty if it would start."""
    applied: int | None = None
    """The offset in the coordinator's changelog when the plan was made."""
    is_for_all: bool = False
    """Whether all tables are reset, because the coordinator's offsets here are meaningless."""
    counts: RecordCounts | None = None
    """None if all tables are selected."""

    @property
    def span(self) -> range:
        """The offsets that would be read again."""
        return range(self.to_offset, self.to_offset + self.again)


@dataclass(frozen=True, slots=True)
class GroupReplay:
    """The reset of one service's group. Partitions with unchanged offsets have no reset."""

    service: str
    group: str
    resets: tuple[OffsetReset, ...]
    restores: int = 0
    """The number of restore requests among the records."""
    tables: Mapping[str, int] | None = None
    """The selected tables, and the partition number of each; None: all tables."""
    has_started: bool = True
    """Whether the group has read anything yet."""

    @property
    def records(self) -> int:
        """The maximum number of records to read again."""
        return sum(reset.again for reset in self.resets)

    def resets_of(self, number: int) -> Sequence[OffsetReset]:
        """The resets of the partitions with this number."""
        return [reset for reset in self.resets if reset.partition.number == number]


def plan_group(
    service: str, group: str, positions: Mapping[Partition, GroupPosition], target: Target
) -> GroupReplay:
    """Plan a reset. It only moves backwards: no record is ever skipped.

    If the service would refuse to start (its offset is no longer in the topic, its state ends
    before it, or the topic was recreated), the reset moves to the nearest offset from which it
    starts. A group that has never started needs no reset: it starts at the beginning.
    """
    resets = (_reset_for(part, position, target) for part, position in sorted(positions.items()))
    started = any(position.has_started for position in positions.values())
    return GroupReplay(
        service, group, tuple(reset for reset in resets if reset), has_started=started
    )


def _reset_for(partition: Partition, position: GroupPosition, target: Target) -> OffsetReset | None:
    if not position.has_started:
        return None
    available, offsets = position.available, position.next_offsets
    if position.topic_recreated:  # no record of the new topic was applied
        to = available.start
    else:
        wanted = _wanted(position, target)
        if not position.fault and wanted >= max(position.next_offsets_with_tables):
            return None
        to = min(_within(available, offset) for offset in (wanted, *offsets))
    current = (position.committed, *position.next_offsets_with_tables)
    if not position.fault and all(to == offset for offset in current):
        return None
    applied = position.changelog.applied if position.changelog else None
    return OffsetReset(
        partition,
        position.committed,
        to,
        _within(available, max(_read(position), default=to)) - to,
        position.fault,
        applied,
        is_for_all=position.topic_recreated or (applied or 0) > available.stop,
    )


def _read(position: GroupPosition) -> tuple[int, ...]:
    """The offsets before which this topic's records were read."""
    if not position.topic_recreated:
        return position.next_offsets_with_tables
    return () if position.committed is None else (position.committed,)


def _within(available: range, offset: int) -> int:
    return min(max(offset, available.start), available.stop)


def _wanted(position: GroupPosition, target: Target) -> int:
    match target:
        case ToOffset(offset):
            return offset
        case ToMoment():
            return position.available.stop if position.at_moment is None else position.at_moment
        case ToEarliest():
            return position.available.start
