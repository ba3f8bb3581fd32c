"""confluent-kafka's messages as the bus's records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import TYPE_CHECKING, Final, cast, overload

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from tidegate.errors import FormatError
from tidegate.events.message import Headers
from tidegate.runtime.bus import Partition, Record

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka import Message as Received

Config = Mapping[str, str | int | bool]
"""librdkafka's settings."""
_NOT_UTF8: Final = "the headers can't be read: a name is not UTF-8"
# For a name that is not UTF-8 the client returns a list and leaves an exception set. Python checks
# for that after this call; it stops checking after a plain call once that was specialised.
_headers: Final = methodcaller("headers")
BATCH: Final = 100
"""Messages that are taken from the client at a time. Their bytes are bounded by what it fetches
ahead (`queued.max.messages.kbytes`), because no batch waits for more."""
MAX_RECEIVED: Final = 2**28
"""The largest fetched batch in bytes, uncompressed. Of a larger one only the location is read.

Our own producers put at most half of that into a batch. A few kilobytes of zstd can unpack to
gigabytes.
"""
LARGE: Final[Config] = {
    "compression.type": "lz4",
    "message.max.bytes": 2**27,  # before compression; each topic has its own, smaller limit
}
"""For producers of large messages: a table's state, or a dead letter as large as its cause."""


_new_tuple: Final = tuple.__new__


def as_record(message: Received) -> Record:
    """Convert a received message. This runs for every message, so it creates few objects."""
    key, value = message.key(), message.value()
    time_type, timestamp_ms = message.timestamp()
    # the same as `Record(...)`, without its call
    return _new_tuple(
        Record,
        (
            _partition(message.topic(), message.partition()),
            message.offset() or 0,
            key if isinstance(key, bytes) else as_bytes(key),
            value if isinstance(value, bytes) else as_bytes(value),
            ReceivedHeaders(message),
            timestamp_ms,
            "",
            time_type == TIMESTAMP_LOG_APPEND_TIME,
        ),
    )


def unreadable_record(place: Partition, offset: int, error: KafkaError | None) -> Record:
    """The record of a message that the client can't read: only its location is known."""
    reason = error.str() if error else "unknown"
    return Record(place, offset, None, None, (), 0, f"the client can't read it: {reason}")


class ReceivedHeaders(Sequence[tuple[str, bytes | None]]):
    """The headers of a received message. They are converted on first use: most are never used.

    Every use raises FormatError if the client can't read them.
    """

    __slots__ = ("_message",)

    def __init__(self, message: Received) -> None:
        """Wrap a message."""
        self._message: Received | None = message

    @overload
    def __getitem__(self, index: int) -> tuple[str, bytes | None]: ...

    @overload
    def __getitem__(self, index: slice) -> Headers: ...

    def __getitem__(self, index: int | slice) -> tuple[str, bytes | None] | Headers:
        """One header, or a slice of them."""
        return self._pairs()[index]

    def __len__(self) -> int:
        """The number of headers."""
        return len(self._pairs())

    def __iter__(self) -> Iterator[tuple[str, bytes | None]]:
        """All headers, in their order."""
        return iter(self._pairs())

    def __eq__(self, other: object) -> bool:
        """Equal to the same pairs in the same order."""
        return isinstance(other, Sequence) and tuple(self) == tuple(cast("Headers", other))

    def __hash__(self) -> int:
        """The hash of a tuple of the pairs."""
        return hash(tuple(self))

    def _pairs(self) -> Headers:
        if self._message is None:
            raise FormatError(_NOT_UTF8)
        try:
            # confluent-kafka's type is wider than the list of pairs that it returns
            return cast("Headers", _headers(self._message) or ())
        except (SystemError, UnicodeError) as error:  # what the client raises for such a name
            self._message = None  # a second call would return only some of the headers
            raise FormatError(_NOT_UTF8) from error


@lru_cache(maxsize=10_000)
def _partition(topic: str | None, number: int | None) -> Partition:
    return Partition(topic or "", number or 0)


def as_bytes(content: bytes | str | None) -> bytes | None:
    """Narrow confluent-kafka's typing, which allows text where a broker only has bytes."""
    return content.encode() if isinstance(content, str) else content
