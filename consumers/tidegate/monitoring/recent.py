"""Memory of the newest messages, by their ids, until their answers are published."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeVar

T = TypeVar("T")
_MOST: Final = 10_000


def remember(found: OrderedDict[str, T], event_id: str, value: T) -> None:
    """Store a fact about a message by its id; the oldest go first. Safe from any thread."""
    found[event_id] = value
    if len(found) > _MOST:
        found.popitem(last=False)
