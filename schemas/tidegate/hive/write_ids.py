"""Snapshots: which write ids, and which transactions, are committed in a reader's eyes.

    ValidWriteIdList   db.table:HIGH_WATER_MARK:MIN_OPEN:open,ids:aborted,ids
    ValidTxnList       HIGH_WATER_MARK:MIN_OPEN:open,ids:aborted,ids

`MIN_OPEN` is the greatest Java long where nothing is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from tidegate.errors import FormatError
from tidegate.hive.id_lists import NOTHING_OPEN, count_in, holds, joined, parse_lists

_WRITE_ID_PARTS: Final = 5
_TXN_PARTS: Final = 4


class Share(Enum):
    """How many ids of a range are valid, or aborted."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ValidTxns:
    """A ValidTxnList: the transactions whose work a reader sees. Ids are sorted."""

    high_water_mark: int
    min_open: int = NOTHING_OPEN
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read Hive's string; ranges such as `4-7`, which newer versions write, are taken too.

        Raises:
            FormatError: it is none.
        """
        return cls(*parse_lists(text, text.split(":"), _TXN_PARTS))

    def is_valid(self, txn: int) -> bool:
        """Whether the transaction had committed."""
        return (
            txn <= self.high_water_mark and not self.is_aborted(txn) and not holds(self.open, txn)
        )

    def is_aborted(self, txn: int) -> bool:
        """Whether the transaction had aborted."""
        return holds(self.aborted, txn)

    def __str__(self) -> str:
        """Write Hive's string; the inverse of `parse`."""
        return f"{self.high_water_mark}:{self.min_open}:{joined(self.open)}:{joined(self.aborted)}"


@dataclass(frozen=True, slots=True)
class ValidWriteIds:
    """A reader's ValidWriteIdList: the write ids of one table that it sees. Ids are sorted."""

    table: str
    high_water_mark: int
    min_open: int = NOTHING_OPEN
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read Hive's string.

        Raises:
            FormatError: it is none.
        """
        table, *rest = text.split(":")
        if not table:
            raise FormatError(f"a ValidWriteIdList begins with its table: {text!r}")
        return cls(table, *parse_lists(text, rest, _WRITE_ID_PARTS - 1))

    @property
    def has_open(self) -> bool:
        """Whether the snapshot knows of an open write id (or names its least)."""
        return self.min_open != NOTHING_OPEN

    def is_valid(self, write_id: int) -> bool:
        """Whether the write id had committed."""
        excluded = self.is_aborted(write_id) or holds(self.open, write_id)
        return write_id <= self.high_water_mark and not excluded

    def is_aborted(self, write_id: int) -> bool:
        """Whether the write id had aborted."""
        return holds(self.aborted, write_id)

    def opens_in(self, low: int, high: int) -> bool:
        """Whether a write id of the range, ends included, was open."""
        return count_in(self.open, low, high) > 0

    def valid_in(self, low: int, high: int) -> Share:
        """How many write ids of the range are valid, as ValidReaderWriteIdList answers it.

        A range that begins at or below the high-water mark, and ends below the first open or
        aborted id, counts as wholly valid, even beyond the mark: so Hive says.
        """
        if low > self.high_water_mark:
            return Share.NONE
        exceptions = (*self.open[:1], *self.aborted[:1])
        if exceptions and min(exceptions) > high:
            return Share.ALL
        invalid = count_in(self.open, low, high) + count_in(self.aborted, low, high)
        return _share(high - low + 1, invalid=invalid + max(0, high - self.high_water_mark))

    def aborted_in(self, low: int, high: int) -> Share:
        """How many write ids of the range are aborted."""
        count = count_in(self.aborted, low, high) if low <= self.high_water_mark else 0
        if count == 0:
            return Share.NONE
        return Share.ALL if count == high - low + 1 else Share.SOME

    def takes_compacted_base(self, write_id: int) -> bool:
        """Whether a compaction's base of this write id can serve the snapshot."""
        return write_id < self.min_open and write_id <= self.high_water_mark

    def __str__(self) -> str:
        """Write Hive's string; the inverse of `parse`."""
        ids = f"{joined(self.open)}:{joined(self.aborted)}"
        return f"{self.table}:{self.high_water_mark}:{self.min_open}:{ids}"


@dataclass(frozen=True, slots=True)
class CleanerWriteIds(ValidWriteIds):
    """A cleaner's ValidWriteIdList: whatever reaches beyond the high-water mark is not there.

    With a plain reader's list, the delta of a second compaction would make the first one's
    obsolete, while a reader that began between the two still reads it (HIVE-27526).
    """

    @classmethod
    def of(cls, reader: ValidWriteIds) -> Self:
        """Make the cleaner's list of a reader's."""
        marks = (reader.table, reader.high_water_mark, reader.min_open)
        return cls(*marks, reader.open, reader.aborted)

    def valid_in(self, low: int, high: int) -> Share:
        """As ValidCleanerWriteIdList answers it."""
        if high > self.high_water_mark:
            return Share.NONE
        return ValidWriteIds.valid_in(self, low, high)


def _share(width: int, *, invalid: int) -> Share:
    if invalid == 0:
        return Share.ALL
    return Share.NONE if invalid == width else Share.SOME
