"""A dead letter: the original message, its origin, and why it failed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import Event, derived_id, table_identity
from tidegate.events.audit import UNKNOWN_TABLE
from tidegate.events.message import Headers
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import ID_HEADER, VALUE_LEFT_OUT

_FAMILIES: Final = ("__connect.errors.", "__streams.errors.", "x-original-", "x-exception-")
_UNKNOWN: Final = "(unknown)"
_LONGEST: Final = 1_000
"""Characters that an audit event allows in a text."""
_LONGEST_TOPIC: Final = 249
_DIGITS: Final = 18
"""A number with this many digits fits into 64 bits."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter. `record` is the record on its topic, with all headers."""

    dead_letter_id: str
    record: Record
    service: str
    origin: Partition
    origin_offset: int
    error: str
    headers: Headers
    """The original message's headers."""
    origin_timestamp_ms: int | None = None
    """When the broker appended the original; None if no header records it."""

    @property
    def has_value(self) -> bool:
        """Whether it contains the original value: a value that was too large is left out."""
        return VALUE_LEFT_OUT not in dict(self.record.headers)

    @property
    def at(self) -> datetime:
        """When it was dead-lettered, by the broker's clock."""
        return datetime.fromtimestamp(self.record.timestamp_ms / 1000, UTC)

    @property
    def origin_location(self) -> str:
        """The original message's location, as topic/partition/offset."""
        return f"{self.origin.topic}/{self.origin.number}/{self.origin_offset}"

    @property
    def table(self) -> str:
        """The table named by the key; a placeholder if the key is not a table's name."""
        try:
            return table_identity((self.record.key or b"").decode())
        except ValueError:
            return UNKNOWN_TABLE

    def event(self, wire: Wire) -> Event | None:
        """The original's event, or None if it can't be decoded."""
        try:
            return wire.deserialize(self.record.key, self.record.value, self.headers)
        except FormatError:
            return None


def read_dead_letter(record: Record) -> DeadLetter:
    """Read any record of the dead-letters topic, whether Tidegate or another tool wrote it.

    The origin is read from Kafka Connect's headers, else from Spring's. Without either it is
    unknown, and the dead letter can't be redriven.
    """
    try:
        headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    except FormatError:
        record, headers = record._replace(headers=()), {}
    topic = headers.get("__connect.errors.topic") or headers.get("x-original-topic") or ""
    number = headers.get("__connect.errors.partition") or headers.get("x-original-partition")
    offset = headers.get("__connect.errors.offset") or headers.get("x-original-offset")
    dead_letter_id = headers.get(ID_HEADER)
    service = headers.get("__connect.errors.connector.name") or _UNKNOWN
    error = headers.get("__connect.errors.exception.message") or headers.get("x-exception-message")
    where = f"{record.partition.topic}/{record.partition.number}/{record.offset}"
    return DeadLetter(
        dead_letter_id=dead_letter_id
        if dead_letter_id and len(dead_letter_id) <= _LONGEST
        else derived_id("foreign-dead-letter", where),
        record=record,
        service=service[:_LONGEST],
        origin=Partition(topic if len(topic) <= _LONGEST_TOPIC else "", _number(number) or 0),
        origin_offset=_number(offset) or 0,
        error=error or record.unreadable or _UNKNOWN,
        headers=own_headers(record.headers),
        origin_timestamp_ms=_number(headers.get("x-original-timestamp")),
    )


def without_value(record: Record) -> Record:
    """A record without its value, for a list of many dead letters.

    The client's lazy headers hold the complete message in memory, so they are copied.
    """
    try:
        headers = tuple(record.headers)
    except FormatError:  # `read_dead_letter` ignores such headers, too
        headers = ()
    return record._replace(value=None, headers=headers)


def _number(text: str | None) -> int | None:
    """A Kafka offset, partition or timestamp; None if the header is not such a number."""
    return int(text) if text and len(text) <= _DIGITS and text.isdecimal() else None


def own_headers(headers: Headers) -> Headers:
    """The headers of the original message.

    Tidegate's own headers begin with the dead letter's id. Everything before it is original,
    including headers of an earlier failure. Other tools' error headers are recognised by name.
    """
    ids = [index for index, (name, _) in enumerate(headers) if name == ID_HEADER]
    if ids:
        return headers[: ids[-1]]
    return tuple(header for header in headers if not header[0].startswith(_FAMILIES))
