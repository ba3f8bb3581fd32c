"""Rows as records of the changelog, and messages in bodies of rows.

A record has the key `table, zero byte, row type, zero byte, number`. Its value is the row: a JSON
array of its columns and, where it has a body, that on a second line. A large value is compressed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from hashlib import sha256
from operator import methodcaller
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import from_json

from tidegate.errors import PermanentError
from tidegate.events.wire import Message

MAX_RECORD_BYTES: Final = 1_000_000
"""The largest record: every broker accepts it by default, and the changelog accepts twice that."""
MAX_UNPACKED: Final = 32 * 2**20
"""Bytes of a record before compression: one publication has at most 2 MiB, in JSON six times as
much; several of one vacuum, with different holds, may exceed it and are refused."""
_PACKED_ABOVE: Final = 100_000
_PACKED: Final = b"x"
"""The first byte of what zlib has compressed; the other records are JSON."""
_SEPARATOR: Final = "\x00"


def row_key(table: str, row_type: str, key: int | None = None) -> bytes:
    """The key of a row's record in the changelog."""
    return f"{table}{_SEPARATOR}{row_type}{_SEPARATOR}{'' if key is None else key}".encode()


_fields: Final = methodcaller("model_dump", mode="json")
dumps: Final = json.JSONEncoder(separators=(",", ":"), default=_fields).encode
"""JSON for a row's body, with the fields of the events in it.

ASCII, so halves of surrogate pairs are stored like all other text."""


def loads(body: str | bytes) -> Any:  # noqa: ANN401 - JSON
    """Parse JSON.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return from_json(body)  # as `json.loads`, in half the time
    except ValueError:  # half of a surrogate pair, or not JSON
        return json.loads(body)


def hashed(text: str) -> int:
    """63 bits of SHA-256: a number that SQLite and every JSON reader can store."""
    digest = _fresh()
    digest.update(text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()[:8]) >> 1


_fresh: Final = sha256().copy
"""Copying a hasher takes half the time of `sha256()`."""


def key_parts(key: bytes) -> tuple[str, str, str]:
    """The table, the row type and the number of a row's record.

    Raises:
        ValueError: it is not the key of a row.
    """
    table, row_type, number = key.decode().split(_SEPARATOR)
    return table, row_type, number


def row_value(columns: Sequence[int | str | None], body: str | None) -> bytes:
    """The value of a row's record: its columns as JSON, on a second line its body.

    Raises:
        PermanentError: it is too large for the changelog.
    """
    head = dumps(columns)
    value = (head if body is None else f"{head}\n{body}").encode()
    if len(value) <= _PACKED_ABOVE:
        return value
    packed = zlib.compress(value) if len(value) <= MAX_UNPACKED else value
    if len(packed) > MAX_RECORD_BYTES:
        raise PermanentError(
            f"the changelog would need a record of {len(packed)} bytes ({len(value)} before"
            f" compression); at most {MAX_RECORD_BYTES} ({MAX_UNPACKED}) are possible"
        )
    return packed


def columns_and_body(value: bytes) -> tuple[list[Any], str]:
    """The inverse of `row_value`; without a body, its text is empty.

    Raises:
        ValueError: it is not the value of a row.
    """
    if value[:1] == _PACKED:
        value = _unpacked(value)
    head, _, body = value.partition(b"\n")
    return json.loads(head), body.decode()


def _unpacked(value: bytes) -> bytes:
    reader = zlib.decompressobj()
    try:
        unpacked = reader.decompress(value, MAX_UNPACKED)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError(f"it was cut off, or expands beyond the limit of {MAX_UNPACKED} bytes")
    return unpacked


BYTES: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
"""For messages in JSON."""
_MESSAGE: Final = TypeAdapter(Message, config=BYTES)


def dump_message(message: Message) -> str:
    """A message as a row's body."""
    return _MESSAGE.dump_json(message).decode()


def load_message(body: str) -> Message:
    """The message that a row's body holds.

    Raises:
        ValueError: it holds none.
    """
    return _MESSAGE.validate_json(body)
