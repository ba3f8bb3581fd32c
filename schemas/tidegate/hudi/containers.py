"""Avro object containers, as Hudi's timeline holds them: one record, no compression."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final

import fastavro

from tidegate.errors import FormatError

MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16

Record = dict[str, Any]


@cache
def schema(name: str) -> Record:
    """The schema of one of Hudi's records, by its name."""
    text = (files("tidegate.hudi") / "avro" / f"{name}.avsc").read_text()
    loaded: Record = json.loads(text)
    return loaded


def encode(name: str, record: Record, notes: Mapping[str, str] | None = None) -> bytes:
    """Write one record of schema `name`. The same record gives the same bytes.

    Args:
        name: The record's name, `HoodieSavepointMetadata` and kin.
        record: Its fields.
        notes: Further entries for the header; readers pass over keys they do not know.
    """
    sync = hashlib.sha256(repr((name, record, notes)).encode()).digest()[:_SYNC_BYTES]
    buffer = io.BytesIO()
    fastavro.writer(
        buffer, schema(name), [record], codec="null", sync_marker=sync, metadata=dict(notes or {})
    )
    return buffer.getvalue()


def decode(content: bytes) -> Record:
    """Read the one record of a container, by the schema that its writer put in.

    Raises:
        FormatError: it is no container, or holds no record.
    """
    try:
        record = next(iter(fastavro.reader(io.BytesIO(content))), None)
    except Exception as error:
        # fastavro raises whatever broke first: EOFError, IndexError, struct.error, ValueError
        raise FormatError(f"no Avro container: {error}") from error
    if not isinstance(record, dict):
        raise FormatError("an Avro container without a record")
    return record


@contextmanager
def reading(what: str) -> Generator[None]:
    """Take fields out of a record.

    Raises:
        FormatError: a field lacks or is of another kind, so the record is not `what`.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise FormatError(f"no {what}: {error!r}") from error


def notes(content: bytes) -> dict[str, str]:
    """The header entries of a container.

    Raises:
        FormatError: it is no container.
    """
    try:
        return {k: str(v) for k, v in fastavro.reader(io.BytesIO(content)).metadata.items()}
    except Exception as error:
        raise FormatError(f"no Avro container: {error}") from error
