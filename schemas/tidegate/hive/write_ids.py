"""Snapshots: the write ids and the transactions that are committed for one reader.

    ValidWriteIdList   db.table:HIGH_WATER_MARK:MIN_OPEN:open,ids:aborted,ids
    ValidTxnList       HIGH_WATER_MARK:MIN_OPEN:open,ids:aborted,ids

`MIN_OPEN` is the greatest Java long if nothing is open. Lists of ids (`4,7,9`, in newer versions
also `4-7`) are stored as ranges and never expanded, so the length of a list's text limits its
memory.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Final, Self

from tidegate.errors import FormatError

NOTHING_OPEN: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_MOST_SINGLE: Final = 1000
_LEAST_FIELDS: Final = 2
_WRITE_ID_PARTS: Final = 5
_TXN_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class IdRanges:
    """A set of ids as sorted ranges that neither overlap nor touch; both ends are included.

    Attributes:
        firsts: The first ids of the ranges.
        lasts: The last ids of the ranges.
    """

    firsts: tuple[int, ...] = ()
    lasts: tuple[int, ...] = ()
    _counts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The cumulative number of ids up to each range."""

    def __post_init__(self) -> None:
        """Count once, so that every query is a binary search."""
        widths = (last - first + 1 for first, last in self)
        object.__setattr__(self, "_counts", tuple(accumulate(widths)))

    @classmethod
    def of(cls, *ids: int) -> Self:
        """The set of these ids."""
        return cls._merged((id_, id_) for id_ in ids)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's text; single ids and ranges in any order, empty for no ids.

        Raises:
            FormatError: a part is neither an id nor a range, or a range ends before it starts.
        """
        return cls._merged(map(_parse_range, text.split(",") if text else ()))

    @classmethod
    def _merged(cls, ranges: Iterable[tuple[int, int]]) -> Self:
        firsts: list[int] = []
        lasts: list[int] = []
        for first, last in sorted(ranges):
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(last, lasts[-1])
            else:
                firsts.append(first)
                lasts.append(last)
        return cls(tuple(firsts), tuple(lasts))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The ranges, as first and last id."""
        return zip(self.firsts, self.lasts, strict=True)

    def __contains__(self, wanted: int) -> bool:
        """Whether an id is in the set."""
        return self.count_in(wanted, wanted) > 0

    def count_in(self, low: int, high: int) -> int:
        """The number of ids in a range, both ends included."""
        if not self.firsts:
            return 0
        return max(0, self._count_up_to(high) - self._count_up_to(low - 1))

    def _count_up_to(self, limit: int) -> int:
        index = bisect_right(self.firsts, limit) - 1
        if index < 0:
            return 0
        return self._counts[index] - max(0, self.lasts[index] - limit)

    def __str__(self) -> str:
        """Format as Hive does; the inverse of `parse`.

        Writes single ids, because Hive 4.0 can't parse ranges of write ids, but a range of more
        than 1,000 ids as a range.
        """
        return ",".join(map(_formatted, self.firsts, self.lasts))


NO_IDS: Final = IdRanges()
"""The empty set."""


def _parse_lists(text: str, parts: list[str], expected: int) -> tuple[int, int, IdRanges, IdRanges]:
    """Parse the high-water mark, the least open id, the open ids and the aborted ids.

    Args:
        text: The complete string, for the error message.
        parts: The fields of `text`, from the high-water mark on.
        expected: The number of fields; the last two (the lists of ids) are optional.

    Raises:
        FormatError: the number of fields is wrong, or a field is not an id or a list of ids.
    """
    if not _LEAST_FIELDS <= len(parts) <= expected:
        raise FormatError(f"not a list of valid ids: {shortened(text)}")
    mark, min_open, *ids = parts
    opened, aborted = (*ids, "", "")[:2]
    return _parse_id(mark), _parse_id(min_open), IdRanges.parse(opened), IdRanges.parse(aborted)


def shortened(text: str) -> str:
    """A text for an error message that is published: quoted, and cut if it is long."""
    return f"{text[:100]!r}..." if len(text) > 100 else repr(text)  # noqa: PLR2004


def _parse_range(text: str) -> tuple[int, int]:
    low, is_range, high = text.partition("-")
    first = _parse_id(low)
    last = _parse_id(high) if is_range else first
    if last < first:
        raise FormatError(f"a range of ids ends before it starts: {shortened(text)}")
    return first, last


def _parse_id(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > NOTHING_OPEN:
        raise FormatError(f"not an id: {shortened(text)}")
    return int(text)


def _formatted(first: int, last: int) -> str:
    if last - first >= _MOST_SINGLE:
        return f"{first}-{last}"
    return ",".join(map(str, range(first, last + 1)))


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
        return cls(*_parse_lists(text, text.split(":"), _TXN_PARTS))

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
        return cls(table, *_parse_lists(text, rest, _WRITE_ID_PARTS - 1))

    @classmethod
    def of_table(cls, text: str, table: str) -> Self:
        """Parse Hive's string for a table, which may be named with its catalog.

        Raises:
            FormatError: `text` is not a ValidWriteIdList, or it is of another table.
        """
        found = cls.parse(text)
        named = found.table.lower()
        if not f".{table}".endswith(f".{named}"):
            raise FormatError(f"the snapshot is of the table {shortened(named)}, not of {table}")
        return found

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
