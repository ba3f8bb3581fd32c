"""Lists of ids as Hive writes them: `4,7,9`, or `4-7` in newer versions; as values, sorted."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from tidegate.errors import FormatError

NOTHING_OPEN: Final = 2**63 - 1
_WIDEST: Final = 1_000_000
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


def parse_lists(
    text: str, parts: list[str], expected: int
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Read the high-water mark, the least open id, and the open and the aborted ids.

    Args:
        text: The whole string, for the error's message.
        parts: Its parts from the mark on.
        expected: How many there may be; the lists may be left out.

    Raises:
        FormatError: it is none.
    """
    least = 2
    if not least <= len(parts) <= expected:
        raise FormatError(f"not a list of valid ids: {text!r}")
    mark, min_open, *ids = parts
    opened, aborted = (*ids, "", "")[:2]
    return _id(mark), _id(min_open), _ids(opened), _ids(aborted)


def _ids(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        first, last = _id(low), _id(high or low)
        if last - first > _WIDEST:
            raise FormatError(f"too wide a range of ids: {part!r}")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _id(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > NOTHING_OPEN:
        raise FormatError(f"not an id: {text!r}")
    return int(text)


def joined(ids: Iterable[int]) -> str:
    """Write a list of ids."""
    return ",".join(map(str, ids))


def holds(ids: tuple[int, ...], wanted: int) -> bool:
    """Whether a sorted list has an id."""
    return count_in(ids, wanted, wanted) > 0


def count_in(ids: tuple[int, ...], low: int, high: int) -> int:
    """How many ids of a sorted list lie in a range, ends included."""
    return bisect_right(ids, high) - bisect_left(ids, low)
