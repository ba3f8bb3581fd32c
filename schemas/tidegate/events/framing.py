"""How a message identifies its schema, and where its Avro body starts.

    C3 01, fingerprint of 8 bytes         Avro single-object encoding
    00, id of 4 bytes big endian          a schema registry's id before the body
    header __value_schema_id: 01, GUID    a schema registry's GUID; the value is the body alone

A header takes precedence over the value, unless the value starts with a fingerprint that this
package knows. The header may also hold 00 and an id of 4 bytes, which confluent-kafka reads too:
not every registry has GUIDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidegate.errors import FormatError
from tidegate.events.limits import MAX_WIDE_BYTES

Headers = Sequence[tuple[str, bytes | None]]
"""Kafka headers in order; names may repeat, values may be null."""

RegistryKey = int | UUID
"""A schema registry's id or GUID of a schema."""

SINGLE_OBJECT: Final = b"\xc3\x01"
BY_ID: Final = b"\x00"
BY_GUID: Final = b"\x01"
VALUE_HEADER: Final = "__value_schema_id"
OBJECT_PREFIX_BYTES: Final = 10
_ID_BYTES: Final = 4
_GUID_BYTES: Final = 16


class Frame(NamedTuple):
    """The schema of a value (a fingerprint or a registry's key) and the offset of its Avro body."""

    schema: bytes | RegistryKey
    body_at: int


def frame_of(value: bytes | None, headers: Headers = ()) -> Frame:
    """Read the frame of a message's value; a schema id in the headers takes precedence.

    Raises:
        FormatError: the value is empty, or its framing is unknown.
    """
    if not value:
        raise FormatError("the message is empty")
    if len(value) > MAX_WIDE_BYTES:
        raise FormatError(f"a value of {len(value)} bytes; the limit is {MAX_WIDE_BYTES}")
    for name, content in headers:
        if name == VALUE_HEADER:
            return Frame(_registry_key(content or b"", f"the header {VALUE_HEADER}"), 0)
    if value[: len(SINGLE_OBJECT)] == SINGLE_OBJECT:
        return Frame(value[len(SINGLE_OBJECT) : OBJECT_PREFIX_BYTES], OBJECT_PREFIX_BYTES)
    if value[:1] == BY_ID:
        return Frame(_registry_key(value[: 1 + _ID_BYTES], "the value"), 1 + _ID_BYTES)
    raise FormatError(
        f"neither an Avro single object nor a registry's framing: starts with {value[:2].hex()}"
    )


def id_prefix(number: int) -> bytes:
    """The prefix of a value whose schema a registry's id identifies."""
    return BY_ID + number.to_bytes(_ID_BYTES, "big")


def guid_prefix(guid: UUID) -> bytes:
    """The content of the header when a registry's GUID identifies the schema."""
    return BY_GUID + guid.bytes


def _registry_key(content: bytes, place: str) -> RegistryKey:
    magic, rest = content[:1], content[1:]
    if magic == BY_ID and len(rest) == _ID_BYTES:
        return int.from_bytes(rest, "big")
    if magic == BY_GUID and len(rest) == _GUID_BYTES:
        return UUID(bytes=rest)
    raise FormatError(f"{place} starts with {content[:5].hex()}, which identifies no schema")
