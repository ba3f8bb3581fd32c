"""Where a service stands on the cluster: what its topics hold, its offsets, a decider's memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate.errors import ConfigError
from tidegate.events.topics import changelog, topic_of
from tidegate.replay.groups import Groups
from tidegate.replay.memory import recall
from tidegate.replay.plan import Remembered, Standing
from tidegate.replay.targets import Target, ToMoment
from tidegate.runtime.bus import Bus, Partition, copartitioned
from tidegate.runtime.topic_log import TopicLog
from tidegate.services import DECIDERS, HEARD

_READERS: Final = 8
"""Changelog partitions that are read at the same time."""


@dataclass(frozen=True, slots=True)
class Standings:
    """Looks from the side: nobody's offsets move, and no decider is shut out of its memory."""

    bus: Bus
    log: TopicLog
    groups: Groups
    prefix: str

    def spans(
        self, service: str, topic: str | None, partition: int | None
    ) -> dict[Partition, range]:
        """What a service's topics hold.

        Args:
            service: Its name.
            topic: Of its topics this one alone, with or without the prefix; None: all of them.
            partition: This partition number alone.

        Raises:
            ConfigError: there is no such service, topic or partition.
        """
        spans: dict[Partition, range] = {}
        for name in self._inputs(service, topic):
            spans |= self.log.spans(name)
        return within(spans, partition)

    def _inputs(self, service: str, topic: str | None) -> list[str]:
        if service not in HEARD:
            raise ConfigError(f"there is no service {service!r}; there are {', '.join(HEARD)}")
        topics = {topic_of(kind).suffix for kind in HEARD[service]}
        wanted = topics if topic is None else {topic.removeprefix(f"{self.prefix}.")}
        if not wanted <= topics:
            raise ConfigError(
                f"{service} does not hear {topic}; it hears {', '.join(sorted(topics))}"
            )
        return sorted(f"{self.prefix}.{each}" for each in wanted)

    def count(self, spans: Mapping[Partition, range]) -> int:
        """The number of partitions, which has to be the same everywhere.

        Raises:
            ConfigError: it is not.
        """
        return copartitioned(self.bus, sorted({each.topic for each in spans}))

    def of(
        self,
        service: str,
        spans: Mapping[Partition, range],
        target: Target,
        tables: Collection[str] | None = None,
    ) -> dict[Partition, Standing]:
        """Where the service's group stands in these partitions, and a decider's memory too.

        Args:
            service: Its name.
            spans: What the partitions hold.
            target: Where the group is to go.
            tables: Those that are meant; None: all.
        """
        committed = self.groups.committed(f"{self.prefix}.{service}", list(spans))
        at: dict[Partition, int] = {}
        if isinstance(target, ToMoment):
            for topic in sorted({each.topic for each in spans}):
                at |= self.log.offsets_at(topic, target.moment)
        memory = self._memory(service, spans, tables) if service in DECIDERS else {}
        return {
            part: Standing(span, committed.get(part), at.get(part), memory.get(part))
            for part, span in spans.items()
        }

    def _memory(
        self, decider: str, parts: Iterable[Partition], tables: Collection[str] | None
    ) -> dict[Partition, Remembered]:
        kept = changelog(decider).name(self.prefix)
        inputs: dict[Partition, set[str]] = defaultdict(set)
        for part in parts:
            inputs[Partition(kept, part.number)].add(part.topic)
        ask = partial(recall, self.bus, tables=tables)
        with ThreadPoolExecutor(_READERS) as pool:
            found = pool.map(ask, inputs, inputs.values())
            return {part: each for told in found for part, each in told.items()}


def within(spans: Mapping[Partition, range], number: int | None) -> dict[Partition, range]:
    """Of these partitions those of a number; None: all.

    Raises:
        ConfigError: there is none.
    """
    found = {part: span for part, span in spans.items() if number in (None, part.number)}
    if not found:
        topics = ", ".join(sorted({part.topic for part in spans}))
        raise ConfigError(f"{topics} has no partition {number}")
    return found
