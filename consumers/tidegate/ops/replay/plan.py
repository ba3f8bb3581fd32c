"""The plan of a group's reset, as a value; the plan is the dry run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidegate.runtime.bus import Partition

Target = int | datetime
"""The start of a replay: an offset, or the first record that the broker appended at this time (with
its zone) or later. What is before the first record still in the topic means that record."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A consumer group's position on one partition.

    Attributes:
        available: The available offsets.
        committed: The committed offset; None if the group never committed or it expired.
        at_moment: The offset at the target's time, if the target is a time.
        applied: The next offset to apply, by the coordinator's changelog; None for a worker, and
            where the changelog has none.
        topic_recreated: Whether the topic was deleted and created again since.
        changelog_recreated: Whether the offset was committed with an earlier changelog.
    """

    available: range
    committed: int | None
    at_moment: int | None = None
    applied: int | None = None
    topic_recreated: bool = False
    changelog_recreated: bool = False

    @property
    def next_offsets(self) -> tuple[int, ...]:
        """The next offset to process, by the group and by the coordinator's changelog."""
        return tuple(offset for offset in (self.committed, self.applied) if offset is not None)

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
    has_started: bool = True
    """Whether the group has read anything yet."""

    @property
    def records(self) -> int:
        """The maximum number of records to read again."""
        return sum(reset.again for reset in self.resets)


def plan_group(
    service: str, group: str, positions: Mapping[Partition, GroupPosition], target: Target
) -> GroupReplay:
    """Plan a reset. It only moves backwards: no record is ever skipped.

    If the service would refuse to start (its offset is no longer in the topic, its state ends
    before it, or the topic was recreated), the reset moves to the nearest offset from which it
    starts. A group that has never started needs no reset: it starts at the beginning.
    """
    resets = (_reset_for(part, position, target) for part, position in sorted(positions.items()))
    started = any(
        position.next_offsets or position.topic_recreated for position in positions.values()
    )
    return GroupReplay(
        service, group, tuple(reset for reset in resets if reset), has_started=started
    )


def _reset_for(partition: Partition, position: GroupPosition, target: Target) -> OffsetReset | None:
    available, offsets = position.available, position.next_offsets
    if position.topic_recreated:  # no record of the new topic was applied
        to = available.start
        offsets = () if position.committed is None else (position.committed,)
    elif not offsets:
        return None
    else:
        moment = available.stop if position.at_moment is None else position.at_moment
        wanted = target if isinstance(target, int) else moment
        if not position.fault and wanted >= max(offsets):
            return None
        to = min(_within(available, offset) for offset in (wanted, *offsets))
    if not position.fault and all(to == offset for offset in offsets):
        return None
    again = _within(available, max(offsets, default=to)) - to
    return OffsetReset(partition, position.committed, to, again, position.fault, position.applied)


def _within(available: range, offset: int) -> int:
    return min(max(offset, available.start), available.stop)
