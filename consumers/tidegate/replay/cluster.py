"""Replays on a cluster: look, and carry out what a plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self

from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError, FormatError
from tidegate.events import Event, RestoreRequested
from tidegate.events.topics import TOPICS, topic_of
from tidegate.events.wire import Wire
from tidegate.registry import wire_for
from tidegate.replay.events import EventReplay, Selection, asks_for_restore, select_events
from tidegate.replay.groups import Groups
from tidegate.replay.memory import put_memory_back
from tidegate.replay.plan import GroupReplay, Standing, plan_group
from tidegate.replay.targets import Target, ToMoment
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
        self._prefix = settings.topics.prefix
        self._bus = KafkaBus(connection)
        self._log = TopicLog(connection, self._bus)
        self._groups = Groups(AdminClient({**connection, "log_level": 0}))
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
    ) -> GroupReplay:
        """Plan to put a service's group back.

        Args:
            service: Its name.
            target: Where to.
            topic: Of its topics this one alone, by its short name (`locks`); None: all of them.
            partition: This partition number alone.

        Raises:
            ConfigError: there is no such service, topic or partition.
            GroupInUseError: the service runs.
        """
        group = f"{self._prefix}.{service}"
        topics = self._inputs(service, topic)
        self._groups.check_unused(group)
        standings = {
            part: each
            for name in topics
            for part, each in self._standings(group, name, target).items()
            if partition in (None, part.number)
        }
        if not standings:
            raise ConfigError(f"{', '.join(topics)} has no partition {partition}")
        plan = plan_group(service, group, standings, target)
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
        if topic not in known:
            raise ConfigError(f"there is no topic {topic} of events; there are {', '.join(known)}")
        spans = self._log.spans(known[topic].name(self._prefix))
        return select_events(self._log.read(spans), selection, self._wire)

    def publish(self, plan: EventReplay) -> None:
        """Publish the events of a plan again."""
        messages = [found.message() for found in plan.events]
        for start in range(0, len(messages), _BATCH):
            self._bus.send(messages[start : start + _BATCH])

    def _inputs(self, service: str, topic: str | None) -> list[str]:
        if service not in HEARD:
            raise ConfigError(f"there is no service {service!r}; there are {', '.join(HEARD)}")
        topics = {topic_of(kind) for kind in HEARD[service]}
        if topic is not None and topic not in {each.suffix for each in topics}:
            heard = ", ".join(sorted(each.suffix for each in topics))
            raise ConfigError(f"{service} does not hear {topic}; it hears {heard}")
        return sorted(t.name(self._prefix) for t in topics if topic in (None, t.suffix))

    def _standings(self, group: str, topic: str, target: Target) -> dict[Partition, Standing]:
        spans = self._log.spans(topic)
        committed = self._groups.committed(group, list(spans))
        at: dict[Partition, int] = {}
        if isinstance(target, ToMoment):
            at = self._log.offsets_at(topic, target.moment)
        return {p: Standing(span, committed.get(p), at.get(p)) for p, span in spans.items()}

    def _restores(self, plan: GroupReplay) -> int:
        """Count the requests for a restore among what the group would read again."""
        if RestoreRequested not in HEARD[plan.service]:
            return 0
        spans = {m.partition: range(m.to_offset, m.to_offset + m.again) for m in plan.moves}
        found = 0
        for record in self._log.read(spans):
            try:
                event: Event = self._wire.unseal(record.key, record.value, record.headers)
            except FormatError:
                continue
            found += asks_for_restore(event)
        return found
