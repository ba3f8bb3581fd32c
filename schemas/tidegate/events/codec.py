"""Event <-> bytes: Avro single-object encoding (C3 01, CRC-64-AVRO fingerprint, body).

The fingerprint identifies the schema, so a reader needs only the bytes and this package.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any, get_args

import fastavro
from pydantic import BaseModel, ValidationError

from tidegate.errors import FormatError
from tidegate.errors.validation import validation_message
from tidegate.events.base import Event
from tidegate.events.framing import SINGLE_OBJECT, Frame, frame_of
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
    out, (schema, is_flat) = BytesIO(), _encoding(type(event))
    fastavro.schemaless_writer(out, schema, vars(event) if is_flat else event.model_dump())
    return out.getvalue()


@cache
def _encoding(model: type[Event]) -> tuple[Any, bool]:
    """The schema, and whether no field holds a model: fields are then written as they are."""
    return schema_of(model).parsed, not any(
        isinstance(part, type) and issubclass(part, BaseModel)
        for field in model.model_fields.values()
        for part in (field.annotation, *get_args(field.annotation))
    )


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
