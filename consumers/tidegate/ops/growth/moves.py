"""Which records of a decider's changelog belong to another partition once there are more. Pure.

A table's records are on the partition of its name. With more partitions the name may give another
one: events arrive there, so the records have to move there too. A table's own position (`ahead`) is
left behind, because offsets of one partition mean nothing on another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.coordinator.store import AHEAD
from tidegate.events.keys import partition_of

Entry = tuple[bytes, bytes | None]
_SEPARATOR: Final = b"\x00"
"""Behind a table's name; before the names of the partition's own records."""


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """What a move to more partitions would change."""

    to: int
    topics: Mapping[str, int]
    """The number of partitions of every topic that gets more."""
    tables: Mapping[str, int]
    """By decider, how many tables get another partition."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to change."""
        return not self.topics and not any(self.tables.values())


def latest(entries: Iterable[Entry]) -> dict[bytes, bytes]:
    """What a changelog says after all of its records: the last value of each key."""
    found: dict[bytes, bytes] = {}
    update(found, entries)
    return found


def update(found: dict[bytes, bytes], entries: Iterable[Entry]) -> None:
    """Apply further records of a changelog to what it said before them."""
    for key, value in entries:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value


def records_to_move(
    records: Mapping[bytes, bytes], number: int, partitions: int
) -> dict[int, list[tuple[bytes, bytes]]]:
    """The records that belong to another partition, by its number, ready to be written there.

    Args:
        records: What the changelog's partition says.
        number: Its number.
        partitions: How many partitions there are from now on.
    """
    moved: dict[int, list[tuple[bytes, bytes]]] = {}
    for key, value in records.items():
        table = table_of(key)
        is_own = table is None or key.split(_SEPARATOR)[1] == AHEAD.name.encode()
        home = number if table is None or is_own else partition_of(table, partitions)
        if home != number:
            moved.setdefault(home, []).append((key, value))
    return moved


def table_of(key: bytes) -> str | None:
    """The table of a changelog record; None for the partition's own records."""
    return key.partition(_SEPARATOR)[0].decode() or None
