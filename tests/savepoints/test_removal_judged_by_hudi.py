"""A savepoint that we removed, and one that Hudi removed on a byte copy: the same ever after."""

from __future__ import annotations

import pytest

from support.hudi_records import RealHudi, recorded_time
from support.hudi_tables import data_files, warehouse_over
from support.indexed_tables import read
from support.judged import asked, carried_out, savepoint, timeline_of
from support.real_hudi import RealTable, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import SavepointCreated, SavepointRemovalRequested, SavepointRemoved
from tidegate.hudi_reader.table import load_table
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.removal import plan_freeing
from tidegate.storage import Storage

CLEANING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}


def commits(table: RealTable) -> list[str]:
    return [write.timestamp for write in load_table(Storage(), table.location).timeline.writes]


def remove(table: RealTable, instant: str) -> SavepointRemoved:
    fields = asked(table) | {"reason": "no longer needed", "instant": instant}
    command = SavepointRemovalRequested.model_validate(fields)
    with recorded_time(table.hudi, table.path) as clock:
        warehouse = warehouse_over(table.path.parent)
        (outcome,) = carried_out(SavepointWriter(warehouse, ThreadMap(), clock), command)
    assert isinstance(outcome, SavepointRemoved)
    return outcome


@pytest.mark.live("version 8, made by Hudi")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param((9, True, False), id="version 9 with a metadata table"),
        pytest.param((6, True, True), id="version 6, made by Hudi"),
        pytest.param((6, False, False), id="version 6"),
        pytest.param((8, True, True), id="version 8, made by Hudi"),
    ],
)
def test_a_removed_savepoint_is_gone_for_hudi_and_its_cleaner_removes_the_files(
    hudi: RealHudi, kind: tuple[int, bool, bool]
) -> None:
    version, metadata_table, by_hudi = kind
    table = RealTable(hudi, hudi.root / "ours/orders", version, metadata_table)
    table.write(rows(range(6), "first", 1), "insert")
    first = commits(table)[0]
    if by_hudi:
        table.call("create_savepoint", commit_time=first)
    else:
        assert isinstance(savepoint(table, first, ThreadMap()), SavepointCreated)
    for number in (2, 3):
        table.write(rows(range(6), f"{number}", number), more=CLEANING)
    assert table.savepoints() == [first]
    kept = {name for name in data_files(table.path) if first in name}
    assert kept
    twin = table.copy(hudi.root / "theirs/orders")
    planned = plan_freeing(warehouse_over(hudi.root), table.location, first, ThreadMap())
    assert set(planned["freed"]) == kept

    remove(table, first)
    twin.call("delete_savepoint", instant_time=first)

    assert timeline_of(table) == timeline_of(twin)
    assert table.savepoints() == []
    for number in (4, 5):
        for copy in (table, twin):
            copy.write(rows(range(6), f"{number}", number), more=CLEANING)
    assert not kept & data_files(table.path)
    assert len(data_files(table.path)) == len(data_files(twin.path))
    assert table.read() == twin.read() == sorted(rows(range(6), "5", 5))
    if metadata_table:
        # what the metadata table lists is what is there
        assert (table.path / ".hoodie/metadata").is_dir()
        assert read(table, "true", by_index=False) == table.read()
