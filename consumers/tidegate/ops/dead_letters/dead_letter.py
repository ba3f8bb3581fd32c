"""A dead letter: the original message, its origin, why it failed, and its resolution. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from tidegate.errors import FormatError
from tidegate.errors.commands import command_line
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningReleased,
    DeadLetterDiscarded,
    DeadLetterRedriven,
    Event,
    RestoreRequested,
    derived_id,
    table_identity,
)
from tidegate.events.codec import Headers, decode_body
from tidegate.events.tasks import UNKNOWN_TABLE
from tidegate.events.wire import Wire, carried_by
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import (
    ID_HEADER,
    OFFSETS_HEADER,
    REDRIVEN_FROM,
    VALUE_LEFT_OUT,
    counted,
)

_FAMILIES: Final = ("__connect.errors.", "__streams.errors.", "x-original-", "x-exception-")
TRACE: Final = "stacktrace"
"""The end of the names of headers that have the trace of a fault."""
_UNKNOWN: Final = "(unknown)"
SKIPPED: Final = "skipped by "
"""The beginning of the reason of what a person skipped; the person follows."""
_OFFSETS: Final = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)
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
    state: str = "open"
    """Its resolution: open, redriven or discarded."""
    table: str = UNKNOWN_TABLE
    """The table that the key names, else the event; a placeholder if neither can be read."""

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
    def row(self) -> dict[str, Any]:
        """The dead letter as a row of a list."""
        return {
            "id": self.dead_letter_id,
            "at": f"{self.at:%Y-%m-%dT%H:%M:%SZ}",
            "service": self.service,
            "origin": self.origin_location,
            "table": self.table,
            "state": self.state,
            "reason": self.error,
        }

    @property
    def is_skipped(self) -> bool:
        """Whether a person skipped it, and it was not published again since."""
        return self.state == "discarded" and self.error.startswith(SKIPPED)

    def content(self, wire: Wire) -> Event | None:
        """The original's event, whatever its key is, or None if it can't be decoded.

        Of a task it is the command.
        """
        try:
            schema, body_at = wire.schema(self.record.value, self.headers)
            return carried_by(decode_body(self.record.value or b"", body_at, schema), wire)
        except FormatError:
            return None

    def event(self, wire: Wire) -> Event | None:
        """The same, but None where the key is not the event's table: no service accepts that."""
        event = self.content(wire)
        return event if event and self.record.key == event.table.encode() else None

    def without_value(self) -> DeadLetter:
        """The same without its value and the traces of its fault, for a list of many of them."""
        headers = tuple(header for header in self.record.headers if not header[0].endswith(TRACE))
        return replace(self, record=self.record._replace(value=None, headers=headers))


def again_command(dead_letter_id: str) -> str:
    """The command that publishes again what a person skipped."""
    return command_line("dead-letters redrive", dead_letter_id, all=True, execute=True)


