"""For a replay of some tables: locate their partitions, and count records by table. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tidegate.errors import ConfigError
from tidegate.events import table_identity
from tidegate.events.keys import partition_of
from tidegate.ops.replay.plan import GroupReplay, OffsetReset, RecordCounts
from tidegate.runtime.bus import Partition, Record


def locate_tables(names: Iterable[str], partitions: int, only: int | None) -> dict[str, int]:
    """The tables' identities, and the partition number of each.

    Args:
        names: As typed by a person.
        partitions: How many partitions a topic has.
        only: The selected partition number; None: any.

    Raises:
        ConfigError: a name is not a table's, or its table is on another partition.
    """
    try:
        placed = {name: partition_of(name, partitions) for name in map(table_identity, names)}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for table, number in placed.items():
        if only not in (None, number):
            raise ConfigError(f"{table} is on partition {number}, not on {only}")
    return placed


def count_records(plan: GroupReplay, records: Iterable[Record]) -> GroupReplay:
    """Count the records that would be read again by table, from their keys alone.

    A partition without records of the selected tables needs no reset, unless the service would
    refuse to start from its offset.

    Args:
        plan: The plan, with the selected tables.
        records: The records in the spans of the plan's resets.
    """
    found: dict[Partition, Counter[str | None]] = defaultdict(Counter)
    for record in records:
        found[record.partition][_table(record)] += 1
    selected = plan.tables or {}
    resets = (replace(r, counts=_counts(found[r.partition], selected)) for r in plan.resets)
    return replace(plan, resets=tuple(reset for reset in resets if _is_needed(reset)))


def tables_found(records: Iterable[Record], tables: Collection[str]) -> set[str]:
    """The tables that occur among the records."""
    left = set(tables)
    for record in records:
        left.discard(_table(record) or "")
        if not left:
            break
    return set(tables) - left


def _counts(found: Mapping[str | None, int], selected: Collection[str]) -> RecordCounts:
    others = frozenset(table for table in found if table is not None and table not in selected)
    by_table = {table: found[table] for table in selected if table in found}
    return RecordCounts(by_table, sum(found.values()) - sum(by_table.values()), others)


def _is_needed(reset: OffsetReset) -> bool:
    return bool(reset.fault or (reset.counts and reset.counts.by_table))


def _table(record: Record) -> str | None:
    """The table named by the key; None if it is not a table's name."""
    try:
        name = (record.key or b"").decode()
        return name if table_identity(name) == name else None
    except ValueError:
        return None
