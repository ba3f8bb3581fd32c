"""What confluent-kafka gives, as the bus has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast, overload

from tidegate.events.message import Headers
from tidegate.runtime.bus import Partition, Record

if TYPE_CHECKING:
    from confluent_kafka import Message as Received

Config = Mapping[str, str | int | bool]
"""librdkafka's settings."""
LARGE: Final[Config] = {
    "compression.type": "lz4",
    "message.max.bytes": 2**27,  # before compression; each topic limits what is left
}
"""Of a producer whose messages may be large: a table's state, or a letter as large as its cause."""


def as_record(message: Received) -> Record:
    """A received message as a record. It runs for every message: little is made anew."""
    key, value = message.key(), message.value()
    return Record(
        _partition(message.topic(), message.partition()),
        message.offset() or 0,
        key if isinstance(key, bytes) else as_bytes(key),
        value if isinstance(value, bytes) else as_bytes(value),
        ReceivedHeaders(message),
        message.timestamp()[1],
    )


class ReceivedHeaders(Sequence[tuple[str, bytes | None]]):
    """The headers of a received message, made when they are asked for: of most, they never are."""

    __slots__ = ("_message",)

    def __init__(self, message: Received) -> None:
        """Keep the message."""
        self._message = message

    @overload
    def __getitem__(self, index: int) -> tuple[str, bytes | None]: ...

    @overload
    def __getitem__(self, index: slice) -> Headers: ...

    def __getitem__(self, index: int | slice) -> tuple[str, bytes | None] | Headers:
        """Give one, or some."""
        return self._pairs()[index]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._pairs())

    def __iter__(self) -> Iterator[tuple[str, bytes | None]]:
        """Give all, in their order."""
        return iter(self._pairs())

    def __eq__(self, other: object) -> bool:
        """Whether they are the same pairs in the same order."""
        return isinstance(other, Sequence) and tuple(self) == tuple(cast("Headers", other))

    def __hash__(self) -> int:
        """As of a tuple of the pairs."""
        return hash(tuple(self))

    def _pairs(self) -> Headers:
        # confluent-kafka's types allow more than the list of pairs that it gives
        return cast("Headers", self._message.headers() or ())


@lru_cache(maxsize=10_000)
def _partition(topic: str | None, number: int | None) -> Partition:
    return Partition(topic or "", number or 0)


def as_bytes(content: bytes | str | None) -> bytes | None:
    """Undo confluent-kafka's typing, which allows text where a broker only ever has bytes."""
    return content.encode() if isinstance(content, str) else content
