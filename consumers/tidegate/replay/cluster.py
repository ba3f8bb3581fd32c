"""Replays on a cluster: look, and carry out what a plan says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError, FormatError, TidegateError
from tidegate.events import Event, RestoreRequested
from tidegate.events.topics import TOPICS
from tidegate.events.wire import Wire
from tidegate.registry import wire_for
from tidegate.replay.events import EventReplay, Selection, asks_for_restore, select_events
from tidegate.replay.groups import Groups
from tidegate.replay.memory import put_memory_back
from tidegate.replay.plan import GroupReplay, plan_group
from tidegate.replay.standings import Standings, within
from tidegate.replay.tables import places_of, shared_out, tables_among
from tidegate.replay.targets import Target
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka import KafkaBus
from tidegate.runtime.topic_log import TopicLog
from tidegate.services import DECIDERS, HEARD
from tidegate.settings import Settings

_BATCH: Final = 500


class Replays:
    """What `tidegate replay` does. Plans change nothing; `reset` and `publish` carry them out."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the cluster of the settings."""
        connection = settings.connection()
        prefix = self._prefix = settings.topics.prefix
        self._bus = KafkaBus(connection)
        self._log = TopicLog(connection, self._bus)
        self._groups = Groups(AdminClient({**connection, "log_level": 0}))
        self._standings = Standings(self._bus, self._log, self._groups, prefix)
        self._wire: Wire = wire_for(settings.registry)

    def __enter__(self) -> Self:
        """Enter a block at whose end the connection is closed."""
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
        """Plan to put a service's group back.

        Args:
            service: Its name.
            target: Where to.
            topic: Of its topics this one alone, by its name (`locks`); None: all of them.
            partition: This partition number alone.
            tables: Only the partitions on which these lie; none: all.

        Raises:
            ConfigError: there is no such service, topic or partition.
            GroupInUseError: the service runs.
            TidegateError: the service's topics have nothing of one of the tables.
        """
        group = f"{self._prefix}.{service}"
        spans = self._standings.spans(service, topic, partition)
        placed: dict[str, int] = {}
        if tables:
            placed = places_of(tables, self._standings.count(spans), partition)
            spans = {part: span for part, span in spans.items() if part.number in placed.values()}
        self._groups.check_unused(group)
        standings = self._standings.of(service, spans, target, placed or None)
        plan = plan_group(service, group, standings, target)
        if placed:
            plan = self._for_tables(replace(plan, tables=placed), spans)
        return replace(plan, restores=self._restores(plan))

    def reset(self, plan: GroupReplay) -> None:
        """Put a group back: a decider's memory first, then the offsets.

        Raises:
            GroupInUseError: the service was started meanwhile; its offsets are as they were.
            FencedError: likewise.
        """
        if not plan.moves:
            return
        self._groups.check_unused(plan.group)
        if plan.service in DECIDERS:
            put_memory_back(self._bus, self._prefix, plan)
        self._groups.put_back(plan.group, plan.moves)

    def plan_events(self, topic: str, selection: Selection) -> EventReplay:
        """Find the events to publish again.

        Raises:
            ConfigError: events do not travel on this topic.
        """
        known = {each.suffix: each for each in TOPICS if each.events}
        suffix = topic.removeprefix(f"{self._prefix}.")
        if suffix not in known:
            raise ConfigError(f"there is no topic {topic} of events; there are {', '.join(known)}")
        spans = within(self._log.spans(known[suffix].name(self._prefix)), selection.partition)
        return select_events(self._log.read(spans), selection, self._wire)

    def publish(self, plan: EventReplay) -> None:
        """Publish the events of a plan again."""
        messages = [found.message() for found in plan.events]
        for start in range(0, len(messages), _BATCH):
            self._bus.send(messages[start : start + _BATCH])

    def _for_tables(self, plan: GroupReplay, spans: Mapping[Partition, range]) -> GroupReplay:
        shared = shared_out(plan, self._log.read({m.partition: m.span for m in plan.moves}))
        unseen = set(plan.tables or ()) - {
            table for move in shared.moves if move.share for table in move.share.of_tables
        }
        unknown = unseen - tables_among(self._log.read(spans), unseen) if unseen else unseen
        if unknown:
            topics = ", ".join(sorted({each.topic for each in spans}))
            raise TidegateError(
                f"{topics} has no record of {', '.join(sorted(unknown))}: is the name right?"
            )
        return shared

    def _restores(self, plan: GroupReplay) -> int:
        """Count the requests for a restore among what the group would read again."""
        if RestoreRequested not in HEARD[plan.service]:
            return 0
        found = 0
        for record in self._log.read({m.partition: m.span for m in plan.moves}):
            try:
                event: Event = self._wire.unseal(record.key, record.value, record.headers)
            except FormatError:
                continue
            found += asks_for_restore(event)
        return found