def read_dead_letter(record: Record, wire: Wire) -> DeadLetter:
    """Read any record of the dead-letters topic, whether Tidegate or another tool wrote it.

    The origin is read from Kafka Connect's headers, else from Spring's. Without either it is
    unknown, and the dead letter can't be redriven.
    """
    headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    topic = headers.get("__connect.errors.topic") or headers.get("x-original-topic") or ""
    number = headers.get("__connect.errors.partition") or headers.get("x-original-partition")
    offset = headers.get("__connect.errors.offset") or headers.get("x-original-offset")
    dead_letter_id = headers.get(ID_HEADER)
    service = headers.get("__connect.errors.connector.name") or _UNKNOWN
    error = headers.get("__connect.errors.exception.message") or headers.get("x-exception-message")
    where = f"{record.partition.topic}/{record.partition.number}/{record.offset}"
    found = DeadLetter(
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
    try:
        return replace(found, table=table_identity((record.key or b"").decode()))
    except ValueError:
        event = found.content(wire)
        return replace(found, table=event.table) if event else found


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


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Conditions; all that are set must hold."""

    ids: tuple[str, ...] = ()
    """Ids or their first characters; any of them. Empty: all."""
    service: str | None = None
    topic: str | None = None
    """The original's topic, by its full name or the part after the prefix."""
    table: str | None = None
    reason: str | None = None
    """Text in the reason, ignoring case."""
    from_time: datetime | None = None

    def matches(self, dead_letter: DeadLetter) -> bool:
        """Whether a dead letter is selected."""
        topic = dead_letter.origin.topic
        ids = self.ids
        return (
            (not ids or any(dead_letter.dead_letter_id.startswith(id_) for id_ in ids))
            and self.service in (None, dead_letter.service)
            and (self.topic in (None, topic) or topic.endswith(f".{self.topic}"))
            and self.table in (None, dead_letter.table)
            and (self.reason is None or self.reason.lower() in dead_letter.error.lower())
            and (self.from_time is None or dead_letter.at >= self.from_time)
        )


_DESTRUCTIVE: Final = (RestoreRequested, CleaningReleased, AbortedCleaningReleased)


def difference(dead_letter: DeadLetter, origin: Record | None) -> str:
    """How a dead letter differs from the record at its origin; empty if it does not.

    Key, value, headers and the broker's timestamp are compared. Exceptions are a value that was too
    large for the dead-letters topic, and a timestamp that another tool did not record.

    Args:
        dead_letter: The dead letter.
        origin: The record at its origin; None if it is no longer on its topic.
    """
    if uncopied := _uncopied(dead_letter):
        return uncopied
    if origin is None:
        return "its origin is no longer in the topic"
    if origin.unreadable:
        return f"its origin can't be read: {origin.unreadable}"
    compared = {
        "key": dead_letter.record.key == origin.key,
        "value": dead_letter.record.value == origin.value or not dead_letter.has_value,
        "headers": tuple(dead_letter.headers) == tuple(origin.headers),
        "timestamp": dead_letter.origin_timestamp_ms in (None, origin.timestamp_ms),
    }
    different = (part for part, same in compared.items() if not same)
    return next((f"{part} and record at its origin differ" for part in different), "")


def _uncopied(dead_letter: DeadLetter) -> str:
    """How to republish the messages that a dead letter stands for; empty if it has one message."""
    header = dict(dead_letter.record.headers).get(OFFSETS_HEADER) or b""
    offsets = _OFFSETS.fullmatch(header.decode(errors="replace"))
    if offsets is None:
        return ""
    again = command_line(
        "replay events",
        topic=dead_letter.origin.topic,
        partition=dead_letter.origin.number,
        from_offset=int(offsets[1]),
        to_offset=int(offsets[2]) + 1,
        execute=True,
    )
    return (
        f"it stands for {counted(dead_letter.record.headers)[1]} messages that were not copied."
        f" Publish them again before you discard it: {again}"
    )


def is_destructive(event: Event | None) -> bool:
    """Whether carrying out an event deletes data."""
    if isinstance(event, RestoreRequested):
        return not event.plan_only
    return isinstance(event, _DESTRUCTIVE)


SOURCE: Final = "tidegate-cli"
_NOWHERE: Final = "unknown"


def redriven_message(dead_letter: DeadLetter, original: Record) -> Message:
    """The original message, with a header that names the dead letter.

    The key determines the partition. A message without a key goes to its original partition.
    """
    others = [header for header in original.headers if header[0] != REDRIVEN_FROM]
    headers = (*others, (REDRIVEN_FROM, dead_letter.dead_letter_id.encode()))
    number = original.partition.number if original.key is None else None
    return Message(original.partition.topic, original.key, original.value, headers, number)


def audit_event(
    dead_letter: DeadLetter, by: str, at: datetime, wire: Wire, *, discarded: str | None = None
) -> DeadLetterRedriven | DeadLetterDiscarded:
    """The audit event of a redriven dead letter; with a reason, of a discarded one."""
    event = dead_letter.event(wire)
    fields = {
        "table": dead_letter.table,
        "location": event.location if event else _NOWHERE,
        "occurred_at": at,
        "source": SOURCE,
        "caused_by": dead_letter.dead_letter_id,
        "service": dead_letter.service,
        "origin_topic": dead_letter.origin.topic or _NOWHERE,
        "origin_partition": dead_letter.origin.number,
        "origin_offset": dead_letter.origin_offset,
        "error": dead_letter.error,
        "requested_by": by,
    }
    if discarded is None:
        return DeadLetterRedriven.model_validate(fields)
    return DeadLetterDiscarded.model_validate({**fields, "reason": discarded})
