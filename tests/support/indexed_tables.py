"""Tables whose metadata table has indexes, written by real Hudi, and what Hudi reads in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.judged import savepoint
from support.merge_on_read import CLEANED, Moment, interrupt, moment_of
from support.real_hudi import RealTable, Row, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import SavepointCreated

if TYPE_CHECKING:
    from support.hudi_records import RealHudi

INDEXED: Final = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.parquet.small.file.limit": "0",
}


@dataclass(frozen=True)
class IndexedHistory:
    """A table with a record index and column stats, and the moment to go back to."""

    table: RealTable
    moment: Moment


def write(table: RealTable, data: list[Row], more: Mapping[str, str] | None = None) -> None:
    """Write with the record index, as all writes of such a table."""
    table.write(data, more={**INDEXED, **(more or {})})


def write_indexed(
    hudi: RealHudi,
    path: Path,
    version: int,
    *,
    merge_on_read: bool,
    more: Mapping[str, str] | None = None,
) -> IndexedHistory:
    """Three writes and a savepoint; since then updates, new keys, a partition, cleans, a dead one.

    The keys 20 to 23 are new since.
    """
    table = RealTable(hudi, path, version, metadata_table=True, merge_on_read=merge_on_read)
    given = dict(more or {})
    write(table, rows(range(8), "first", 1), given)
    write(table, rows(range(4), "second", 2), given)
    write(table, rows(range(6), "third", 3), given)
    moment = moment_of(table)
    assert isinstance(savepoint(table, moment.instant, ThreadMap()), SavepointCreated)
    write(table, rows(range(5), "fourth", 4), given)
    write(table, [(i, "p2", 5, "fifth") for i in (20, 21, 22, 23)], given)
    write(table, rows(range(2), "sixth", 6), given | CLEANED)
    write(table, [(7, "p0", 7, "moved"), (20, "p2", 7, "seventh")], given | CLEANED)
    write(table, [(1, "p1", 8, "in flight"), (30, "p1", 8, "in flight")], given)
    interrupt(table)
    return IndexedHistory(table, moment)


def read(table: RealTable, where: str, *, by_index: bool) -> list[Row]:
    """Rows by a condition, with the metadata table and its indexes or without."""
    use = str(by_index).lower()
    options = {"hoodie.metadata.enable": use, "hoodie.enable.data.skipping": use}
    return table.read(more=options, where=where)


CONDITIONS: Final = (
    "true",
    "id = 1",
    "id in (7, 20, 30)",
    "ts = 3",
    "ts > 3",
    "v = 'second'",
    "p = 'p2'",
)


def check_reads(table: RealTable, expected: list[Row]) -> None:
    """Check that every condition finds the same with and without the indexes."""
    assert read(table, "true", by_index=False) == expected
    for where in CONDITIONS:
        found = read(table, where, by_index=True)
        assert found == read(table, where, by_index=False), where


def listed(table: RealTable) -> dict[str, set[str]]:
    """The files that the metadata table lists, by partition."""
    on = {"hoodie.metadata.enable": "true"}
    names = [str(row[0]) for row in table.call("show_metadata_table_partitions", on)]
    files = {name: table.call("show_metadata_table_files", on, partition=name) for name in names}
    return {name: {str(row[0]) for row in found} for name, found in files.items()}


def on_disk(table: RealTable) -> dict[str, set[str]]:
    """The files that are there."""
    return {
        folder.name: {
            file.name
            for file in folder.iterdir()
            if file.suffix != ".crc" and not file.name.startswith(".hoodie")
        }
        for folder in table.path.iterdir()
        if folder.is_dir() and folder.name != ".hoodie"
    }


def check_listing(table: RealTable) -> None:
    """Check that it lists exactly what is there; what is empty may be missing.

    Hudi's own `validate_metadata_table_files` reports nothing of a data file that was removed.
    """
    there = {name: files for name, files in on_disk(table).items() if files}
    assert {name: files for name, files in listed(table).items() if files} == there


def partitions(table: RealTable) -> set[str]:
    """The partitions that the table declares."""
    key = "hoodie.table.metadata.partitions="
    text = (table.path / ".hoodie/hoodie.properties").read_text()
    lines = [line[len(key) :] for line in text.splitlines() if line.startswith(key)]
    return {name for line in lines for name in line.split(",") if name}
