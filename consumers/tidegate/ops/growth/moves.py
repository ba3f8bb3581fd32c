"""Which records of a decider's changelog belong to another partition once there are more. Pure.

A table's records are on the partition of its name. With more partitions the name may give another
one: events arrive there, so the records have to move there too. The input positions in a table's
main record are dropped on the way, because offsets of one partition mean nothing on another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.events.keys import partition_of

Entry = tuple[bytes, bytes | None]
_SEPARATOR: Final = b"\x00"
"""Between a table's name and that of a piece; before the names of the partition's own records."""


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
        home = number if table is None else partition_of(table, partitions)
        if home != number:
            moved.setdefault(home, []).append((key, _without_positions(key, value)))
    # a table's main record comes last: until it is there, its pieces have no meaning
    return {
        home: sorted(found, key=lambda each: _SEPARATOR not in each[0])
        for home, found in moved.items()
    }


def table_of(key: bytes) -> str | None:
    """The table of a changelog record; None for the partition's own records."""
    return key.partition(_SEPARATOR)[0].decode() or None


def _without_positions(key: bytes, value: bytes) -> bytes:
    if _SEPARATOR in key:
        return value
    return json.dumps({**json.loads(value), "applied": {}}).encode()
