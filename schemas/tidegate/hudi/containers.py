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
_CONTINUES: Final = 0x80

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


def encode_data(name: str, data: bytes, header: Mapping[str, bytes]) -> bytes:
    """Make a container with one encoded record of schema `name`. Equal arguments, equal bytes.

    Args:
        name: The name of the schema.
        data: The record, encoded in Avro.
        header: Further entries for the header; readers ignore keys that they do not know.
    """
    about = {"avro.schema": json.dumps(schema(name)).encode(), "avro.codec": b"null", **header}
    entries = _header_entries(about)
    sync = _sync_of(entries, data)
    block = long(1) + _bytes(data)
    return b"".join((MAGIC, long(len(about)), entries, long(0), sync, block, sync))


def data_of(name: str, content: bytes) -> tuple[dict[str, bytes], bytes]:
    """The header's entries and the encoded record of a container by `encode_data`.

    Raises:
        FormatError: another program wrote the content, or it is damaged.
    """
    entries, start = _read_header(content)
    ours = entries.get("avro.schema") == json.dumps(schema(name)).encode()
    if not ours or entries.get("avro.codec") != b"null":
        raise FormatError(f"not a {name} with this version's schema, uncompressed")
    data = _read_block(content, start, b"null")
    sync = _sync_of(_header_entries(entries), data)
    if content[start - _SYNC_BYTES : start] != sync or not content.endswith(sync):
        raise FormatError(f"the {name} was written by another program, or is damaged")
    return entries, data


def _header_entries(entries: Mapping[str, bytes]) -> bytes:
    return b"".join(_bytes(key.encode()) + _bytes(value) for key, value in entries.items())


def _sync_of(entries: bytes, data: bytes) -> bytes:
    """A digest as the sync marker: marks the end of a block, and shows whether the file changed."""
    return hashlib.sha256(entries + data).digest()[:_SYNC_BYTES]


def decode(content: bytes) -> Record:
    """Decode the single record of a container.

    The writer's schema is checked before any data are read with it. Only the codecs null and
    deflate are supported, inflated up to MAX_INFLATED bytes. So a hostile file can't exhaust memory
    or time.

    Raises:
        FormatError: the content is not such a container, or has no record.
    """
    return read_record(*split(content))


def split(content: bytes) -> tuple[bytes, bytes]:
    """The text of the writer's schema, and the data of the record.

    Raises:
        FormatError: the content is not such a container, or has no record.
    """
    entries, start = _read_header(content)
    data = _read_block(content, start, entries.get("avro.codec", b"null"))
    return entries.get("avro.schema", b""), data


def read_record(text: bytes, data: bytes, wanted: Any = None) -> Record:  # noqa: ANN401 - untyped
    """Decode a record from the two parts that `split` returned.

    Args:
        text: The writer's schema.
        data: The record.
        wanted: A schema with the fields to read, as fastavro has parsed it; by default all.

    Raises:
        FormatError: the schema is not Avro, or the data are not a record of it.
    """
    schema = parsed(text)
    try:
        record = fastavro.schemaless_reader(io.BytesIO(data), schema, wanted)
    except Exception as error:
        # fastavro raises many kinds of errors: EOFError, IndexError, struct.error, ValueError
        raise FormatError(f"not an Avro container: {type(error).__name__} {error}") from error
    if not isinstance(record, dict):
        raise FormatError("the Avro container has no record")
    return record


def encode_value(schema: Any, value: Any) -> bytes:  # noqa: ANN401 - fastavro is untyped
    """Encode a value with a schema that fastavro has parsed."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)
    return buffer.getvalue()


def decode_value(schema: Any, data: bytes) -> Any:  # noqa: ANN401 - fastavro is untyped
    """Decode the bytes of `encode_value`.

    Raises:
        FormatError: the data are not exactly one value of the schema.
    """
    buffer = io.BytesIO(data)
    try:
        value = fastavro.schemaless_reader(buffer, schema, None)
    except Exception as error:
        # fastavro raises many kinds of errors
        raise FormatError(f"not of that schema: {type(error).__name__} {error}") from error
    if buffer.tell() != len(data):
        raise FormatError("unexpected data after the value")
    return value


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


def header(content: bytes) -> dict[str, str]:
    """The header entries of a container.

    Raises:
        FormatError: the content is not a container.
    """
    entries, _ = _read_header(content)
    return {key: value.decode("utf-8", "replace") for key, value in entries.items()}


def checked(text: bytes) -> Any:  # noqa: ANN401 - JSON
    """A writer's schema, checked.

    Raises:
        FormatError: the text is not an Avro schema, or larger than any of Hudi's.
    """
    return read_schema(text, _SCHEMAS)


@lru_cache(maxsize=64)
def parsed(text: bytes) -> Any:  # noqa: ANN401 - fastavro is untyped
    """A writer's schema, checked and parsed.

    Raises:
        FormatError: the text is not an Avro schema, or larger than any of Hudi's.
    """
    schema = checked(text)
    try:
        return fastavro.parse_schema(schema)
    except Exception as error:
        raise FormatError(f"the Avro schema is invalid: {error}") from error


def _read_header(content: bytes) -> tuple[dict[str, bytes], int]:
    """The entries of the header, and the index of the first block."""
    if not content.startswith(MAGIC):
        raise FormatError("not an Avro container: the magic bytes are missing")
    entries: dict[str, bytes] = {}
    position = len(MAGIC)
    while True:
        count, position = read_long(content, position)
        if count < 0:
            _, position = read_long(content, position)
        if count == 0:
            return entries, position + _SYNC_BYTES
        for _ in range(abs(count)):
            key, position = read_bytes(content, position)
            value, position = read_bytes(content, position)
            entries[key.decode("utf-8", "replace")] = value


def _read_block(content: bytes, position: int, codec: bytes) -> bytes:
    """The data of the first block."""
    count, position = read_long(content, position)
    if count < 1:
        raise FormatError("the Avro container has no record")
    data, _ = read_bytes(content, position)
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
    return data


def read_bytes(content: bytes, position: int) -> tuple[bytes, int]:
    """Length-prefixed bytes (or text), and the index after them.

    Raises:
        FormatError: the content ends before them.
    """
    size, position = read_long(content, position)
    if not 0 <= size <= len(content) - position:
        raise FormatError("the Avro container ends too early")
    return content[position : position + size], position + size


def read_long(content: bytes, position: int) -> tuple[int, int]:
    """A zigzag number of at most ten bytes, and the index after it.

    Raises:
        FormatError: the content ends before the number.
    """
    value = 0
    for shift, byte in enumerate(content[position : position + 10]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < _CONTINUES:
            return (value >> 1) ^ -(value & 1), position + shift + 1
    raise FormatError("the Avro container ends too early")


def long(value: int) -> bytes:
    """A number in Avro's encoding: zigzag, lowest seven bits first."""
    rest, found = (value << 1) ^ (value >> 63), bytearray()
    while rest >= _CONTINUES:
        found.append(rest & 0x7F | _CONTINUES)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def text(value: str) -> bytes:
    """A text in Avro's encoding."""
    return _bytes(value.encode())


def _bytes(value: bytes) -> bytes:
    return long(len(value)) + value
