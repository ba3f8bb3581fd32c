"""Replays on a cluster: make the plan, then carry it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, Self

from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError, FormatError, TidegateError
from tidegate.events import Event, RestoreRequested
from tidegate.events.topics import TOPICS
from tidegate.events.wire import Wire
from tidegate.ops.groups import Groups
from tidegate.ops.replay.changelogs import reset_state
from tidegate.ops.replay.events import (
    EventReplay,
    SelectedEvent,
    Selection,
    Unreadable,
    asks_for_restore,
    narrowed,
    plan_of,
    select_events,
)
from tidegate.ops.replay.group_positions import GroupPositions, within
from tidegate.ops.replay.plan import GroupReplay, plan_group
from tidegate.ops.replay.tables import count_records, locate_tables, tables_found
from tidegate.ops.replay.targets import Target
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.topic_reader import TopicReader
from tidegate.service.catalogue import CONSUMED_EVENTS, COORDINATOR
from tidegate.service.settings import Settings

_BATCH: Final = 500
LISTED: Final = 100
"""The default number of events that a plan lists."""


class Replays:
    """The operations of `tidegate replay`. Plans only read; `reset` and `publish` execute them."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the cluster of the settings."""
        connection = settings.connection()
        prefix = self._prefix = settings.topics.prefix
        self._bus = KafkaBus(connection)
        self._log = TopicReader(connection, self._bus)
        admin = AdminClient({**connection, "log_level": 0})
        self._groups = Groups(admin, KafkaMetadata(connection))
        self._positions = GroupPositions(self._bus, self._log, self._groups, prefix)
        self._wire: Wire = wire_for(settings.registry)

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._bus.close()

    def plan_reset(
        self,
        service: str,
        target: Target,
        *,
        topic: str | None = None,
        partition: int | None = None,
        tables: Sequence[str] = (),
    ) -> GroupReplay:
        """Plan a reset of a service's group.

        Args:
            service: Its name.
            target: The start of the replay.
            topic: Only this input topic (`locks`); None: all of them.
            partition: Only this partition number; None: all of them.
            tables: Only the partitions of these tables; empty: all.

        Raises:
            ConfigError: there is no such service, topic or partition.
            GroupInUseError: the service is running.
            TidegateError: the service's topics have no record of one of the tables.
        """
        group = f"{self._prefix}.{service}"
        spans = self._positions.spans(service, topic, partition)
        placed: dict[str, int] = {}
        if tables:
            placed = locate_tables(tables, self._positions.count(spans), partition)
            spans = {part: span for part, span in spans.items() if part.number in placed.values()}
        self._groups.check_unused(group)
        positions = self._positions.of(service, spans, target, placed or None)
        plan = plan_group(service, group, positions, target)
        if placed:
            plan = self._for_tables(replace(plan, tables=placed), spans)
        return replace(plan, restores=self._restores(plan))

    def reset(self, plan: GroupReplay) -> None:
        """Reset a group: the coordinator's changelog first, then the offsets.

        Raises:
            GroupInUseError: the service was started meanwhile; its offsets are unchanged.
            FencedError: likewise.
        """
        if not plan.resets:
            return
        self._groups.check_unused(plan.group)
        if plan.service == COORDINATOR:
            reset_state(self._bus, self._prefix, plan)
        self._groups.set_offsets(
            plan.group, {reset.partition: reset.to_offset for reset in plan.resets}
        )

    def plan_events(self, topic: str, selection: Selection, limit: int = LISTED) -> EventReplay:
        """Find the events to publish again; the plan lists up to `limit` of them.

        Only offsets that the selection can cover are read, record by record.

        Raises:
            ConfigError: `topic` is not a topic of events.
        """
        known = {topic.suffix: topic for topic in TOPICS if topic.events}
        suffix = topic.removeprefix(f"{self._prefix}.")
        if suffix not in known:
            raise ConfigError(f"unknown topic {topic}: choose one of {', '.join(known)}")
        spans = within(self._log.spans(known[suffix].name(self._prefix)), selection.partition)
        name = known[suffix].name(self._prefix)
        spans = narrowed(spans, selection, lambda at: self._log.offsets_at(name, at))
        return plan_of(self._selected(spans, selection), spans, selection, limit)

    def publish(self, plan: EventReplay) -> None:
        """Publish the events of a plan again, in order within each partition.

        They are read a second time instead of being held in memory.
        """
        found = self._selected(plan.spans, plan.selection)
        messages = (event.message() for event in found if isinstance(event, SelectedEvent))
        while batch := list(islice(messages, _BATCH)):
            self._bus.send(batch)

    def _selected(
        self, spans: Mapping[Partition, range], selection: Selection
    ) -> Iterator[SelectedEvent | Unreadable]:
        return select_events(self._log.read(spans), selection, self._wire)

    def _for_tables(self, plan: GroupReplay, spans: Mapping[Partition, range]) -> GroupReplay:
        counted = count_records(plan, self._log.read({r.partition: r.span for r in plan.resets}))
        unseen = set(plan.tables or ()) - {
            table for reset in counted.resets if reset.counts for table in reset.counts.by_table
        }
        unknown = unseen - tables_found(self._log.read(spans), unseen) if unseen else unseen
        if unknown:
            topics = ", ".join(sorted({span.topic for span in spans}))
            raise TidegateError(
                f"{topics} has no record of {', '.join(sorted(unknown))}: check the name"
            )
        return counted

    def _restores(self, plan: GroupReplay) -> int:
        """Count the restore requests among the records that the group would read again."""
        if RestoreRequested not in CONSUMED_EVENTS[plan.service]:
            return 0
        found = 0
        for record in self._log.read({r.partition: r.span for r in plan.resets}):
            try:
                event: Event = self._wire.deserialize(record.key, record.value, record.headers)
            except FormatError:
                continue
            found += asks_for_restore(event)
        return found
