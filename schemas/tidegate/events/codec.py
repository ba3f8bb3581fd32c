"""Event <-> bytes: Avro single-object encoding (C3 01, CRC-64-AVRO fingerprint, body).

The fingerprint identifies the schema, so a reader needs only the bytes and this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from io import BytesIO
from typing import Any

import fastavro
from pydantic import ValidationError

from tidegate.errors import FormatError
from tidegate.errors.validation import validation_message
from tidegate.events.base import Event
from tidegate.events.facts import VacuumFinished
from tidegate.events.framing import SINGLE_OBJECT, Frame, frame_of
from tidegate.events.limits import MAX_LOCKS, MAX_VALUE_BYTES, MAX_WIDE_BYTES
from tidegate.events.schema import Writer, schema_of, writer_by_fingerprint


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


def own_writer(frame: Frame) -> Writer:
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


def decode_body(value: bytes, body_at: int, writer: Writer) -> Event:
    """Decode the Avro body that starts at `body_at`, written by any version.

    Raises:
        FormatError: the body is corrupt or has trailing bytes, a required field is missing, or a
            value is invalid.
    """
    model, body = writer.reader.model, BytesIO(value)
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
