"""The Avro schemas of this version and of earlier ones, and how to read what they wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tidegate.avro import SchemaLimits, read_schema
from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.catalogue import EVENT_TYPES

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
    """An event's schema: its model, the parsed Avro schema, the fingerprint on the wire."""

    model: type[Event]
    parsed: Any
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer's schema, and the schema of this version (`reader`) to resolve it to."""

    parsed: Any
    reader: Schema

    @property
    def resolve_to(self) -> Any:  # noqa: ANN401 - fastavro has no type for a parsed schema
        """The reader's schema; None where both are the same and nothing is to resolve."""
        return None if self.parsed is self.reader.parsed else self.reader.parsed


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


def writer_from(text: str) -> Writer:
    """Make a writer from the schema of any version; the record's full name identifies the event.

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
    reader, written = schema_of(model), make_schema(model, text)
    return current_writers().get(written.fingerprint) or Writer(written.parsed, reader)


@cache
def current_writers() -> Mapping[bytes, Writer]:
    """The schemas of this version by fingerprint."""
    return {
        schema.fingerprint: Writer(schema.parsed, schema)
        for schema in map(schema_of, EVENT_TYPES.values())
    }


@cache
def previous_writers() -> Mapping[bytes, Writer]:
    """The schemas of every released version by fingerprint."""
    texts = (text for _, text in previous_texts())
    writers = ((text, writer_from(text)) for text in texts)
    return {make_schema(writer.reader.model, text).fingerprint: writer for text, writer in writers}


def writer_by_fingerprint(name: bytes) -> Writer | None:
    """The schema with this fingerprint, of this version or a released one; None: unknown."""
    return current_writers().get(name) or previous_writers().get(name)
