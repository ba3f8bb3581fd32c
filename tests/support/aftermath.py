"""What a table of real Hudi shows to every kind of query, and what it takes after a restore."""

from __future__ import annotations

from typing import Final

from support.indexed_tables import check_listing
from support.judged import savepoint_files
from support.merge_on_read import CLEANED, CLUSTERED, COMPACTED, loaded
from support.real_hudi import RealTable, Row
from tidegate.hudi.instant import Layout
from tidegate.hudi.properties import METADATA_PARTITIONS

BEGINNING: Final = "000"
ARCHIVED: Final = CLEANED | {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
_HISTORIES: Final = (".hoodie/timeline/history", ".hoodie/archived", ".hoodie/history")


def starts(table: RealTable) -> list[str]:
    """Where incremental queries of a table can begin: before its first commit, and at each.

    A commit's completion, from version 8 on: Hudi compares that.
    """
    now = loaded(table)
    if now.properties.layout is Layout.ONE:
        return [BEGINNING, *(write.timestamp for write in now.timeline.completed_writes)]
    return [BEGINNING, *(write.completion or "" for write in now.timeline.completed_writes)]


def incremental(table: RealTable, since: str) -> list[Row]:
    """The rows that changed after a time, as an incremental query gives them."""
    return table.read("incremental", {"hoodie.datasource.read.begin.instanttime": since})


def shown(table: RealTable, since: list[str]) -> dict[str, list[Row]]:
    """The rows of a snapshot, of the base files alone, and of the changes after each of times."""
    found = {f"changed after {instant}": incremental(table, instant) for instant in since}
    return found | {query: table.read(query) for query in ("snapshot", "read_optimized")}


def written_on(table: RealTable, savepoint: str, ts: int) -> dict[str, list[Row]]:
    """What it shows after an upsert, a compaction, a clean, an archiving and a savepoint.

    Checks that commits were archived, which Hudi does not do from a savepoint on: it is deleted.
    And that a metadata table, which the first write builds again if need be, lists what is there.
    """
    first = loaded(table).timeline.completed_writes[0].timestamp
    rewritten = COMPACTED if table.merge_on_read else CLUSTERED
    table.write([(0, "p0", ts, "upserted"), (90, "p1", ts, "upserted")])
    table.write([(1, "p1", ts + 1, "rewritten")], more=rewritten)
    after = starts(table)[-1:]
    table.write([(0, "p0", ts + 2, "cleaned")], more=CLEANED)
    changed = incremental(table, after[0])
    assert changed, "an incremental query finds what was written last"
    table.call("delete_savepoint", instant_time=savepoint)
    for more in range(3, 7):
        table.write([(more, f"p{more % 2}", ts + more, "archived")], more=ARCHIVED)
    left = {write.timestamp for write in loaded(table).timeline.writes}
    assert first not in left, "nothing was archived"
    assert any(any(p.iterdir()) for h in _HISTORIES if (p := table.path / h).is_dir())
    if table.metadata_table:
        assert METADATA_PARTITIONS[0] in loaded(table).properties.values
        check_listing(table)
    last = loaded(table).timeline.completed_writes[-1].timestamp
    table.call("create_savepoint", commit_time=last)
    # Hudi lists an emptied partition, too, whose folder its clean removed
    kept = {path: names for path, names in savepoint_files(table).items() if names}
    present = {path: {f.name for f in (table.path / path).iterdir()} for path in kept}
    assert all(names <= present[path] for path, names in kept.items())
    assert any(kept.values())
    # how far back an incremental query reaches depends on how much is archived, and Hudi's own
    # restore leaves other instants to archive: so the last write is asked for
    latest = incremental(table, starts(table)[-2])
    assert latest, "an incremental query finds the last write"
    return {"changed before": changed, "changed last": latest} | shown(table, [])
