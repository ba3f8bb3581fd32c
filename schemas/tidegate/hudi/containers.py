"""Avro object containers as in Hudi's timeline: one record, no compression."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

import fastavro

from tidegate.avro import SchemaLimits, read_schema
from tidegate.errors import FormatError

MAGIC: Final = b"Obj\x01"
MAX_INFLATED: Final = 64 * 1024 * 1024
"""Maximum inflated size of a compressed record, in bytes: a commit of about 100,000 files."""
_SCHEMAS: Final = SchemaLimits(
    length=256 * 1024, depth=96, types=10_000, fixed_bytes=2**20, logical_types=None
)
"""Far above Hudi's own schemas. Without logical types: none is needed, and some are costly."""
_SYNC_BYTES: Final = 16
_CONTAINER: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Container",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(MAGIC)}},
            {"name": "header", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}},
            {"name": "count", "type": "long"},
            {"name": "data", "type": "bytes"},
        ],
    }
)
"""A container up to its first block, which itself is encoded in Avro."""

Record = dict[str, Any]


@cache
def schema(name: str) -> Record:
    """The schema of one of Hudi's records, by its name."""
    text = (files("tidegate.hudi") / "avro" / f"{name}.avsc").read_text()
    loaded: Record = json.loads(text)
    return loaded


def encode(name: str, record: Record, header: Mapping[str, str] | None = None) -> bytes:
    """Encode one record of schema `name`. Equal records have equal bytes.

    Args:
        name: The name of the schema, e.g. `HoodieSavepointMetadata`.
        record: The fields of the record.
        header: Further entries for the header; readers ignore keys that they do not know.
    """
    sync = hashlib.sha256(repr((name, record, header)).encode()).digest()[:_SYNC_BYTES]
    buffer = io.BytesIO()
    fastavro.writer(
        buffer, schema(name), [record], codec="null", sync_marker=sync, metadata=dict(header or {})
    )
    return buffer.getvalue()


def decode(content: bytes) -> Record:
    """Decode the single record of a container.

    The writer's schema is checked before any data are read with it. Only the codecs null and
    deflate are supported, inflated up to MAX_INFLATED bytes. So a hostile file can't exhaust memory
    or time.

    Raises:
        FormatError: the content is not such a container, or has no record.
    """
    record, _ = decode_with_header(content)
    return record


def decode_with_header(content: bytes) -> tuple[Record, dict[str, str]]:
    """Decode a container like `decode`; return also what `encode` took as its `header`.

    Raises:
        FormatError: the content is not such a container, or has no record.
    """
    header, data = _split(content)
    added = {k: v.decode("utf-8", "replace") for k, v in header.items() if k[:5] != "avro."}
    schema = _parsed(header.get("avro.schema", b""))
    try:
        record = fastavro.schemaless_reader(io.BytesIO(data), schema, None)
    except Exception as error:
        # fastavro raises many kinds of errors: EOFError, IndexError, struct.error, ValueError
        raise FormatError(f"not an Avro container: {type(error).__name__} {error}") from error
    if not isinstance(record, dict):
        raise FormatError("the Avro container has no record")
    return record, added


def _split(content: bytes) -> tuple[dict[str, bytes], bytes]:
    """The entries of the header (`avro.schema` is the writer's schema), and the record's data."""
    try:
        found: Any = fastavro.schemaless_reader(io.BytesIO(content), _CONTAINER, None)
    except Exception as error:
        # fastavro raises many kinds of errors: EOFError, IndexError, struct.error, ValueError
        raise FormatError(f"not an Avro container: {type(error).__name__} {error}") from error
    if found["magic"] != MAGIC or found["count"] < 1:
        raise FormatError("not an Avro container with a record")
    header: dict[str, bytes] = found["header"]
    data: bytes = found["data"]
    codec = header.get("avro.codec", b"null")
    if codec == b"deflate":
        try:
            inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            data = inflate.decompress(data, MAX_INFLATED)
        except zlib.error as error:
            raise FormatError(f"the Avro container can't be inflated: {error}") from error
        if inflate.unconsumed_tail:
            raise FormatError(f"the Avro record has more than {MAX_INFLATED} bytes")
    elif codec != b"null":
        raise FormatError(f"Hudi does not write Avro with the codec {codec[:20]!r}")
    return header, data


@contextmanager
def reading(what: str) -> Generator[None]:
    """Convert errors of reading a record's fields.

    Raises:
        FormatError: a field is missing or of another type, so the record is not `what`.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise FormatError(f"not {what}: {type(error).__name__} {error}") from error


@lru_cache(maxsize=64)
def _parsed(text: bytes) -> Any:  # noqa: ANN401 - fastavro is untyped
    """A writer's schema, checked and parsed."""
    try:
        return fastavro.parse_schema(read_schema(text, _SCHEMAS))
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"the Avro schema is invalid: {error}") from error
