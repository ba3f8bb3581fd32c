"""Event <-> bytes: Avro single-object encoding (C3 01, CRC-64-AVRO fingerprint, body).

The fingerprint identifies the schema, so a reader needs only the bytes and this package.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO

import fastavro
from pydantic import ValidationError

from tidegate.errors import FormatError
from tidegate.errors.validation import validation_message
from tidegate.events.base import Event
from tidegate.events.compiled_reader import Read
from tidegate.events.compiled_writer import Write, compile_writer
from tidegate.events.framing import SINGLE_OBJECT, Frame, frame_of
from tidegate.events.limits import MAX_VALUE_BYTES, MAX_WIDE_BYTES
from tidegate.events.schema import Writer, current_writers, schema_of, writer_by_fingerprint


def encode(event: Event) -> bytes:
    """Encode an event as an Avro single object."""
    return single_object_prefix(type(event)) + encode_body(event)


@cache
def single_object_prefix(model: type[Event]) -> bytes:
    """The magic and fingerprint before the body."""
    return SINGLE_OBJECT + schema_of(model).fingerprint


def compiled_reader(model: type[Event]) -> Read | None:
    """The compiled reader of an event's bodies in this version's schema; None: it has none."""
    return current_writers()[schema_of(model).fingerprint].read


def encode_body(event: Event) -> bytes:
    """Encode an event as an Avro body, without anything that identifies its schema."""
    return _writer(type(event))(event)


def encode_generally(event: Event) -> bytes:
    """Encode as `encode_body` does, without a compiled writer: by fastavro."""
    out = BytesIO()
    fastavro.schemaless_writer(out, schema_of(type(event)).parsed, event.model_dump())
    return out.getvalue()


@cache
def _writer(model: type[Event]) -> Write:
    return compile_writer(schema_of(model).parsed) or encode_generally


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
    if writer.read is not None and (event := writer.read(value, body_at)) is not None:
        return event
    if len(value) > MAX_VALUE_BYTES:
        raise FormatError(
            f"a value of {len(value)} bytes; the limit is {MAX_VALUE_BYTES}, and {MAX_WIDE_BYTES}"
            " for an event in this version's schema whose fields are within their limits"
        )
    return decode_generally(value, body_at, writer)


def decode_generally(value: bytes, body_at: int, writer: Writer) -> Event:
    """Decode as `decode_body` does, without a compiled reader: by fastavro and pydantic.

    Raises:
        FormatError: as `decode_body`.
    """
    model, body = writer.reader.model, BytesIO(value)
    body.seek(body_at)
    try:
        record = fastavro.schemaless_reader(body, writer.parsed, writer.resolve_to)
    except Exception as error:  # fastavro raises many kinds for a corrupt body
        raise FormatError(f"corrupt {model.__name__}: {error!r}") from error
    if left := len(value) - body.tell():
        raise FormatError(f"{left} trailing bytes after the {model.__name__}")
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise FormatError(f"invalid {model.__name__}: {validation_message(error)}") from error
