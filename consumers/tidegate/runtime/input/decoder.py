"""From record to event."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.errors import FormatError, TidegateError, TransientError
from tidegate.events import Event
from tidegate.events.codec import decode_body
from tidegate.events.topics import EVENT_TYPES, PARTITIONER, partition_of, topic_of
from tidegate.events.wire import Wire, check_key
from tidegate.runtime.bus import Record
from tidegate.runtime.retry import RetryPolicy


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

    def __post_init__(self) -> None:
        """Look up each event type's topic once: `decode` runs for every record."""
        self._topics = {kind: topic_of(kind).name(self.prefix) for kind in EVENT_TYPES.values()}

    def decode(self, record: Record) -> Event | None:
        """Decode a record; None if its event is for other services.

        Raises:
            FormatError: the record can't be decoded, or its event belongs on another topic or
                partition: the caller dead-letters it.
            TransientError: the schema registry did not answer within the retries.
            StopService: the schema registry refuses us.
        """
        try:
            return self._decode(record)
        except TidegateError:
            raise
        except Exception as error:
            # a stranger may have written the bytes: a bug in decoding must not stop the service
            raise FormatError(f"can't be decoded: {type(error).__name__}: {error}") from error

    def _decode(self, record: Record) -> Event | None:
        if record.unreadable:
            raise FormatError(record.unreadable)
        try:
            schema, body_at = self.wire.schema(record.value, record.headers)
        except TransientError:  # only then are retries prepared: this runs for every record
            schema, body_at = self.retries.call(
                lambda: self.wire.schema(record.value, record.headers)
            )
        kind = schema.model
        expected = self._topics.get(kind)
        if record.partition.topic != expected:
            raise FormatError(f"{kind.__name__} belongs on {expected}")
        if kind not in self.consumes:
            return None
        event = check_key(record.key, decode_body(record.value or b"", body_at, schema))
        if record.partition.number != partition_of(event.table, self.partitions):
            raise self._misplaced(event, record)
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
