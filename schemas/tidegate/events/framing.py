"""Which schema a message says it was written with, and where its Avro body begins.

    C3 01, fingerprint of 8 bytes         Avro single-object encoding
    00, id of 4 bytes big endian          a schema registry's id before the body
    header __value_schema_id: 01, GUID    a schema registry's GUID; the value is the body alone

A header comes before what the value begins with, unless that is the fingerprint of a schema of
ours. The header may hold the id of 4 bytes after a 00, too, as confluent-kafka's readers take it:
not every registry gives GUIDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidegate.errors import FormatError

Headers = Sequence[tuple[str, bytes | None]]
"""Kafka headers in their order; a name may stand there more than once, a value be null."""

RegistryKey = int | UUID
"""What a schema registry calls a schema."""

SINGLE_OBJECT: Final = b"\xc3\x01"
BY_ID: Final = b"\x00"
BY_GUID: Final = b"\x01"
VALUE_HEADER: Final = "__value_schema_id"
OBJECT_PREFIX_BYTES: Final = 10
_ID_BYTES: Final = 4
_GUID_BYTES: Final = 16


class Frame(NamedTuple):
    """A value's schema (a fingerprint, or a registry's key) and the offset of its Avro body."""

    schema: bytes | RegistryKey
    body_at: int


def frame_of(value: bytes | None, headers: Headers = ()) -> Frame:
    """Read the frame of a message's value. A schema id in the headers comes first here.

    Raises:
        FormatError: there is no value, or no frame that we know.
    """
    if not value:
        raise FormatError("the message is empty")
    for name, content in headers:
        if name == VALUE_HEADER:
            return Frame(_registry_key(content or b"", f"the header {VALUE_HEADER}"), 0)
    if value[: len(SINGLE_OBJECT)] == SINGLE_OBJECT:
        return Frame(value[len(SINGLE_OBJECT) : OBJECT_PREFIX_BYTES], OBJECT_PREFIX_BYTES)
    if value[:1] == BY_ID:
        return Frame(_registry_key(value[: 1 + _ID_BYTES], "the value"), 1 + _ID_BYTES)
    raise FormatError(f"no Avro single object, no registry's id: it begins with {value[:2].hex()}")


def id_prefix(number: int) -> bytes:
    """What stands before the body when a registry's id names the schema."""
    return BY_ID + number.to_bytes(_ID_BYTES, "big")


def guid_prefix(guid: UUID) -> bytes:
    """What stands in the header when a registry's GUID names the schema."""
    return BY_GUID + guid.bytes


def _registry_key(content: bytes, place: str) -> RegistryKey:
    magic, rest = content[:1], content[1:]
    if magic == BY_ID and len(rest) == _ID_BYTES:
        return int.from_bytes(rest, "big")
    if magic == BY_GUID and len(rest) == _GUID_BYTES:
        return UUID(bytes=rest)
    raise FormatError(f"{place} begins with {content[:5].hex()}, which names no schema")
