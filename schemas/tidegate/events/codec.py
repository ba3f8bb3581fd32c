"""Event <-> bytes: Avro single-object encoding (C3 01, CRC-64-AVRO fingerprint, body).

The fingerprint names the schema, so a reader needs nothing but the bytes and this package.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any, Final, get_args

import fastavro
from pydantic import BaseModel, ValidationError

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.framing import SINGLE_OBJECT, Frame, frame_of
from tidegate.events.schema import Writer, schema_of, writer_by_fingerprint

_PROBLEMS_TOLD: Final = 20


def encode(event: Event) -> bytes:
    """Encode an event as an Avro single object."""
    return single_object_prefix(type(event)) + encode_body(event)


@cache
def single_object_prefix(model: type[Event]) -> bytes:
    """What stands before the body when a fingerprint names the schema."""
    return SINGLE_OBJECT + schema_of(model).fingerprint


def encode_body(event: Event) -> bytes:
    """Encode an event as an Avro body, which says nothing of its schema."""
    out, (schema, is_flat) = BytesIO(), _written_as(type(event))
    fastavro.schemaless_writer(out, schema, vars(event) if is_flat else event.model_dump())
    return out.getvalue()


@cache
def _written_as(model: type[Event]) -> tuple[Any, bool]:
    """A schema, and whether no model lies inside, so that the fields can be written as they are."""
    return schema_of(model).parsed, not any(
        isinstance(part, type) and issubclass(part, BaseModel)
        for field in model.model_fields.values()
        for part in (field.annotation, *get_args(field.annotation))
    )


def decode(value: bytes | None) -> Event:
    """Decode an event out of an Avro single object, of this version or an earlier one.

    Raises:
        FormatError: no single object, an unknown schema, a broken body or values that the event's
            model refuses.
    """
    frame = frame_of(value)
    return decode_body(value or b"", frame.body_at, own_writer(frame))


def own_writer(frame: Frame) -> Writer:
    """The schema that a frame names, out of those that this package knows.

    Raises:
        FormatError: it knows none of that fingerprint, or it would take a schema registry.
    """
    if not isinstance(frame.schema, bytes):
        raise FormatError(f"schema {frame.schema} is a schema registry's, and none is configured")
    writer = writer_by_fingerprint(frame.schema)
    if writer is None:
        raise FormatError(
            f"unknown schema fingerprint {frame.schema.hex()}: written by a newer Tidegate?"
        )
    return writer


def decode_body(value: bytes, body_at: int, writer: Writer) -> Event:
    """Decode the Avro body that begins at `body_at`, whichever version wrote it.

    Raises:
        FormatError: the body is broken, something is left over after it, it has no value for a
            field of ours, or the event's model refuses a value.
    """
    model, body = writer.reader.model, BytesIO(value)
    body.seek(body_at)
    try:
        record = fastavro.schemaless_reader(body, writer.parsed, writer.resolve_to)
    except Exception as error:  # fastavro raises whatever a broken body leads it to
        raise FormatError(f"broken {model.__name__}: {error!r}") from error
    if left := len(value) - body.tell():
        raise FormatError(f"{left} bytes are left over after the {model.__name__}")
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise FormatError(f"invalid {model.__name__}: {_problems(error)}") from error


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    told = "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'event'}: {each['msg']}"
        for each in found[:_PROBLEMS_TOLD]
    )
    left = len(found) - _PROBLEMS_TOLD
    return told if left <= 0 else f"{told}; and {left} more"
