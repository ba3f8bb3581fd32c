"""From record to event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import FormatError, TidegateError, TransientError
from tidegate.events import Event
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.events.codec import compiled_reader, single_object_prefix
from tidegate.events.compiled_reader import Read
from tidegate.events.framing import OBJECT_PREFIX_BYTES
from tidegate.events.keys import partition_of
from tidegate.events.limits import MAX_WIDE_BYTES
from tidegate.events.topics import PARTITIONER, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Record
from tidegate.runtime.retry import RetryPolicy

_KNOWN_KEYS: Final = 65_536


def _pass_over(_value: bytes, _at: int) -> None:
    """A placeholder for the reader of other services' events; it is never called."""


@dataclass(slots=True)
class Decoder:
    """Decodes the records that one service consumes."""

    consumes: tuple[type[Event], ...]
    prefix: str
    partitions: int
    """Of each topic. The number decides to which partition the events of a table belong."""
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    wire: Wire = field(default_factory=Wire)
    _topics: dict[type[Event], str] = field(init=False)
    _readers: dict[str, dict[bytes, Read]] = field(init=False)
    """By topic and first bytes of a value, the compiled reader. For other services' events it is
    `_pass_over`."""
    _places: dict[bytes | None, tuple[str, int]] = field(default_factory=dict)
    """By key, the table and the partition of an event that was on the right partition."""

    def __post_init__(self) -> None:
        """Look up each event type's topic and reader once: `decode` runs for every record."""
        kinds = EVENT_TYPES.values()
        self._topics = {kind: topic_of(kind).name(self.prefix) for kind in kinds}
        self._readers = {topic: {} for topic in self._topics.values()}
        for kind in kinds:
            read = compiled_reader(kind) if kind in self.consumes else _pass_over
            if read is not None:
                self._readers[self._topics[kind]][single_object_prefix(kind)] = read

    def decode(self, record: Record) -> Event | None:
        """Decode a record; None if its event is for other services.

        Raises:
            FormatError: the record can't be decoded, or its event belongs on another topic or
                partition: the caller dead-letters it.
            TransientError: the schema registry did not answer within the retries.
            StopService: the schema registry refuses us.
        """
        try:
            return self._decoded(record)
        except TidegateError:
            raise
        except Exception as error:
            # a stranger may have written the bytes: a bug in decoding must not stop the service
            raise FormatError(f"can't be decoded: {type(error).__name__}: {error}") from error

    def _decoded(self, record: Record) -> Event | None:
        (topic, number), _, key, value, _, _, _ = record
        if value is not None and len(value) <= MAX_WIDE_BYTES and topic in self._readers:
            read = self._readers[topic].get(value[:OBJECT_PREFIX_BYTES])
            if read is _pass_over:  # for example the commands that a decider itself published
                return None
            # a value for which a compiled reader returns None, and a new key, are decoded below
            if read is not None and key in self._places:
                table, right = self._places[key]
                event = read(value, OBJECT_PREFIX_BYTES) if number == right else None
                if event is not None and event.table == table:
                    return event
        try:
            return self._decode(record)
        except TransientError:  # only then are retries prepared: this runs for every record
            return self.retries.call(lambda: self._decode(record))

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
        """The error of an event on a partition whose owner may not have the table's state."""
        right = partition_of(event.table, self.partitions)
        return FormatError(
            f"events of {event.table} belong on partition {right} of {self.partitions}, not on"
            f" {record.partition.number}: the partitioner of its producer is wrong, it must be"
            f" Kafka's murmur2 of the key (librdkafka: partitioner={PARTITIONER}). Correct the"
            " producer, then redrive: that sends the event to the right partition"
        )
