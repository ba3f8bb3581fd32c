"""Hive's lists of ids (`4,7,9`, in newer versions also `4-7`), stored as ranges.

Ranges are never expanded, so the length of a list's text limits its memory.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Self

from tidegate.errors import FormatError

NOTHING_OPEN: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_MOST_SINGLE: Final = 1000
_LEAST_FIELDS: Final = 2


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


def parse_lists(text: str, parts: list[str], expected: int) -> tuple[int, int, IdRanges, IdRanges]:
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
