"""The log block that undoes the blocks of one instant in a file slice (up to table version 6).

In those versions, a log file does not name the instant that wrote it, and may have blocks of
several. So a rollback deletes no log file. It appends a log file to the slice that contains only
this command block.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from tidegate.hudi.instant import is_instant

_MAGIC: Final = b"#HUDI#"
_VERSION: Final = 1
_COMMAND_BLOCK: Final = 0
_INSTANT_TIME, _TARGET_INSTANT, _COMMAND_TYPE = 0, 1, 3
_ROLL_BACK: Final = "0"
_START: Final = struct.Struct(">6sqiii")
_ENTRY: Final = struct.Struct(">ii")
_END: Final = struct.Struct(">qiq")
_LONGEST_INSTANT: Final = 24
_ENTRIES: Final = 3

MAX_SIZE: Final = (
    _START.size + _ENTRIES * _ENTRY.size + 2 * _LONGEST_INSTANT + len(_ROLL_BACK) + _END.size
)
"""Maximum size, in bytes, of a log file that contains only a rollback block."""


@dataclass(frozen=True, slots=True)
class RollbackBlock:
    """A command block: readers skip every block of `target` that they read before it.

    `instant` is the instant of the rollback or restore. Readers stop at a block later than the last
    completed write, so they do not see this block until the next write.
    """

    target: str
    instant: str

    def encode(self) -> bytes:
        """The content of a log file with this block."""
        entries = {
            _COMMAND_TYPE: _ROLL_BACK,
            _INSTANT_TIME: self.instant,
            _TARGET_INSTANT: self.target,
        }
        header = b"".join(
            _ENTRY.pack(key, len(text)) + text.encode() for key, text in entries.items()
        )
        size = _START.size - len(_MAGIC) - 8 + len(header) + _END.size
        start = _START.pack(_MAGIC, size, _VERSION, _COMMAND_BLOCK, len(entries))
        return start + header + _END.pack(0, 0, len(_MAGIC) + size)

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        """Decode the content of a log file; None if it is not exactly one rollback block."""
        try:
            entries = _entries(content)
        except (struct.error, UnicodeDecodeError):
            return None
        block = cls(entries.get(_TARGET_INSTANT, ""), entries.get(_INSTANT_TIME, ""))
        is_command = entries.get(_COMMAND_TYPE) == _ROLL_BACK
        if not (is_command and is_instant(block.target) and is_instant(block.instant)):
            return None
        return block if len(content) == len(block.encode()) else None


def _entries(content: bytes) -> dict[int, str]:
    """The header of a command block; empty if the content is another block."""
    magic, _, version, kind, count = _START.unpack_from(content)
    if (magic, version, kind) != (_MAGIC, _VERSION, _COMMAND_BLOCK):
        return {}
    position, entries = _START.size, dict[int, str]()
    for _ in range(min(count, _ENTRIES)):
        key, size = _ENTRY.unpack_from(content, position)
        position += _ENTRY.size
        entries[key] = content[position : position + max(0, size)].decode("ascii")
        position += max(0, size)
    return entries
