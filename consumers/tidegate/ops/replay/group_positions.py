"""A service's positions on the cluster: committed offsets, and those in the changelog."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate.errors import ConfigError
from tidegate.events.topics import CHANGELOG
from tidegate.ops.groups import Groups
from tidegate.ops.replay.changelogs import applied_positions
from tidegate.ops.replay.plan import AppliedPosition, GroupPosition
from tidegate.ops.replay.targets import Target, ToMoment
from tidegate.runtime.bus import Bus, Partition, require_copartitioned
from tidegate.runtime.kafka.topic_guard import watched_ids
from tidegate.runtime.kafka.topic_reader import TopicReader
from tidegate.service.catalogue import CONSUMED_EVENTS, COORDINATOR, inputs_of

_READERS: Final = 8
"""Changelog partitions that are read at the same time."""


@dataclass(frozen=True, slots=True)
class GroupPositions:
    """Reads positions, without changing an offset or fencing the coordinator."""

    bus: Bus
    log: TopicReader
    groups: Groups
    prefix: str

    def spans(
        self, service: str, topic: str | None, partition: int | None
    ) -> dict[Partition, range]:
        """The available offsets of a service's input topics.

        Args:
            service: Its name.
            topic: Only this input topic, with or without the prefix; None: all of them.
            partition: Only this partition number; None: all of them.

        Raises:
            ConfigError: there is no such service, topic or partition.
        """
        spans: dict[Partition, range] = {}
        for name in self._inputs(service, topic):
            spans |= self.log.spans(name)
        return within(spans, partition)

    def _inputs(self, service: str, topic: str | None) -> list[str]:
        if service not in CONSUMED_EVENTS:
            raise ConfigError(
                f"unknown service {service!r}: choose one of {', '.join(CONSUMED_EVENTS)}"
            )
        topics = {found.suffix for found in inputs_of(service)}
        wanted = topics if topic is None else {topic.removeprefix(f"{self.prefix}.")}
        if not wanted <= topics:
            raise ConfigError(
                f"{service} does not consume {topic}, only {', '.join(sorted(topics))}"
            )
        return sorted(f"{self.prefix}.{suffix}" for suffix in wanted)

    def count(self, spans: Mapping[Partition, range]) -> int:
        """The number of partitions, which must be the same for all topics.

        Raises:
            ConfigError: the topics have different numbers.
        """
        return require_copartitioned(self.bus, sorted({span.topic for span in spans}))

    def of(
        self,
        service: str,
        spans: Mapping[Partition, range],
        target: Target,
        tables: Collection[str] | None = None,
    ) -> dict[Partition, GroupPosition]:
        """The service's position in these partitions, by its group and the coordinator's changelog.

        Args:
            service: Its name.
            spans: The available offsets.
            target: The start of the replay.
            tables: The selected tables; None: all.
        """
        group, metadata = f"{self.prefix}.{service}", self.groups.metadata
        found = self.groups.retries.call(lambda: metadata.committed(group, list(spans)))
        committed = {part: position.offset for part, position in found.items()}
        at: dict[Partition, int] = {}
        if isinstance(target, ToMoment):
            for topic in sorted({span.topic for span in spans}):
                at |= self.log.offsets_at(topic, target.moment)
        applied: dict[Partition, AppliedPosition] = {}
        earlier: set[Partition] = set()
        if service == COORDINATOR:
            applied = self._applied(spans, tables)
            changelog = Partition(CHANGELOG.name(self.prefix), 0)
            now = self.bus.watermarks([changelog])[changelog].topic_id
            ids = {part: watched_ids(position.metadata) for part, position in found.items()}
            earlier = {part for part, known in ids.items() if known and now not in known}
        return {
            part: GroupPosition(
                span, committed.get(part), at.get(part), applied.get(part), part in earlier
            )
            for part, span in spans.items()
        }

    def _applied(
        self, parts: Iterable[Partition], tables: Collection[str] | None
    ) -> dict[Partition, AppliedPosition]:
        log = CHANGELOG.name(self.prefix)
        inputs: dict[Partition, set[str]] = defaultdict(set)
        for part in parts:
            inputs[Partition(log, part.number)].add(part.topic)
        read = partial(applied_positions, self.bus, tables=tables)
        with ThreadPoolExecutor(_READERS) as pool:
            found = pool.map(read, inputs, inputs.values())
            return {part: position for positions in found for part, position in positions.items()}


def within(spans: Mapping[Partition, range], number: int | None) -> dict[Partition, range]:
    """The partitions with this number; None: all.

    Raises:
        ConfigError: there is no such partition.
    """
    found = {part: span for part, span in spans.items() if number in (None, part.number)}
    if not found:
        topics = ", ".join(sorted({part.topic for part in spans}))
        raise ConfigError(f"{topics} has no partition {number}")
    return found
