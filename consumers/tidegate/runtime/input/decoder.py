"""From record to event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import FormatError, TransientError
from tidegate.events import Event
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.events.codec import compiled_reader, single_object_prefix
from tidegate.events.compiled_reader import Read
from tidegate.events.framing import OBJECT_PREFIX_BYTES
from tidegate.events.keys import partition_of
from tidegate.events.limits import MAX_VALUE_BYTES
from tidegate.events.topics import PARTITIONER, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Record
from tidegate.runtime.retry import RetryPolicy

_KNOWN_KEYS: Final = 65_536


@dataclass(slots=True)
class Decoder:
    """Decodes the records that one service consumes."""

    consumes: tuple[type[Event], ...]
    prefix: str
    partitions: int
    """Of each topic: it decides on which one the events of a table belong."""
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    wire: Wire = field(default_factory=Wire)
    _topics: dict[type[Event], str] = field(init=False)
    _readers: dict[str, dict[bytes, Read]] = field(init=False)
    """By topic and by the first bytes of a value the compiled reader, of what is consumed."""
    _others: dict[str, frozenset[bytes]] = field(init=False)
    """By topic the first bytes of this version's other events there: they are passed over."""
    _places: dict[bytes, tuple[str, int]] = field(default_factory=dict[bytes, tuple[str, int]])
    """By key the table and the partition of an event that was right there."""

    def __post_init__(self) -> None:
        """Look up each event type's topic and reader once: `decode` runs for every record."""
        kinds = EVENT_TYPES.values()
        self._topics = {kind: topic_of(kind).name(self.prefix) for kind in kinds}
        self._readers = {topic: {} for topic in self._topics.values()}
        others = [kind for kind in kinds if kind not in self.consumes]
        self._others = {
            topic: frozenset(
                single_object_prefix(kind) for kind in others if self._topics[kind] == topic
            )
            for topic in self._readers
        }
        for kind in self.consumes:
            if (read := compiled_reader(kind)) is not None:
                self._readers[self._topics[kind]][single_object_prefix(kind)] = read

    def decode(self, record: Record) -> Event | None:
        """Decode a record; None if its event is for other services.

        Raises:
            FormatError: the record can't be decoded, or its event belongs on another topic or
                partition: the caller dead-letters it.
            TransientError: the schema registry did not answer within the retries.
        """
        if (event := self._read_at_once(record)) is not None or self._is_for_others(record):
            return event
        try:
            return self._decode(record)
        except TransientError:  # only then are retries prepared: this runs for every record
            return self.retries.call(lambda: self._decode(record))

    def _read_at_once(self, record: Record) -> Event | None:
        """The event of a record whose reader is compiled, and whose key was right there before.

        It refuses nothing: what it gives None for is left to `_decode`.
        """
        (topic, number), _, key, value, _, _, _ = record
        if key is None or value is None or len(value) > MAX_VALUE_BYTES:
            return None
        place, readers = self._places.get(key), self._readers.get(topic)
        if place is None or readers is None or place[1] != number:
            return None
        read = readers.get(value[:OBJECT_PREFIX_BYTES])
        event = None if read is None else read(value, OBJECT_PREFIX_BYTES)
        return event if event is not None and event.table == place[0] else None

    def _is_for_others(self, record: Record) -> bool:
        """Whether its first bytes say so: a decider reads back every command that it publishes."""
        (topic, _), _, _, value, _, _, _ = record
        return (
            value is not None
            and len(value) <= MAX_VALUE_BYTES
            and value[:OBJECT_PREFIX_BYTES] in self._others.get(topic, ())
        )

    def _decode(self, record: Record) -> Event | None:
        if record.unreadable:
            raise FormatError(record.unreadable)
        contents = self.wire.contents(record.value, record.headers)
        kind = contents.kind
        expected = self._topics.get(kind)
        if record.partition.topic != expected:
            raise FormatError(f"{kind.__name__} belongs on {expected}")
        if kind not in self.consumes:
            return None
        event = self.wire.read(record.key, record.value, contents)
        place, key = (event.table, record.partition.number), record.key or b""
        if self._places.get(key) == place:  # hashing a key takes 5 us
            return event
        if record.partition.number != partition_of(event.table, self.partitions):
            raise self._misplaced(event, record)
        if len(self._places) >= _KNOWN_KEYS:
            self._places.clear()
        self._places[key] = place
        return event

    def _misplaced(self, event: Event, record: Record) -> FormatError:
        """On another partition, another process may hold the table's state."""
        right = partition_of(event.table, self.partitions)
        return FormatError(
            f"events of {event.table} belong on partition {right} of {self.partitions}, not on"
            f" {record.partition.number}: the partitioner of its producer is wrong, it must be"
            f" Kafka's murmur2 of the key (librdkafka: partitioner={PARTITIONER}). Correct the"
            " producer, then redrive: that sends the event to the right partition"
        )
