"""Event <-> bytes: Avro single-object encoding (C3 01, CRC-64-AVRO fingerprint, body).

The fingerprint identifies the schema, so a reader needs only the bytes and this package. A schema
registry's keys are read too:

    C3 01, fingerprint of 8 bytes         Avro single-object encoding
    00, id of 4 bytes big endian          a schema registry's id before the body
    header __value_schema_id: 01, GUID    a schema registry's GUID; the value is the body alone

A header takes precedence over the value, unless the value starts with a fingerprint that this
package knows. The header may also hold 00 and an id of 4 bytes, which confluent-kafka reads too:
not every registry has GUIDs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Final, NamedTuple
from uuid import UUID

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pydantic import ValidationError

from tidegate.avro import SchemaLimits, read_schema
from tidegate.errors import FormatError
from tidegate.errors.validation import validation_message
from tidegate.events.base import Event
from tidegate.events.facts import VacuumFinished
from tidegate.events.fields import MAX_LOCKS, MAX_VALUE_BYTES, MAX_WIDE_BYTES
from tidegate.events.topics import EVENT_TYPES

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


class _Frame(NamedTuple):
    """The schema of a value (a fingerprint or a registry's key) and the offset of its Avro body."""

    schema: bytes | RegistryKey
    body_at: int


def frame_of(value: bytes | None, headers: Headers = ()) -> _Frame:
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
            return _Frame(_registry_key(content or b"", f"the header {VALUE_HEADER}"), 0)
    if value[: len(SINGLE_OBJECT)] == SINGLE_OBJECT:
        return _Frame(value[len(SINGLE_OBJECT) : OBJECT_PREFIX_BYTES], OBJECT_PREFIX_BYTES)
    if value[:1] == BY_ID:
        return _Frame(_registry_key(value[: 1 + _ID_BYTES], "the value"), 1 + _ID_BYTES)
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


NAMESPACE: Final = "io.tidegate.events"
FOREIGN_SCHEMAS: Final = SchemaLimits(
    length=200_000,
    depth=40,
    types=2_000,
    logical_types=frozenset({"timestamp-micros", "timestamp-millis", "date", "uuid"}),
)
"""What a schema registry may supply. Our own are far below: the deepest has 12 levels."""


@dataclass(frozen=True, slots=True)
class Schema:
    """An event's schema, of this version or an earlier one, with its fingerprint on the wire."""

    model: type[Event]
    parsed: Any
    fingerprint: bytes
    resolve_to: Any = None
    """The schema of this version; None where it is the same and nothing is to resolve."""


def full_name(model: type[Event]) -> str:
    """The full name of an event's Avro record."""
    return f"{NAMESPACE}.{model.__name__}"


def schema_text(name: str) -> str:
    """The text of an event's `.avsc` file."""
    return files("tidegate.events").joinpath("avro", f"{name}.avsc").read_text("utf-8")


def previous_texts() -> Iterator[tuple[str, str]]:
    """The `.avsc` files of every released version, as version and text."""
    folder = files("tidegate.events").joinpath("previous")
    if not folder.is_dir():  # there was no release yet
        return
    for version in sorted(folder.iterdir(), key=lambda path: path.name):
        for file in sorted(version.iterdir(), key=lambda path: path.name):
            yield version.name, file.read_text("utf-8")


def make_schema(model: type[Event], text: str) -> Schema:
    """Parse the text of an `.avsc` as a model's schema."""
    raw: dict[str, Any] = json.loads(text)
    # fastavro's hex is in the byte order of the wire, little endian
    crc = fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO")
    return Schema(model, fastavro.parse_schema(raw), bytes.fromhex(crc))


@cache
def schema_of(model: type[Event]) -> Schema:
    """Load an event's schema from its `.avsc`, once per process."""
    return make_schema(model, schema_text(model.__name__))


def writer_from(text: str) -> Schema:
    """A writer's schema, of any version; the record's full name identifies the event.

    Raises:
        FormatError: not an Avro schema, beyond the limits, or not of a Tidegate event.
    """
    try:
        parsed = fastavro.parse_schema(read_schema(text, FOREIGN_SCHEMAS))
    except FormatError:
        raise
    except Exception as error:  # fastavro raises many kinds for an invalid schema
        raise FormatError(f"not an Avro schema: {error!r}") from error
    name = str(parsed.get("name")) if isinstance(parsed, dict) else str(parsed)
    model = EVENT_TYPES.get(name.removeprefix(f"{NAMESPACE}."))
    if model is None or full_name(model) != name:
        raise FormatError(f"the schema of {name:.200}, which is not a Tidegate event")
    written = make_schema(model, text)
    earlier = replace(written, resolve_to=schema_of(model).parsed)
    return current_writers().get(written.fingerprint) or earlier


@cache
def current_writers() -> Mapping[bytes, Schema]:
    """The schemas of this version by fingerprint."""
    return {schema.fingerprint: schema for schema in map(schema_of, EVENT_TYPES.values())}


@cache
def previous_writers() -> Mapping[bytes, Schema]:
    """The schemas of every released version by fingerprint."""
    return {schema.fingerprint: schema for schema in (writer_from(t) for _, t in previous_texts())}


def writer_by_fingerprint(name: bytes) -> Schema | None:
    """The schema with this fingerprint, of this version or a released one; None: unknown."""
    return current_writers().get(name) or previous_writers().get(name)


def encode(event: Event) -> bytes:
    """Encode an event as an Avro single object."""
    return single_object_prefix(type(event)) + encode_body(event)


@cache
def single_object_prefix(model: type[Event]) -> bytes:
    """The magic and fingerprint before the body."""
    return SINGLE_OBJECT + schema_of(model).fingerprint


def encode_body(event: Event) -> bytes:
    """Encode an event as an Avro body, without anything that identifies its schema."""
    out = BytesIO()
    fastavro.schemaless_writer(out, schema_of(type(event)).parsed, event.model_dump())
    return out.getvalue()


def decode(value: bytes | None) -> Event:
    """Decode an Avro single object of this version or an earlier one.

    Raises:
        FormatError: not a single object, an unknown schema, a corrupt body or invalid values.
    """
    frame = frame_of(value)
    return decode_body(value or b"", frame.body_at, own_writer(frame))


def own_writer(frame: _Frame) -> Schema:
    """The schema that a frame refers to, among those of this package.

    Raises:
        FormatError: the fingerprint is unknown, or the id is a schema registry's.
    """
    if not isinstance(frame.schema, bytes):
        raise FormatError(
            f"schema id {frame.schema} needs a schema registry, and none is configured"
        )
    writer = writer_by_fingerprint(frame.schema)
    if writer is None:
        raise FormatError(
            f"unknown schema fingerprint {frame.schema.hex()}; upgrade this reader if a newer"
            " Tidegate wrote the message"
        )
    return writer


def decode_body(value: bytes, body_at: int, writer: Schema) -> Event:
    """Decode the Avro body that starts at `body_at`, written by any version.

    Raises:
        FormatError: the body is corrupt or has trailing bytes, a required field is missing, or a
            value is invalid.
    """
    model, body = writer.model, BytesIO(value)
    body.seek(body_at)
    is_wide = len(value) > MAX_VALUE_BYTES
    if is_wide and (writer.resolve_to is not None or model is not VacuumFinished):
        raise FormatError(
            f"a value of {len(value)} bytes; the limit is {MAX_VALUE_BYTES}, and {MAX_WIDE_BYTES}"
            f" for a {VacuumFinished.__name__} in this version's schema"
        )
    try:
        record = (
            _wide_record(body, writer.parsed)
            if is_wide
            else fastavro.schemaless_reader(body, writer.parsed, writer.resolve_to)
        )
    except FormatError:
        raise
    except Exception as error:  # fastavro raises many kinds for a corrupt body
        raise FormatError(f"corrupt {model.__name__}: {error!r}") from error
    if left := len(value) - body.tell():
        raise FormatError(f"{left} trailing bytes after the {model.__name__}")
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise FormatError(f"invalid {model.__name__}: {validation_message(error)}") from error


def _wide_record(body: BytesIO, parsed: Any) -> dict[str, object]:  # noqa: ANN401 - fastavro's
    """Read a record field by field, so that the items of its lists are counted."""
    record: dict[str, object] = {}
    for field in parsed["fields"]:
        kind = field["type"]
        is_list = isinstance(kind, dict) and kind["type"] == "array"
        record[field["name"]] = (
            list(_items(body, kind["items"])) if is_list else fastavro.schemaless_reader(body, kind)
        )
    return record


def _items(body: BytesIO, kind: Any) -> Iterator[object]:  # noqa: ANN401 - fastavro's
    """Read the items of a list, in blocks with their counts.

    Raises:
        FormatError: more items than any list of an event may have.
    """
    left, item = MAX_LOCKS, fastavro.parse_schema(kind)
    while count := _number(body):
        if count < 0:  # the size of the block follows
            count = -count
            _number(body)
        left -= count
        if left < 0:
            raise FormatError(
                f"a list of {MAX_LOCKS - left} items and more; the limit is {MAX_LOCKS}"
            )
        for _ in range(count):
            yield fastavro.schemaless_reader(body, item)


def _number(body: BytesIO) -> int:
    number: Any = fastavro.schemaless_reader(body, "long", None)
    return int(number)
