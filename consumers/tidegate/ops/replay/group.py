"""Reset a service's group to read again: make the plan, then carry it out.

The coordinator's changelog records the offset up to which each input was applied. If only the
group's offsets were reset, the coordinator would skip everything that it reads again. So the
positions are reset with the offsets, under the coordinator's fencing: a process that still had the
partition can no longer overwrite them, and a process that acquires it afterwards fences the replay.

The rows stay on purpose, because they make repeated events recognisable: the instants of requested
savepoints, the released vacuums, the ended locks and transactions. Without them all would be
requested again, and a vacuum whose releases are no longer on their topic would wait forever. An
event that is read again is thus a duplicate. The coordinator makes up for missed events
(dead-lettered by faulty code, or of a table that no rule covered), and does not repeat completed
work.

The changelog is reset before the group's offsets. After a crash in between, the positions are below
the offsets: the coordinator refuses to start until the replay is run again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegate.coordinator.rows.position import POSITION_KEY, Position
from tidegate.errors import ConfigError, FormatError, TidegateError
from tidegate.events import Event
from tidegate.events.topics import CHANGELOG, REQUEST_TOPIC, TASK_TOPIC, Role, partition_of
from tidegate.ops.event_log import since_ms
from tidegate.ops.groups import Groups, changed_position, input_topics
from tidegate.ops.replay.events import asks_for_restore, plan_sentences, within
from tidegate.ops.summary import counted
from tidegate.registry import wire_for
from tidegate.runtime.bus import Bus, Partition, require_copartitioned
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.subscription import watched_ids
from tidegate.service.catalogue import COORDINATOR
from tidegate.service.settings import Settings

Target = int | datetime
"""The start of a replay: an offset, or the first record that the broker appended at this time (with
its zone) or later. What is before the first record still in the topic means that record."""


@dataclass(frozen=True, slots=True)
class _GroupPosition:
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
class _OffsetReset:
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
class _GroupReplay:
    """The reset of one service's group. Partitions with unchanged offsets have no reset."""

    service: str
    group: str
    resets: tuple[_OffsetReset, ...]
    restores: int = 0
    """The number of restore requests among the records."""
    has_started: bool = True
    """Whether the group has read anything yet."""

    @property
    def records(self) -> int:
        """The maximum number of records to read again."""
        return sum(reset.again for reset in self.resets)

    @property
    def row(self) -> dict[str, Any]:
        """The plan for scripts."""
        has_faults = any(reset.fault for reset in self.resets)
        changes = [
            {
                "group": self.group,
                "topic": reset.partition.topic,
                "partition": reset.partition.number,
                "from_offset": reset.from_offset,
                "to_offset": reset.to_offset,
                "again": reset.again,
                **({"repairs": reset.fault} if has_faults else {}),
            }
            for reset in self.resets
        ]
        return {"restores": self.restores, "changes": changes}

    def sentences(self, *, executed: bool) -> Iterator[str]:
        """The plan for people, below the table of its changes."""
        if self.resets:
            where = counted(len(self.resets), "partition")
            would = f"{counted(self.records, 'record')} would be read again in {where}"
            yield from plan_sentences(would, self.restores, executed=executed)
        elif self.has_started:
            yield f"nothing to change: group {self.group} is already at or before that offset"
        else:
            yield (
                f"nothing to change: group {self.group} has not started, it reads from the"
                " beginning"
            )


def plan_group(
    service: str, group: str, positions: Mapping[Partition, _GroupPosition], target: Target
) -> _GroupReplay:
    """Plan a reset. It only moves backwards: no record is ever skipped.

    If the service would refuse to start (its offset is no longer in the topic, its state ends
    before it, or the topic was recreated), the reset moves to the nearest offset from which it
    starts. A group that has never started needs no reset: it starts at the beginning.
    """
    resets = (_reset_for(part, position, target) for part, position in sorted(positions.items()))
    started = any(
        position.next_offsets or position.topic_recreated for position in positions.values()
    )
    return _GroupReplay(
        service, group, tuple(reset for reset in resets if reset), has_started=started
    )


def _reset_for(
    partition: Partition, position: _GroupPosition, target: Target
) -> _OffsetReset | None:
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
        to = min(_clamped(available, offset) for offset in (wanted, *offsets))
    if not position.fault and all(to == offset for offset in offsets):
        return None
    again = _clamped(available, max(offsets, default=to)) - to
    return _OffsetReset(partition, position.committed, to, again, position.fault, position.applied)


def _clamped(available: range, offset: int) -> int:
    return min(max(offset, available.start), available.stop)


