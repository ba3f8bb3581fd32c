"""The last bytes of an ORC file: whether it was written to its end, and its rows. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Final

LONGEST_END: Final = 16_384
"""Bytes: a postscript has at most 256, and nearly every footer fits before it."""
_MAGIC: Final = 8000
_FOOTER_LENGTH, _COMPRESSION, _ROWS = 1, 2, 6
_NONE, _ZLIB = 0, 1
_LARGEST_FOOTER: Final = 10_000_000
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
"""Kinds of fields of a protobuf message."""


def read_orc_end(end: bytes, size: int) -> tuple[bool, int | None]:
    """Read the postscript and the footer.

    Args:
        end: The file's last bytes, up to `LONGEST_END`.
        size: Its size in bytes.

    Returns:
        Whether the file ends with a postscript whose footer lies in it, and the number of its rows;
        None if the footer can't be read from these bytes.
    """
    if not end or len(end) <= end[-1]:
        return False, None
    start = len(end) - 1 - end[-1]
    try:
        found = _numbers(end[start:-1])
    except ValueError:
        return False, None
    length = found.get(_FOOTER_LENGTH, 0)
    if _MAGIC not in found or not 0 < length <= size - (len(end) - start):
        return False, None
    if length > start:
        return True, None
    try:
        footer = _uncompressed(end[start - length : start], found.get(_COMPRESSION, _NONE))
        return True, None if footer is None else _numbers(footer).get(_ROWS, 0)
    except (ValueError, zlib.error):
        return True, None


def _uncompressed(part: bytes, compression: int) -> bytes | None:
    """A footer's bytes; None if they are compressed in another way than by zlib."""
    if compression == _NONE:
        return part
    found = b""
    while part:
        header = int.from_bytes(part[:3], "little")
        chunk, part = part[3 : 3 + header // 2], part[3 + header // 2 :]
        if header & 1:  # stored as it is
            found += chunk
        elif compression == _ZLIB:
            found += zlib.decompressobj(-15).decompress(chunk, _LARGEST_FOOTER)
        else:
            return None
    return found


def _numbers(message: bytes) -> Mapping[int, int]:
    """The numbers in a message by field; of any other field its length.

    Raises:
        ValueError: it is not a message.
    """
    return dict(_fields(message))


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _BYTES:
            value, at = _varint(message, at)
            at += value
        elif kind in {_FIXED_64, _FIXED_32}:
            value = 8 if kind == _FIXED_64 else 4
            at += value
        else:
            raise ValueError("not a message")
        yield key >> 3, value
    if at > len(message):
        raise ValueError("cut off")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first; and where the next field begins."""
    value = 0
    for place, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, at + place + 1
    raise ValueError("cut off")
