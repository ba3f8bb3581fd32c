"""Snapshots: the write ids and the transactions that are committed for one reader.

    ValidWriteIdList   db.table:HIGH_WATER_MARK:MIN_OPEN:open,ids:aborted,ids
    ValidTxnList       HIGH_WATER_MARK:MIN_OPEN:open,ids:aborted,ids

`MIN_OPEN` is the greatest Java long if nothing is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from tidegate.errors import FormatError
from tidegate.hive.id_lists import NO_IDS, NOTHING_OPEN, IdRanges, parse_lists, shortened

_WRITE_ID_PARTS: Final = 5
_TXN_PARTS: Final = 4


class RangeResponse(Enum):
    """How many ids of a range are valid (or aborted): Hive's `ValidWriteIdList.RangeResponse`."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ValidTxns:
    """Hive's ValidTxnList: the transactions that are committed for a reader."""

    high_water_mark: int
    min_open: int = NOTHING_OPEN
    open: IdRanges = NO_IDS
    aborted: IdRanges = NO_IDS

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's string, including ranges such as `4-7`, which newer versions write.

        Raises:
            FormatError: `text` is not a ValidTxnList.
        """
        return cls(*parse_lists(text, text.split(":"), _TXN_PARTS))

    def is_valid(self, txn: int) -> bool:
        """Whether the transaction had committed."""
        return txn <= self.high_water_mark and txn not in self.aborted and txn not in self.open

    def is_aborted(self, txn: int) -> bool:
        """Whether the transaction had aborted."""
        return txn in self.aborted

    def __str__(self) -> str:
        """Format as Hive does; the inverse of `parse`."""
        return f"{self.high_water_mark}:{self.min_open}:{self.open}:{self.aborted}"


@dataclass(frozen=True, slots=True)
class ValidWriteIds:
    """A reader's ValidWriteIdList: the committed write ids of one table."""

    table: str
    high_water_mark: int
    min_open: int = NOTHING_OPEN
    open: IdRanges = NO_IDS
    aborted: IdRanges = NO_IDS

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's string.

        Raises:
            FormatError: `text` is not a ValidWriteIdList.
        """
        table, *rest = text.split(":")
        if not table:
            raise FormatError(
                f"a ValidWriteIdList starts with the name of its table: {shortened(text)}"
            )
        return cls(table, *parse_lists(text, rest, _WRITE_ID_PARTS - 1))

    @property
    def has_open(self) -> bool:
        """Whether a write id was open."""
        return self.min_open != NOTHING_OPEN

    def is_valid(self, write_id: int) -> bool:
        """Whether the write id had committed."""
        excluded = write_id in self.aborted or write_id in self.open
        return write_id <= self.high_water_mark and not excluded

    def is_aborted(self, write_id: int) -> bool:
        """Whether the write id had aborted."""
        return write_id in self.aborted

    def opens_in(self, low: int, high: int) -> bool:
        """Whether a write id of the range was open, both ends included."""
        return self.open.count_in(low, high) > 0

    def valid_in(self, low: int, high: int) -> RangeResponse:
        """How many write ids of the range are valid, counted like Hive's ValidReaderWriteIdList.

        As in Hive, a range that starts at or below the high-water mark and ends below the first
        open or aborted id counts as ALL, even if it ends above the mark.
        """
        if low > self.high_water_mark:
            return RangeResponse.NONE
        invalid = max(0, high - self.high_water_mark)
        exceptions = (*self.open.firsts[:1], *self.aborted.firsts[:1])
        if exceptions:
            if min(exceptions) > high:
                return RangeResponse.ALL
            invalid += self.open.count_in(low, high) + self.aborted.count_in(low, high)
        return _range_response(high - low + 1, invalid=invalid)

    def aborted_in(self, low: int, high: int) -> RangeResponse:
        """How many write ids of the range are aborted."""
        if not self.aborted.firsts or low > self.high_water_mark:
            return RangeResponse.NONE
        count = self.aborted.count_in(low, high)
        if count == 0:
            return RangeResponse.NONE
        return RangeResponse.ALL if count == high - low + 1 else RangeResponse.SOME

    def takes_compacted_base(self, write_id: int) -> bool:
        """Whether this snapshot can be read from a compaction's base with this write id."""
        return write_id < self.min_open and write_id <= self.high_water_mark

    def __str__(self) -> str:
        """Format as Hive does; the inverse of `parse`."""
        ids = f"{self.open}:{self.aborted}"
        return f"{self.table}:{self.high_water_mark}:{self.min_open}:{ids}"


@dataclass(frozen=True, slots=True)
class CleanerWriteIds(ValidWriteIds):
    """A cleaner's ValidWriteIdList: a range that ends above the high-water mark is not valid.

    With a reader's list, the delta of a second compaction would make the first one's delta
    obsolete, although a reader that started between the two still reads it (HIVE-27526).
    """

    @classmethod
    def of(cls, reader: ValidWriteIds) -> Self:
        """Make a cleaner's list from a reader's."""
        marks = (reader.table, reader.high_water_mark, reader.min_open)
        return cls(*marks, reader.open, reader.aborted)

    def valid_in(self, low: int, high: int) -> RangeResponse:
        """Count like Hive's ValidCleanerWriteIdList."""
        if high > self.high_water_mark:
            return RangeResponse.NONE
        return ValidWriteIds.valid_in(self, low, high)


def _range_response(width: int, *, invalid: int) -> RangeResponse:
    if invalid == 0:
        return RangeResponse.ALL
    return RangeResponse.NONE if invalid >= width else RangeResponse.SOME
