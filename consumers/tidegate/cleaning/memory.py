"""A bounded memory of ids: what was heard when, the oldest forgotten first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice, takewhile
from typing import TypeVar

K = TypeVar("K", int, str)


def remember(memory: Mapping[K, int], key: K, at: datetime, most: int) -> dict[K, int]:
    """Give the memory with `key` heard last, at `at`, and no more than `most` keys."""
    others = {each: heard for each, heard in memory.items() if each != key}
    kept = islice(others.items(), max(0, len(others) - most + 1), None)
    return {**dict(kept), key: milliseconds(at)}


def without_old(memory: dict[K, int], before: datetime) -> dict[K, int]:
    """Give the memory without what was heard before a moment; itself where nothing was."""
    limit = milliseconds(before)
    old = sum(1 for _ in takewhile(lambda heard: heard < limit, memory.values()))
    return dict(islice(memory.items(), old, None)) if old else memory


def milliseconds(at: datetime) -> int:
    """Give the milliseconds since the epoch."""
    return round(at.timestamp() * 1000)
