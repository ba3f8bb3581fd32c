"""A dead letter as people see it: what it was, where it came from, why it was set aside. Pure."""

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
from tidegate.runtime.dead_letters import ID_HEADER

_FAMILIES: Final = ("__connect.errors.", "__streams.errors.", "x-original-", "x-exception-")
_UNSAID: Final = "(not said)"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter. `record` is it as it lies on the topic, with all of its headers."""

    letter_id: str
    record: Record
    service: str
    origin: Partition
    origin_offset: int
    error: str
    headers: Headers
    """The message's own headers, as they were before it was set aside."""

    @property
    def at(self) -> datetime:
        """When it was set aside, by the broker's clock."""
        return datetime.fromtimestamp(self.record.timestamp_ms / 1000, UTC)

    @property
    def table(self) -> str:
        """The table that its key names; a placeholder where that is none."""
        try:
            return table_identity((self.record.key or b"").decode())
        except ValueError:
            return UNKNOWN_TABLE

    def event(self, wire: Wire) -> Event | None:
        """The event in it, if it can be decoded by now."""
        try:
            return wire.unseal(self.record.key, self.record.value, self.headers)
        except FormatError:
            return None


def read_letter(record: Record) -> DeadLetter:
    """Read a record of the dead-letters topic, also one that another tool wrote there.

    Kafka Connect's headers say where it came from, else Spring's; without either it counts as
    having come from nowhere, and can't be sent back.
    """
    told = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    topic = told.get("__connect.errors.topic") or told.get("x-original-topic") or ""
    number = told.get("__connect.errors.partition") or told.get("x-original-partition") or ""
    offset = told.get("__connect.errors.offset") or told.get("x-original-offset") or ""
    error = told.get("__connect.errors.exception.message") or told.get("x-exception-message")
    where = f"{record.partition.topic}/{record.partition.number}/{record.offset}"
    return DeadLetter(
        letter_id=told.get(ID_HEADER) or derived_id("foreign-dead-letter", where),
        record=record,
        service=told.get("__connect.errors.connector.name") or _UNSAID,
        origin=Partition(topic, int(number) if number.isdecimal() else 0),
        origin_offset=int(offset) if offset.isdecimal() else 0,
        error=error or _UNSAID,
        headers=own_headers(record.headers),
    )


def own_headers(headers: Headers) -> Headers:
    """The headers that a message had before it was set aside.

    What is added begins with the letter's id; before it stands all that the message had, headers
    of an earlier failure too. In another tool's letter the error headers are known by their names.
    """
    ids = [index for index, (name, _) in enumerate(headers) if name == ID_HEADER]
    if ids:
        return headers[: ids[-1]]
    return tuple(each for each in headers if not each[0].startswith(_FAMILIES))
