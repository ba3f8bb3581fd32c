"""A bounded memory of ids: what was heard when, the oldest forgotten first.

A memory is a tuple of small dicts, oldest first, of which only the last one grows: taking in an id
copies that one and nothing else, however much is remembered. It is forgotten dict by dict.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeVar

K = TypeVar("K", bound=int | str)

PAGE: Final = 64
"""Ids in one dict of a large memory; a small memory has smaller ones."""


def heard(memory: tuple[dict[K, int], ...], key: K) -> bool:
    """Whether this id is remembered."""
    return any(key in page for page in memory)


def remember(
    memory: tuple[dict[K, int], ...], key: K, at: int, most: int
) -> tuple[dict[K, int], ...]:
    """Give the memory with `key` heard last, at `at` (ms), and no more than `most` ids."""
    size = max(1, min(PAGE, most // 8))
    if memory and len(memory[-1]) < size:
        last: dict[K, int] = {**memory[-1], key: at}
        return *memory[:-1], last
    page: dict[K, int] = {key: at}
    return *memory[max(0, len(memory) + 1 - most // size) :], page


def without_old(memory: tuple[dict[K, int], ...], before: int) -> tuple[dict[K, int], ...]:
    """Give the memory without the dicts of which all was heard before a moment (ms).

    Itself where there is none: remembering a little longer is as safe as forgetting.
    """
    kept = memory
    while kept and next(reversed(kept[0].values())) < before:
        kept = kept[1:]
    return kept


def milliseconds(at: datetime) -> int:
    """Give the milliseconds since the epoch."""
    return round(at.timestamp() * 1000)
