"""A replay for some tables: on which partitions they lie, and whose the records there are. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tidegate.errors import ConfigError
from tidegate.events import table_identity
from tidegate.replay.keys import partition_of
from tidegate.replay.plan import GroupReplay, Move, Share
from tidegate.runtime.bus import Partition, Record


def places_of(names: Iterable[str], partitions: int, only: int | None) -> dict[str, int]:
    """The tables' identities, and the partition number of each.

    Args:
        names: As somebody typed them.
        partitions: How many partitions a topic has.
        only: The one partition number that is meant; None: any.

    Raises:
        ConfigError: a name is none, or its table does not lie on that partition.
    """
    try:
        placed = {each: partition_of(each, partitions) for each in map(table_identity, names)}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for table, number in placed.items():
        if only not in (None, number):
            raise ConfigError(f"{table} lies on partition {number}, not on {only}")
    return placed


def shared_out(plan: GroupReplay, records: Iterable[Record]) -> GroupReplay:
    """Count whose records would be read again, by their keys alone.

    A partition with none of these tables stays where it is, unless the service would not start.

    Args:
        plan: The plan, with the tables that are meant.
        records: Those at the moves' offsets.
    """
    found: dict[Partition, Counter[str | None]] = defaultdict(Counter)
    for record in records:
        found[record.partition][_table(record)] += 1
    asked = plan.tables or {}
    moves = (replace(m, share=_share(found[m.partition], asked)) for m in plan.moves)
    return replace(plan, moves=tuple(each for each in moves if _matters(each)))


def tables_among(records: Iterable[Record], tables: Collection[str]) -> set[str]:
    """Which of these tables have a record here."""
    left = set(tables)
    for record in records:
        left.discard(_table(record) or "")
        if not left:
            break
    return set(tables) - left


def _share(found: Mapping[str | None, int], asked: Collection[str]) -> Share:
    others = frozenset(table for table in found if table is not None and table not in asked)
    of_tables = {table: found[table] for table in asked if table in found}
    return Share(of_tables, sum(found.values()) - sum(of_tables.values()), others)


def _matters(move: Move) -> bool:
    return bool(move.fault or (move.share and move.share.of_tables))


def _table(record: Record) -> str | None:
    """The table that a key names; None: no event can lie under it."""
    try:
        name = (record.key or b"").decode()
        return name if table_identity(name) == name else None
    except ValueError:
        return None
