"""Carry out a move to more partitions on a cluster; run again, it resumes where it stopped.

The order, so that nothing is lost wherever it stops:
1. Every partition of a decider's changelog gets the number of partitions that its state was made
   for. From then on, until step 5, a decider refuses to start.
2. All topics get more partitions.
3. Each table's records are copied to their new partition, then removed from the old one. A copy
   that was written already is written again with the same content: no decider ran since.
4. Every group gets committed offsets on the new partitions, at their beginning.
5. The changelogs get the new number of partitions.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tidegate.coordinator.store import POSITION_KEY, Position
from tidegate.errors import ConfigError, TidegateError, TransientError
from tidegate.events.topics import changelog, topic_of
from tidegate.ops.groups import Groups
from tidegate.ops.growth.moves import Entry, GrowthPlan, latest, records_to_move, table_of, update
from tidegate.runtime.bus import Changelog, Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.topic_reader import Observer, TopicReader
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.catalogue import CONSUMED_EVENTS, DECIDERS
from tidegate.service.settings import Settings
from tidegate.service.topics.cluster import describe_topics
from tidegate.service.topics.declaration import deployment

_WAIT: Final = 30.0
_PAUSE: Final = 0.1
_RETRIES: Final = RetryPolicy(attempts=8, longest=2.0)
"""New partitions have no leader for a moment."""
_BATCH: Final = 1000
"""Records of one transaction."""


class Growth:
    """What `tidegate topics grow` does. The plan changes nothing; `execute` carries it out."""

    def __init__(self, settings: Settings, progress: Observer = iter) -> None:
        """Connect to the cluster of the settings; what is read passes through `progress`."""
        connection = settings.connection()
        self._prefix = settings.topics.prefix
        self._names = [each.name for each in deployment(settings.topics, DECIDERS)]
        self._bus = KafkaBus(connection)
        self._log = TopicReader(connection, self._bus)
        self._progress = progress
        self._admin = AdminClient({**connection, "log_level": 0})
        self._groups = Groups(self._admin, KafkaMetadata(connection))

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._bus.close()

    def plan(self, partitions: int) -> GrowthPlan:
        """Check that the deployment can be moved, and say what would change.

        Raises:
            ConfigError: a topic is missing, or has more partitions than that already.
            GroupInUseError: a service is running.
            TidegateError: a service has not read all of its topics.
        """
        counts = self._counts()
        if missing := sorted(set(self._names) - set(counts)):
            raise ConfigError(f"missing topics: {', '.join(missing)}; run: tidegate topics create")
        if larger := {name: count for name, count in counts.items() if count > partitions}:
            name, count = next(iter(larger.items()))
            raise ConfigError(
                f"{name} has {count} partitions: a topic can't have fewer, use --partitions {count}"
            )
        for service in CONSUMED_EVENTS:
            self._groups.check_unused(f"{self._prefix}.{service}")
        _RETRIES.call(self._check_all_read)
        return GrowthPlan(
            to=partitions,
            topics={name: count for name, count in counts.items() if count < partitions},
            tables={
                decider: self._tables_to_move(decider, counts, partitions) for decider in DECIDERS
            },
        )

    def execute(self, plan: GrowthPlan) -> None:
        """Move the deployment. If it is interrupted, plan and execute again.

        Raises:
            FencedError: a service was started meanwhile: stop it, plan and execute again.
            TransientError: the broker did not answer: execute again.
        """
        present = min(plan.topics.values(), default=None)
        for decider in DECIDERS:
            self._declare(decider, present, plan.to)
        self._add_partitions(plan)
        for decider in DECIDERS:
            self._declare(decider, present, plan.to)  # the new partitions, too
        for decider in DECIDERS:
            self._move(decider, plan.to)
        _RETRIES.call(self._set_offsets)
        for decider in DECIDERS:
            with self._acquired(decider) as log:
                found = log.records
                log.write({number: [_made_for(plan.to, found[number])] for number in found})

    def _counts(self) -> dict[str, int]:
        found = describe_topics(self._admin, self._names)
        return {name: each.partitions for name, each in found.items()}

    def _inputs(self, service: str) -> list[str]:
        return sorted({topic_of(kind).name(self._prefix) for kind in CONSUMED_EVENTS[service]})

    def _check_all_read(self) -> None:
        behind = {service: sum(self._unread(service).values()) for service in CONSUMED_EVENTS}
        if unread := [f"{name} {count}" for name, count in behind.items() if count]:
            raise TidegateError(
                f"unread records: {', '.join(unread)}. Stop the writers, start these services until"
                " they have read everything, stop them, then try again"
            )

    def _unread(self, service: str) -> dict[Partition, int]:
        spans = {p: s for topic in self._inputs(service) for p, s in self._log.spans(topic).items()}
        committed = self._groups.committed(f"{self._prefix}.{service}", list(spans))
        return {part: span.stop - committed.get(part, span.start) for part, span in spans.items()}

    def _tables_to_move(self, decider: str, counts: Mapping[str, int], partitions: int) -> int:
        topic = changelog(decider).name(self._prefix)
        found = 0
        for number in range(counts[topic]):
            log = self._progress(self._bus.log(Partition(topic, number)))
            moved = records_to_move(
                latest((r.key or b"", r.value) for r in log), number, partitions
            )
            found += len({table_of(key) for each in moved.values() for key, _ in each})
        return found

    def _declare(self, decider: str, present: int | None, to: int) -> None:
        """Step 1: write the number of partitions that the state was made for where it is missing.

        After an interruption the topics may have their new number already: then the changelogs of
        the former partitions say it.
        """
        with self._acquired(decider) as log:
            known = {number: _header(records) for number, records in log.records.items()}
            before = [count for count in known.values() if count not in (None, to)]
            made_for = before[0] if before else present
            if made_for is not None:
                missing = [number for number, count in known.items() if count is None]
                log.write({n: [_made_for(made_for, log.records[n])] for n in missing})

    def _add_partitions(self, plan: GrowthPlan) -> None:
        """Step 2."""
        if not plan.topics:
            return
        wanted = [NewPartitions(name, plan.to) for name in plan.topics]
        for name, future in self._admin.create_partitions(wanted, request_timeout=_WAIT).items():
            try:
                future.result(_WAIT)
            except KafkaException as error:
                raise ConfigError(f"topic {name}: {error.args[0].str()}") from error
        deadline = time.monotonic() + _WAIT
        while any(count < plan.to for count in self._counts().values()):
            if time.monotonic() > deadline:
                raise TransientError("the broker does not list the new partitions yet: try again")
            time.sleep(_PAUSE)

    def _move(self, decider: str, partitions: int) -> None:
        """Step 3: copies first, then removals, one source partition after another."""
        with self._acquired(decider) as log:
            for number, records in log.records.items():
                moved = records_to_move(records, number, partitions)
                for home, each in moved.items():
                    _write(log, home, each)
                _write(log, number, [(key, None) for each in moved.values() for key, _ in each])

    def _set_offsets(self) -> None:
        """Step 4: a group that never committed reads a new partition from its beginning, too."""
        for service in CONSUMED_EVENTS:
            group = f"{self._prefix}.{service}"
            each = (self._log.spans(topic) for topic in self._inputs(service))
            spans = {part: span for found in each for part, span in found.items()}
            committed = self._groups.committed(group, list(spans))
            new = {part: span.start for part, span in spans.items() if part not in committed}
            if committed and new:
                self._groups.set_offsets(group, new)

    @contextmanager
    def _acquired(self, decider: str) -> Generator[_AcquiredChangelog]:
        """A decider's whole changelog, fenced: no process of it can write any more."""
        topic = changelog(decider).name(self._prefix)
        log = self._bus.changelog(topic)
        numbers = range(self._bus.partitions(topic))
        try:
            found: dict[int, dict[bytes, bytes]] = {number: {} for number in numbers}
            for number, records in log.acquire(numbers):
                update(found[number], self._progress(records))
            yield _AcquiredChangelog(log, found)
        finally:
            log.close()


@dataclass(frozen=True, slots=True)
class _AcquiredChangelog:
    """A changelog that is ours, and the newest record of each key, by partition."""

    changelog: Changelog
    records: Mapping[int, Mapping[bytes, bytes]]

    def write(self, entries: Mapping[int, Sequence[Entry]]) -> None:
        if entries:
            self.changelog.write(entries)


def _write(log: _AcquiredChangelog, number: int, entries: Sequence[Entry]) -> None:
    """Append in batches, each with its end mark."""
    position = Position.of(log.records[number].get(POSITION_KEY, b"{}")).record()
    for start in range(0, len(entries), _BATCH):
        log.write({number: [*entries[start : start + _BATCH], position]})


def _header(records: Mapping[bytes, bytes]) -> int | None:
    """The number of partitions that a changelog was made for; None where it has none."""
    return Position.of(records.get(POSITION_KEY, b"{}")).partitions


def _made_for(partitions: int, records: Mapping[bytes, bytes]) -> Entry:
    position = Position.of(records.get(POSITION_KEY, b"{}"))
    position.partitions = partitions
    return position.record()
