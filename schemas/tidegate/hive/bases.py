"""Which base a snapshot reads, and which bases are obsolete: the first half of getAcidState."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from tidegate.errors import FormatError
from tidegate.hive.id_lists import shortened
from tidegate.hive.names import AcidDirectory, parse_name
from tidegate.hive.write_ids import ValidWriteIds

DATA_FORMAT_FILE: Final = "_metadata_acid"
"""The file in a base without `_vT` in its name that names the writer; none: an insert overwrite."""
DATA_FORMAT_LIMIT: Final = 10_000
"""How many bytes of it are read at most; Hive writes about 50."""
_WRITTEN_BY_COMPACTION: Final = {"compacted": True, "truncated": False}


def is_of_compaction(data_format: bytes) -> bool:
    """Whether the content of a base's `_metadata_acid` is that of a compaction; else a TRUNCATE's.

    Raises:
        FormatError: it is neither; Hive can't read such a table.
    """
    try:
        return _WRITTEN_BY_COMPACTION[str(json.loads(data_format)["dataFormat"]).lower()]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        text = shortened(data_format.decode(errors="replace"))
        raise FormatError(f"a base's {DATA_FORMAT_FILE} can't be read: {text!r}") from error


class FoundDirectory(NamedTuple):
    """An ACID directory: its name on disk, and the parsed name.

    `compacted` marks a base that a compaction wrote though its name has no `_vT`, as in Hive 3,
    where the base's `_metadata_acid` file says so (`is_of_compaction`).
    """

    name: str
    acid: AcidDirectory
    compacted: bool = False

    @classmethod
    def named(cls, name: str, *, compacted: bool = False) -> Self:
        """Parse the name.

        Raises:
            FormatError: `name` is not the name of an ACID directory.
        """
        return cls(name, parse_name(name), compacted)


@dataclass(slots=True)
class BaseWalk:
    """The result of visiting bases one by one: call `visit` for each, in order.

    Attributes:
        best: The base that a reader with the snapshot reads; None if no base is usable.
        oldest: The base with the lowest write id.
        obsolete: The names of bases that a better one replaces.
        aborted: The names of bases of aborted insert overwrites.
    """

    best: FoundDirectory | None = None
    oldest: FoundDirectory | None = None
    obsolete: list[str] = field(default_factory=list[str])
    aborted: list[str] = field(default_factory=list[str])

    @property
    def write_id(self) -> int:
        """The write id of the best base; 0 without one."""
        return self.best.acid.max_write_id if self.best else 0

    def visit(self, found: FoundDirectory, write_ids: ValidWriteIds) -> None:
        """Compare one more base with the best so far."""
        if self.oldest is None or self.oldest.acid.max_write_id > found.acid.max_write_id:
            self.oldest = found
        if _is_aborted_overwrite(found, write_ids):
            self.aborted.append(found.name)
        elif self.best is not None and not self._is_better(found):
            self.obsolete.append(found.name)
        elif is_usable(found, write_ids):
            if self.best is not None:
                self.obsolete.append(self.best.name)
            self.best = found

    def _is_better(self, found: FoundDirectory) -> bool:
        write_id = found.acid.max_write_id
        same = write_id == self.write_id
        return write_id > self.write_id or (same and is_compacted(found))


def is_compacted(found: FoundDirectory) -> bool:
    """Whether a compaction wrote this base, as far as its marks show, not an insert overwrite."""
    return bool(found.acid.visibility_txn) or found.compacted


def _is_aborted_overwrite(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    return write_ids.is_aborted(found.acid.max_write_id) and not is_compacted(found)


def is_usable(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    """Whether a reader with this snapshot can read from a base."""
    write_id = found.acid.max_write_id
    if _is_aborted_overwrite(found, write_ids):
        return False
    if write_ids.has_open and write_id <= write_ids.min_open:
        return True
    if is_compacted(found):
        return write_ids.takes_compacted_base(write_id)
    return write_ids.is_valid(write_id)


def rank(found: FoundDirectory) -> tuple[int, bool]:
    """Sort key of bases: with equal write ids, a compaction's base is above an overwrite's."""
    return found.acid.max_write_id, is_compacted(found)