def plan_reset(  # noqa: PLR0913 - what is selected, by name
    bus: KafkaBus,
    settings: Settings,
    service: str,
    target: Target,
    *,
    topic: str | None = None,
    partition: int | None = None,
    tables: Collection[str] = (),
) -> _GroupReplay:
    """Plan a reset of a service's group, without changing or fencing anything.

    Args:
        bus: The cluster.
        settings: The deployment.
        service: Its name.
        target: The start of the replay.
        topic: Only this input topic (`locks`), with or without the prefix; None: all of them.
        partition: Only this partition number; None: all of them.
        tables: Only the partitions of these tables; empty: all.

    Raises:
        ConfigError: there is no such service, topic or partition.
        TidegateError: the service is running.
    """
    prefix = settings.topics.prefix
    names, spans = input_topics(service, topic, prefix), dict[Partition, range]()
    for name in names:
        spans |= bus.spans(name)
    spans = within(spans, partition)
    if tables:
        count = require_copartitioned(bus, names)
        numbers = {partition_of(table, count) for table in tables}
        spans = {part: span for part, span in spans.items() if part.number in numbers}
        if not spans:
            raise ConfigError(f"none of the tables is on partition {partition}")
    group, groups = f"{prefix}.{service}", Groups(settings.connection())
    groups.check_unused(group)
    committed, earlier = groups.positions(group, list(spans)), set[Partition]()
    at: dict[Partition, int] = {}
    if not isinstance(target, int):
        for name in {part.topic for part in spans}:
            since = bus.spans(name, since_ms(target))
            at |= {part: span.start for part, span in since.items()}
    if service == COORDINATOR:
        changelog = Partition(CHANGELOG.name(prefix), 0)
        now = bus.watermarks([changelog])[changelog].topic_id
        ids = {part: watched_ids(position.metadata) for part, position in committed.items()}
        earlier = {part for part, known in ids.items() if known and now not in known}
    positions = {
        part: _GroupPosition(
            span,
            committed[part].offset if part in committed else None,
            at.get(part),
            changelog_recreated=part in earlier,
        )
        for part, span in spans.items()
    }
    if service == COORDINATOR:
        positions = with_applied(bus, prefix, positions)
    plan = plan_group(service, group, positions, target)
    return replace(plan, restores=_restores(bus, settings, plan))


def _restores(bus: KafkaBus, settings: Settings, plan: _GroupReplay) -> int:
    """Count the restore requests among the records that the group would read again."""
    if plan.service not in {COORDINATOR, Role.RESTORER}:
        return 0
    prefix, wire, found = settings.topics.prefix, wire_for(settings.registry), 0
    topics = {topic.name(prefix) for topic in (REQUEST_TOPIC, TASK_TOPIC)}
    spans = {it.partition: it.span for it in plan.resets if it.partition.topic in topics}
    for record in bus.read(spans) if spans else ():
        try:
            event: Event = wire.deserialize(record.key, record.value, record.headers)
        except FormatError:
            continue
        found += asks_for_restore(event, wire)
    return found


def reset(bus: KafkaBus, settings: Settings, plan: _GroupReplay) -> None:
    """Reset a group: the coordinator's changelog first, then the offsets.

    Raises:
        TidegateError: the service was started meanwhile; its offsets are unchanged.
        StopService: likewise.
    """
    if not plan.resets:
        return
    groups = Groups(settings.connection())
    groups.check_unused(plan.group)
    if plan.service == COORDINATOR:
        reset_state(bus, settings.topics.prefix, plan)
    groups.set_offsets(plan.group, {reset.partition: reset.to_offset for reset in plan.resets})


def with_applied(
    bus: Bus, prefix: str, positions: Mapping[Partition, _GroupPosition]
) -> dict[Partition, _GroupPosition]:
    """Add the positions of the coordinator's changelog, without fencing the coordinator.

    Raises:
        ConfigError: the changelog topic does not exist.
        FormatError: the changelog cannot be decoded.
    """
    topic = CHANGELOG.name(prefix)
    bus.partitions(topic)
    marks = bus.watermarks(list(positions))
    state: dict[int, Position] = {}
    for number in {part.number for part in positions}:
        state[number] = Position()
        for record in bus.log(Partition(topic, number)):
            if record.key == POSITION_KEY:
                state[number] = Position.of(record.value or b"{}")
    found: dict[Partition, _GroupPosition] = {}
    for part, position in positions.items():
        own = state[part.number]
        applied = own.offsets.get(part.topic)
        if applied is None and position.committed is not None:
            applied = position.available.start  # what the coordinator assumes
        known = own.topic_ids.get(part.topic, marks[part].topic_id)
        found[part] = replace(
            position, applied=applied, topic_recreated=known != marks[part].topic_id
        )
    return found


def reset_state(bus: Bus, prefix: str, plan: _GroupReplay) -> None:
    """Reset the positions in the coordinator's changelog to the new offsets of its group.

    Raises:
        TidegateError: the service ran since the plan was made; nothing was written.
        StopService: the service was started meanwhile; its group must not be reset.
        FormatError: the changelog cannot be decoded.
    """
    for number in sorted({reset.partition.number for reset in plan.resets}):
        resets = [reset for reset in plan.resets if reset.partition.number == number]
        marks = bus.watermarks([reset.partition for reset in resets])
        with changed_position(bus, prefix, number) as position:
            for reset in resets:
                topic = reset.partition.topic
                if position.offsets.get(topic, reset.applied) != reset.applied:
                    raise TidegateError(
                        f"the service has read more of {topic}[{number}] since the plan was made:"
                        " stop it, and plan again"
                    )
                position.offsets[topic], topic_id = reset.to_offset, marks[reset.partition].topic_id
                if position.topic_ids.get(topic) != topic_id:  # its offsets are those of new events
                    position.rebuilt_to.pop(topic, None)
                position.topic_ids[topic] = topic_id
