"""A bounded memory of ids: what was heard when, the oldest forgotten first.

A memory is a tuple of pages, oldest first, of which only the last one grows: taking in an id copies
that one and nothing else, however much is remembered. It is forgotten page by page.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

K = TypeVar("K", bound=int | str)
Memory = tuple[tuple[int, tuple[K, ...]], ...]
"""Pages: when the last id of it was heard (ms of the epoch), and its ids."""

PAGE: Final = 16
"""Ids on a page of a large memory; a small memory has smaller ones."""


class Bounds(NamedTuple):
    """How much is remembered: `pages` pages of up to `size` ids."""

    pages: int
    size: int

    @classmethod
    def of(cls, most: int) -> Bounds:
        """No more than `most` ids."""
        size = max(1, min(PAGE, most // 8))
        return cls(most // size, size)


def heard(memory: Memory[K], key: K) -> bool:
    """Whether this id is remembered."""
    return any(key in ids for _, ids in memory)


def all_heard(memory: Memory[K]) -> frozenset[K]:
    """Every id that is remembered."""
    return frozenset(each for _, ids in memory for each in ids)


def remember(memory: Memory[K], key: K, at: int, bounds: Bounds) -> Memory[K]:
    """Give the memory with `key` heard last, at `at` (ms), and no more ids than the bounds say."""
    if memory:
        last = memory[-1][1]
        if key in last:
            return *memory[:-1], (at, last)
        if len(last) < bounds.size:
            return *memory[:-1], (at, (*last, key))
    return *memory[max(0, len(memory) + 1 - bounds.pages) :], (at, (key,))


def has_old(memory: Memory[K], before: int) -> bool:
    """Whether `without_old` would give less."""
    return bool(memory) and memory[0][0] < before


def without_old(memory: Memory[K], before: int) -> Memory[K]:
    """Give the memory without the pages of which all was heard before a moment (ms).

    Itself where there is none: remembering a little longer is as safe as forgetting.
    """
    kept = memory
    while has_old(kept, before):
        kept = kept[1:]
    return kept


@lru_cache(maxsize=100)  # the broker gives all messages of a batch one time
def milliseconds(at: datetime) -> int:
    """Give the milliseconds since the epoch."""
    return round(at.timestamp() * 1000)
