"""Event <-> bytes: Avro single-object encoding (C3 01, CRC-64-AVRO fingerprint, body).

The fingerprint names the schema, so a reader needs nothing but the bytes and this package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pydantic import ValidationError

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.catalogue import EVENT_TYPES

MAGIC: Final = b"\xc3\x01"
_HEADER: Final = len(MAGIC) + 8


@dataclass(frozen=True, slots=True)
class Schema:
    """One event's schema: its model, its parsed Avro schema, its fingerprint on the wire."""

    model: type[Event]
    parsed: Any
    fingerprint: bytes


def schema_text(name: str) -> str:
    """The `.avsc` of an event, as it stands in the package."""
    return files("tidegate.events").joinpath("avro", f"{name}.avsc").read_text("utf-8")


@cache
def schema_of(model: type[Event]) -> Schema:
    """Load an event's schema from its `.avsc`, once a process."""
    raw: dict[str, Any] = json.loads(schema_text(model.__name__))
    # fastavro gives the fingerprint's hex in the byte order of the wire: little endian.
    crc = fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO")
    return Schema(model, fastavro.parse_schema(raw), bytes.fromhex(crc))


@cache
def _by_fingerprint() -> Mapping[bytes, Schema]:
    return {schema.fingerprint: schema for schema in map(schema_of, EVENT_TYPES.values())}


def encode(event: Event) -> bytes:
    """Encode an event as an Avro single object."""
    schema = schema_of(type(event))
    out = BytesIO()
    out.write(MAGIC + schema.fingerprint)
    fastavro.schemaless_writer(out, schema.parsed, event.model_dump())
    return out.getvalue()


def kind_of(value: bytes | None) -> type[Event] | None:
    """The kind of event that these bytes say they hold, without decoding them; None: unknown."""
    if not value or value[: len(MAGIC)] != MAGIC:
        return None
    schema = _by_fingerprint().get(value[len(MAGIC) : _HEADER])
    return schema.model if schema else None


def decode(value: bytes | None) -> Event:
    """Decode an event.

    Raises:
        FormatError: no single object, an unknown schema, a broken body or values that the event's
            model refuses.
    """
    if not value:
        raise FormatError("the message is empty")
    if value[: len(MAGIC)] != MAGIC:
        raise FormatError(f"no Avro single object: it begins with {value[:2].hex()}, not c301")
    schema = _by_fingerprint().get(value[len(MAGIC) : _HEADER])
    if schema is None:
        raise FormatError(f"unknown schema fingerprint {value[len(MAGIC) : _HEADER].hex()}")
    return _validated(schema, _body(schema, value))


def _body(schema: Schema, value: bytes) -> object:
    body = BytesIO(value)
    body.seek(_HEADER)
    try:
        record = fastavro.schemaless_reader(body, schema.parsed, None)
    except Exception as error:  # fastavro raises whatever a broken body leads it to
        raise FormatError(f"broken {schema.model.__name__}: {error!r}") from error
    if body.tell() != len(value):
        extra = len(value) - body.tell()
        raise FormatError(f"{extra} bytes are left over after the {schema.model.__name__}")
    return record


def _validated(schema: Schema, record: object) -> Event:
    try:
        return schema.model.model_validate(record)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'event'}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise FormatError(f"invalid {schema.model.__name__}: {problems}") from error
