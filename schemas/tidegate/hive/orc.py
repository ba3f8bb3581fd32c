"""Whether an ORC file was written to its end, by its last bytes. Pure."""

from __future__ import annotations

from typing import Final

LONGEST_END: Final = 256
"""Bytes: a postscript has at most 255, and one byte after it says how many."""
_MAGIC: Final = b"\x82\xf4\x03\x03ORC"
"""The last field of a postscript, number 8000."""
_FOOTER_LENGTH: Final = 0x08
"""What a postscript begins with: field 1, a number of 7 bits a byte, the lowest first."""


def is_complete_orc(end: bytes, size: int) -> bool:
    """Whether a file ends with a postscript whose footer lies in the file.

    Args:
        end: Its last bytes, up to `LONGEST_END`.
        size: Its size in bytes.
    """
    if not end or len(end) <= end[-1]:
        return False
    postscript = end[-1 - end[-1] : -1]
    if not postscript.endswith(_MAGIC) or postscript[0] != _FOOTER_LENGTH:
        return False
    footer = 0
    for place, byte in enumerate(postscript[1:]):
        footer |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            break
    return 0 < footer <= size - len(postscript) - 1
