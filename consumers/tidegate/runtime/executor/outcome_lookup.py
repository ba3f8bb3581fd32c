"""Finds the outcomes that a command already has on the outcomes topic."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tidegate.errors import ConfigError, FormatError, TransientError
from tidegate.events import Command, Event, Outcome
from tidegate.events.keys import partition_of, partition_of_key
from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Bus, Partition, Record

CLOCK_MARGIN_MS: Final = 24 * 60 * 60 * 1000
"""How far the clocks of brokers and requesters may differ: a day, far more than in practice."""
MAX_MISPLACED: Final = 200_000
"""The most misplaced outcomes whose locations are held in memory: about 50 MB."""
_home: Final = lru_cache(maxsize=65_536)(partition_of_key)  # hashing a key takes 5 us
Spans = Mapping[Partition, range]


class OutcomeLookup:
    """Finds the outcomes of commands. Thread-safe.

    A call reads the records after the command on the partition of its table. The other partitions
    are read once; later calls read only their new records. An outcome is on another partition if
    the topic had fewer partitions then, or if its producer used another partitioner.
    """

    def __init__(self, bus: Bus, wire: Wire, prefix: str) -> None:
        """Read nothing yet.

        Args:
            bus: The broker.
            wire: How events are encoded.
            prefix: The prefix of the topics' names.
        """
        self._bus, self._wire, self._topic = bus, wire, OUTCOME_TOPIC.name(prefix)
        self._misplaced = _Misplaced(bus, wire)
        self._lock = threading.Lock()

    def outcomes_of(self, command: Command, appended_ms: int) -> list[Outcome]:
        """Every outcome of a command; those of one partition oldest first.

        Nothing older than the command is read, because an outcome follows its command. But a retry
        or a redriven dead letter may write a command a second time, after its outcome. So the
        reading begins when the broker appended the command or when its event was made, whichever is
        earlier, less a margin for clocks that differ.

        Args:
            command: The command.
            appended_ms: When the broker appended it, in milliseconds since the epoch.

        Raises:
            TransientError: not all outcomes could be read now.
        """
        made_ms = int(command.occurred_at.timestamp() * 1000)
        since_ms = max(1, min(appended_ms, made_ms) - CLOCK_MARGIN_MS)
        try:
            spans = dict(self._bus.spans(self._topic, since_ms))
        except ConfigError as error:  # the topic existed at the start: a broker does not know it
            raise TransientError(str(error)) from error
        home = Partition(self._topic, partition_of(command.table, len(spans)))
        own = {home: spans.pop(home)}
        with self._lock:
            elsewhere = self._misplaced.outcomes_of(command.event_id, spans, 1 + len(spans))
        return [*elsewhere, *_outcomes(self._bus, self._wire, own, command.event_id)]


@dataclass(slots=True)
class _Misplaced:
    """The locations of outcomes outside the partition of their table, by their command's id."""

    bus: Bus
    wire: Wire
    partitions: int = 0
    read: dict[Partition, range] = field(default_factory=dict[Partition, range])
    """By partition, the offsets that were read."""
    places: dict[str, list[tuple[Partition, int]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[Partition, int]]](list)
    )
    count: int = 0

    def outcomes_of(self, command_id: str, spans: Spans, partitions: int) -> list[Outcome]:
        """The misplaced outcomes of a command within these spans."""
        again = any(part in self.read and self.read[part].stop > spans[part].stop for part in spans)
        if partitions != self.partitions or again:  # more partitions now, or another topic
            self.partitions, self.count = partitions, 0
            self.read.clear()
            self.places.clear()
        if self.count <= MAX_MISPLACED:
            self._extend(spans)
        if self.count > MAX_MISPLACED:
            return list(_outcomes(self.bus, self.wire, spans, command_id))
        found: list[Outcome] = []
        for part, offset in self.places.get(command_id, ()):
            if offset in spans.get(part, ()):  # others are deleted or older than the command
                at = {part: range(offset, offset + 1)}
                found += _outcomes(self.bus, self.wire, at, command_id)
        return found

    def _extend(self, spans: Spans) -> None:
        """Read the offsets before and after those that were read."""
        older: dict[Partition, range] = {}
        newer: dict[Partition, range] = {}
        whole: dict[Partition, range] = {}
        for part, span in spans.items():
            known = self.read.get(part, range(span.start, span.start))
            if known.stop < span.start:  # deleted in between
                known = range(span.start, span.start)
            older[part], newer[part] = range(span.start, known.start), range(known.stop, span.stop)
            whole[part] = range(min(known.start, span.start), span.stop)
        for part_of_topic in (older, newer):
            for record in self.bus.read(part_of_topic):
                self._note(record)
        self.read |= whole

    def _note(self, record: Record) -> None:
        if _home(record.key or b"", self.partitions) == record.partition.number and record.key:
            return
        event = _event(record, self.wire)
        if isinstance(event, Outcome) and event.caused_by:
            self.places[event.caused_by].append((record.partition, record.offset))
            self.count += 1


def _outcomes(bus: Bus, wire: Wire, spans: Spans, command_id: str) -> Iterator[Outcome]:
    wanted = command_id.encode()
    for record in bus.read(spans):
        if wanted not in (record.value or b""):  # decode only records that contain the id
            continue
        event = _event(record, wire)
        if isinstance(event, Outcome) and event.caused_by == command_id:
            yield event


def _event(record: Record, wire: Wire) -> Event | None:
    try:
        return wire.deserialize(record.key, record.value, record.headers)
    except FormatError:  # not written by us, so not an outcome of the command
        return None
