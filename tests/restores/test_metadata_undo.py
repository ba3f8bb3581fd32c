"""The undone parts of a metadata table, and every reason to drop it instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    end_of,
    four_commits,
    merge_on_read,
    restore_request,
    savepoint_request,
    ticking,
    warehouse_over,
)
from support.metadata_tables import FIRST, MetadataTable
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, RestoreCompleted
from tidegate.hudi import Action, Instant, InstantInfo, InstantState, RollbackPlan
from tidegate.restores import LivenessSettings, Restorer, plan_restore
from tidegate.savepoints import SavepointWriter

BOTH = ("files", "record_index")


def indexed(path: Path) -> tuple[HandMade, MetadataTable]:
    """Four commits, all of them in both partitions, and a clean at 5; a savepoint at 2."""
    table = four_commits(path / "orders", 9)
    metadata = MetadataTable(table).create(*BOTH)
    for minute in (1, 2, 3, 4):
        metadata.delta(at(minute), BOTH)
    table.clean(at(5), at(2))
    metadata.delta(at(5))
    save(table)
    return table, metadata


def save(table: HandMade) -> None:
    writer = SavepointWriter(warehouse_over(table.path.parent), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))


def restore(table: HandMade) -> Sequence[Outcome]:
    settings = LivenessSettings(watch=timedelta(0))
    warehouse = warehouse_over(table.path.parent)
    restorer = Restorer(warehouse, ThreadMap(threads=1), ticking(), settings)
    return list(restorer.execute(restore_request(table, at(2))))


def said_of(table: HandMade) -> str:
    """What becomes of the metadata table; the plan and the outcome say the same."""
    planned = plan_restore(warehouse_over(table.path.parent), table.location, at(2))
    *_, completed = restore(table)
    assert isinstance(completed, RestoreCompleted), completed
    assert completed.metadata_table is not None
    assert planned.metadata_table == completed.metadata_table
    return completed.metadata_table


def declared(table: HandMade) -> str | None:
    text = (table.path / ".hoodie/hoodie.properties").read_text()
    key = "hoodie.table.metadata.partitions="
    return next((x[len(key) :] for x in text.splitlines() if x.startswith(key)), None)


def of(names: set[str], *instants: str) -> set[str]:
    return {name for name in names if any(instant in name for instant in instants)}


def test_the_commits_that_are_rolled_back_are_undone_in_it_and_the_clean_stays(
    tmp_path: Path,
) -> None:
    table, metadata = indexed(tmp_path)
    before = metadata.names()
    gone = of(before, at(3), at(4))
    assert len(gone) == 2 * (3 + 2)

    said = said_of(table)

    assert said == (
        "kept: the rolled-back writes are undone in it, too. It has: files, record_index"
    )
    assert metadata.names() == before - gone
    assert declared(table) == "files,record_index"
    left = {p.name for p in (table.path / ".hoodie/.tidegate/restorer").iterdir()}
    assert not [name for name in left if name.startswith("metadata")]


def test_of_a_merge_on_read_table_too(tmp_path: Path) -> None:
    table = merge_on_read(tmp_path / "orders", 9)
    metadata = MetadataTable(table).create(*BOTH)
    for minute in (1, 2, 3, 4, 5, 7, 9):
        metadata.delta(at(minute), BOTH)
    save(table)
    before = metadata.names()

    assert said_of(table).startswith("kept: the rolled-back")
    assert metadata.names() == before - of(before, at(3), at(4), at(5), at(7), at(9))


def test_a_partition_that_was_built_after_the_savepoint_is_dropped_alone(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    metadata = MetadataTable(table).create("files")
    for minute in (1, 2, 3):
        metadata.delta(at(minute))
    metadata.build("record_index", FIRST[:-1] + "1", f"{at(3)[:12]}45000")
    metadata.declare(BOTH)
    metadata.delta(at(4), BOTH)
    save(table)

    said = said_of(table)

    assert said.startswith("kept: ")
    assert said.endswith(
        "It has: files. Dropped, because built or changed since the savepoint: record_index"
    )
    assert declared(table) == "files"
    assert {p.name for p in metadata.path.iterdir()} == {".hoodie", "files"}


def test_what_was_built_since_is_dropped_if_it_was_compacted_too(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    metadata = MetadataTable(table).create("files")
    for minute in (1, 2, 3, 4):
        metadata.delta(at(minute))
    metadata.build("record_index", FIRST[:-1] + "1", end_of(at(4)))
    metadata.compact(at(5), ["record_index"])
    for file in metadata.path.glob(f"record_index/*{FIRST[:-1]}1*"):
        file.unlink()
    metadata.declare(BOTH)
    save(table)

    assert said_of(table).endswith("changed since the savepoint: record_index")


def test_a_compaction_that_merged_what_is_rolled_back_goes_too(tmp_path: Path) -> None:
    table, metadata = indexed(tmp_path)
    before = metadata.names()
    metadata.compact(at(6), BOTH)

    assert said_of(table).startswith("kept: the rolled-back")
    assert metadata.names() == before - of(before, at(3), at(4))


def test_a_compaction_on_top_of_such_a_one_goes_too(tmp_path: Path) -> None:
    table, metadata = indexed(tmp_path)
    before = metadata.names()
    metadata.compact(at(6))
    metadata.schedule(at(7), {"files": [f"files-0000-0_0-1-2_{at(6)}.hfile"]})
    metadata.base(at(7), "files")
    done = Instant(at(7), Action.COMMIT, InstantState.COMPLETED, end_of(at(7)))
    metadata.table.put(done, metadata.table.metadata("HoodieCommitMetadata", {}))

    assert said_of(table).startswith("kept: the rolled-back")
    assert metadata.names() == before - of(before, at(3), at(4))


def test_a_compaction_that_did_not_complete_goes(tmp_path: Path) -> None:
    table, metadata = indexed(tmp_path)
    before = metadata.names()
    metadata.schedule(at(6), {"files": []})
    metadata.base(at(6), "files")

    assert said_of(table).startswith("kept: the rolled-back")
    assert metadata.names() == before - of(before, at(3), at(4))


def test_a_compaction_of_what_stays_stays(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    metadata = MetadataTable(table).create("files")
    for minute in (1, 2):
        metadata.delta(at(minute))
    late = f"{at(2)[:12]}40000"
    metadata.compact(late)
    for minute in (3, 4):
        metadata.delta(at(minute))
    save(table)
    before = metadata.names()

    assert said_of(table).startswith("kept: the rolled-back")
    assert metadata.names() == before - of(before, at(3), at(4))


def test_a_write_that_died_goes_with_what_it_had_written_of_it(tmp_path: Path) -> None:
    table, metadata = indexed(tmp_path)
    before = metadata.names()
    table.begin(at(6))
    metadata.table.put(Instant(at(6), Action.DELTA_COMMIT, InstantState.REQUESTED))
    metadata.log(at(6), "files")
    beat = metadata.path / ".hoodie/.heartbeat" / at(6)
    beat.parent.mkdir()
    beat.touch()

    assert said_of(table).startswith("kept: the rolled-back")
    assert metadata.names() == before - of(before, at(3), at(4))


def test_what_a_rollback_did_that_the_restore_removes_goes(tmp_path: Path) -> None:
    table, metadata = indexed(tmp_path)
    before = metadata.names()
    for state in InstantState:
        completion = end_of(at(6)) if state is InstantState.COMPLETED else None
        table.put(Instant(at(6), Action.ROLLBACK, state, completion), _no_plan(state))
    metadata.delta(at(6))

    assert said_of(table).startswith("kept: the rolled-back")
    assert metadata.names() == before - of(before, at(3), at(4))


def _no_plan(state: InstantState) -> bytes:
    plan = RollbackPlan(InstantInfo(at(9), "commit"), ())
    return plan.encode() if state is InstantState.REQUESTED else b""


Change = Callable[[HandMade, MetadataTable], object]


def misses_a_commit(_table: HandMade, metadata: MetadataTable) -> None:
    for file in metadata.table.timeline.glob(f"{at(3)}*"):
        file.unlink()
    for file in metadata.path.glob(f"*/*{at(3)}*"):
        file.unlink()


def misses_the_savepoint(_table: HandMade, metadata: MetadataTable) -> None:
    for file in metadata.table.timeline.glob(f"{at(2)}*"):
        file.unlink()


def rebuilt_since(_table: HandMade, metadata: MetadataTable) -> None:
    for file in metadata.table.timeline.glob(f"{FIRST}_*"):
        file.rename(file.with_name(f"{FIRST}_{at(5)}.deltacommit"))


def of_an_unknown_time(_table: HandMade, metadata: MetadataTable) -> None:
    for file in metadata.table.timeline.glob(f"{FIRST}*"):
        file.unlink()


def lost_its_base(_table: HandMade, metadata: MetadataTable) -> None:
    metadata.compact(at(6))
    for file in metadata.path.glob(f"files/*{FIRST}*"):
        file.unlink()


def lost_a_log_file(_table: HandMade, metadata: MetadataTable) -> None:
    for file in metadata.path.glob(f"files/*{at(1)}*"):
        file.unlink()


def archived_a_commit(_table: HandMade, metadata: MetadataTable) -> None:
    metadata.compact(at(6))
    for file in metadata.table.timeline.glob(f"{at(1)}*"):
        file.unlink()


def lost_a_compacted_base(_table: HandMade, metadata: MetadataTable) -> None:
    late = f"{at(2)[:12]}40000"
    names = {"files": [f".files-0000-0_{at(1)}.log.1_0-1-2"]}
    metadata.schedule(late, names)
    stat = {"fileId": "files-0000-0", "path": f"files/files-0000-0_0-1-2_{late}.hfile"}
    record = {"partitionToWriteStats": {"files": [stat]}}
    done = Instant(late, Action.COMMIT, InstantState.COMPLETED, at(3))
    metadata.table.put(done, metadata.table.metadata("HoodieCommitMetadata", record))


def stranger(_table: HandMade, metadata: MetadataTable) -> None:
    metadata.delta(at(7))


def pending_clean(_table: HandMade, metadata: MetadataTable) -> None:
    metadata.table.put(Instant(at(6), Action.CLEAN, InstantState.INFLIGHT))


def log_compaction(_table: HandMade, metadata: MetadataTable) -> None:
    metadata.table.put(Instant(at(2), Action.LOG_COMPACTION, InstantState.REQUESTED))


def restored(_table: HandMade, metadata: MetadataTable) -> None:
    done = Instant(at(6), Action.RESTORE, InstantState.COMPLETED, end_of(at(6)))
    metadata.table.put(done)


def indexed_since(table: HandMade, _metadata: MetadataTable) -> None:
    table.put(Instant(at(1), Action.INDEXING, InstantState.COMPLETED, end_of(at(6))))


def pending_of_a_clean(table: HandMade, metadata: MetadataTable) -> None:
    table.put(Instant(at(6), Action.CLEAN, InstantState.INFLIGHT))
    metadata.delta(at(6))


def no_plan(_table: HandMade, metadata: MetadataTable) -> None:
    metadata.compact(at(6))
    (metadata.table.timeline / f"{at(6)}.compaction.requested").unlink()


def of_no_commit(_table: HandMade, metadata: MetadataTable) -> None:
    metadata.log(at(8), "files")


def strange_name(_table: HandMade, metadata: MetadataTable) -> None:
    (metadata.path / "files/what").touch()


def strange_folder(_table: HandMade, metadata: MetadataTable) -> None:
    (metadata.path / "column_stats").mkdir()


def nested(_table: HandMade, metadata: MetadataTable) -> None:
    (metadata.path / "files/below").mkdir()


def in_building(table: HandMade, _metadata: MetadataTable) -> None:
    with (table.path / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.table.metadata.partitions.inflight=column_stats\n")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(misses_a_commit, f"commit {at(3)} is not", id="no commit that goes"),
        pytest.param(misses_the_savepoint, f"commit {at(2)} is not", id="no savepoint"),
        pytest.param(rebuilt_since, "its list of files", id="built after the savepoint"),
        pytest.param(of_an_unknown_time, "its list of files", id="built at an unknown time"),
        pytest.param(lost_its_base, "its list of files", id="its base file is cleaned"),
        pytest.param(lost_a_log_file, "its list of files", id="a log file is missing"),
        pytest.param(archived_a_commit, "its list of files", id="a log file of an archived commit"),
        pytest.param(lost_a_compacted_base, "its list of files", id="a base file is missing"),
        pytest.param(stranger, f"its commit {at(7)} is not one", id="a commit of nothing"),
        pytest.param(pending_of_a_clean, f"its commit {at(6)} is not one", id="a pending clean's"),
        pytest.param(pending_clean, f"its {at(6)}.clean can't", id="a clean of it is pending"),
        pytest.param(log_compaction, "it has log compactions", id="a log compaction"),
        pytest.param(restored, f"its {at(6)}.restore can't", id="a restore of it"),
        pytest.param(indexed_since, f"indexing {at(1)} completed", id="indexed since"),
        pytest.param(no_plan, "the plan of its compaction", id="a compaction without plan"),
        pytest.param(of_no_commit, "belongs to no commit", id="a file of no commit"),
        pytest.param(strange_name, "its file what is not", id="a strange name"),
        pytest.param(strange_folder, "its folders differ", id="an undeclared partition"),
        pytest.param(nested, "has folders or links", id="a folder in a partition"),
        pytest.param(in_building, "are being built", id="a partition is being built"),
    ],
)
def test_it_is_dropped_where_undoing_may_be_wrong(tmp_path: Path, change: Change, why: str) -> None:
    table, metadata = indexed(tmp_path)
    change(table, metadata)

    said = said_of(table)

    assert said.startswith("dropped: ")
    assert why in said
    assert not metadata.path.exists()
    assert declared(table) is None


def test_an_index_that_lost_a_log_file_is_dropped_alone(tmp_path: Path) -> None:
    table, metadata = indexed(tmp_path)
    for file in metadata.path.glob(f"record_index/*{at(1)}*"):
        file.unlink()

    assert said_of(table).endswith("changed since the savepoint: record_index")
    assert declared(table) == "files"


def test_of_table_version_6_it_is_dropped(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 6)
    MetadataTable(table).create(*BOTH)
    save(table)

    assert said_of(table).startswith(
        "dropped: rolled-back writes can be undone in it only from table"
    )


def test_a_metadata_table_of_another_layout_is_dropped(tmp_path: Path) -> None:
    table, metadata = indexed(tmp_path)
    properties = metadata.path / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE"))

    assert "it is not of table version 8 or 9" in said_of(table)
