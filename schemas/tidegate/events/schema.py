"""The Avro schemas: of today and of earlier versions, and what each one's bytes are read as."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.catalogue import EVENT_TYPES

NAMESPACE: Final = "io.tidegate.events"


@dataclass(frozen=True, slots=True)
class Schema:
    """One event's schema: its model, its parsed Avro schema, its fingerprint on the wire."""

    model: type[Event]
    parsed: Any
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Writer:
    """The schema that bytes were written with. `reader` is the schema of ours they are read as."""

    parsed: Any
    reader: Schema

    @property
    def resolve_to(self) -> Any:  # noqa: ANN401 - a parsed schema is fastavro's own affair
        """The schema to resolve fields to; None where the bytes are laid out as ours are."""
        return None if self.parsed is self.reader.parsed else self.reader.parsed


def full_name(model: type[Event]) -> str:
    """The full name of an event's Avro record."""
    return f"{NAMESPACE}.{model.__name__}"


def schema_text(name: str) -> str:
    """The `.avsc` of an event, as it stands in the package."""
    return files("tidegate.events").joinpath("avro", f"{name}.avsc").read_text("utf-8")


def previous_texts() -> Iterator[tuple[str, str]]:
    """The `.avsc` files of every version that was ever released, as version and text."""
    folder = files("tidegate.events").joinpath("previous")
    for version in sorted(folder.iterdir(), key=lambda each: each.name):
        for file in sorted(version.iterdir(), key=lambda each: each.name):
            yield version.name, file.read_text("utf-8")


def make_schema(model: type[Event], text: str) -> Schema:
    """Make a model's schema from the text of its `.avsc`."""
    raw: dict[str, Any] = json.loads(text)
    # fastavro gives the fingerprint's hex in the byte order of the wire: little endian.
    crc = fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO")
    return Schema(model, fastavro.parse_schema(raw), bytes.fromhex(crc))


@cache
def schema_of(model: type[Event]) -> Schema:
    """Load an event's schema from its `.avsc`, once a process."""
    return make_schema(model, schema_text(model.__name__))


def writer_from(text: str) -> Writer:
    """Make a writer of the text of any version's schema; its record's full name says of what.

    Raises:
        FormatError: it is no Avro schema, or none of an event of ours.
    """
    try:
        parsed = fastavro.parse_schema(json.loads(text))
    except Exception as error:  # fastavro raises whatever a broken schema leads it to
        raise FormatError(f"no Avro schema: {error!r}") from error
    name = str(parsed.get("name")) if isinstance(parsed, dict) else str(parsed)
    model = EVENT_TYPES.get(name.removeprefix(f"{NAMESPACE}."))
    if model is None or full_name(model) != name:
        raise FormatError(f"a schema of {name:.200}, which is no event of ours")
    reader, written = schema_of(model), make_schema(model, text)
    same = written.fingerprint == reader.fingerprint
    return Writer(reader.parsed if same else written.parsed, reader)


@cache
def current_writers() -> Mapping[bytes, Writer]:
    """Today's schemas by fingerprint."""
    schemas = map(schema_of, EVENT_TYPES.values())
    return {schema.fingerprint: Writer(schema.parsed, schema) for schema in schemas}


@cache
def previous_writers() -> Mapping[bytes, Writer]:
    """The schemas of every released version by fingerprint."""
    texts = (text for _, text in previous_texts())
    writers = ((text, writer_from(text)) for text in texts)
    return {make_schema(each.reader.model, text).fingerprint: each for text, each in writers}


def writer_by_fingerprint(name: bytes) -> Writer | None:
    """The schema with this fingerprint, of any version that this package knows."""
    return current_writers().get(name) or previous_writers().get(name)
