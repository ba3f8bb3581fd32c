"""Restores of merge-on-read tables, made by hand: without a JVM, and each case on its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    data_files,
    merge_on_read,
    savepoint_request,
    snapshot,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.savepoint_and_restore import create_savepoint, restore
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, RestoreRejected, SavepointCreated, SavepointRejected
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.rollback_block import RollbackBlock
from tidegate.restores.preparation import plan_restore
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.refusal import Refused

VERSIONS = pytest.mark.parametrize("version", [9, 8, 6])


def savepointed(root: Path, version: int, instant: str = at(2)) -> HandMade:
    table = merge_on_read(root / "orders", version)
    keep(table, instant)
    return table


def keep(table: HandMade, instant: str) -> None:
    outcome = create_savepoint(table, instant)
    assert isinstance(outcome, SavepointCreated), outcome


def refusal(table: HandMade, instant: str = at(2)) -> tuple[str, str]:
    """The reason code and the message; nothing may have changed."""
    before = snapshot(table.path)
    outcome = restore(table, instant)
    assert isinstance(outcome, RestoreRejected), outcome
    assert snapshot(table.path) == before
    return outcome.reason, outcome.message


def blocks(table: HandMade) -> dict[str, str]:
    """The log files that are rollback blocks, each with the instant that it undoes."""
    read = {
        name: RollbackBlock.decode((table.path / name).read_bytes())
        for name in data_files(table.path)
    }
    return {name: block.target for name, block in read.items() if block is not None}


@pytest.mark.parametrize("version", [9, 8])
def test_from_version_8_on_log_files_go_with_the_commits_that_wrote_them(
    tmp_path: Path, version: int
) -> None:
    table = savepointed(tmp_path, version)

    assert isinstance(restore(table), RestoreCompleted)

    bases = {f"p{n}/g{n}_0-1-2_{at(1)}.parquet" for n in range(3)}
    logs = {f"p{n}/.g{n}_{at(2)}.log.1_0-1-2" for n in range(3)}
    assert data_files(table.path) == bases | logs
    assert not blocks(table)


def test_in_version_6_log_files_stay_and_rollback_blocks_undo_them(tmp_path: Path) -> None:
    table = savepointed(tmp_path, 6)

    assert isinstance(restore(table), RestoreCompleted)

    bases = {f"p{n}/g{n}_0-1-2_{at(1)}.parquet" for n in range(3)}
    logs = {f"p{n}/.g{n}_{at(1)}.log.{v}_0-1-2" for n in range(3) for v in (1, 2)}
    undone = {f"p{n}/.g{n}_{at(1)}.log.3_0-1-2": at(3) for n in (0, 1)}
    undone |= {f"p2/.g2_{at(1)}.log.{v}_0-1-2": at(t) for v, t in ((5, 8), (6, 9), (7, 3))}
    extra = {f"p2/.g2_{at(1)}.log.{v}_0-1-2" for v in (3, 4)}
    assert data_files(table.path) == bases | logs | extra | set(undone)
    assert blocks(table) == undone


@pytest.mark.parametrize("token", ["2-20-31", "0-1-2"])
def test_a_rollback_block_is_not_written_after_change_data(tmp_path: Path, token: str) -> None:
    """Readers of the table pass over files that end in `.cdc`: the block would undo nothing."""
    table = HandMade(tmp_path / "orders", 6).create(
        hoodie__table__type="MERGE_ON_READ", hoodie__table__cdc__enabled="true"
    )
    table.delta(at(1), {"p0": "g0"}, None)
    (table.path / f"p0/.g0_{at(1)}.log.1_{token}.cdc").write_text("before and after" * 100)
    table.delta(at(2), {"p1": "g1"}, None)
    keep(table, at(2))
    table.delta(at(3), {"p0": "g0"}, at(1))

    assert isinstance(restore(table), RestoreCompleted)

    assert blocks(table) == {f"p0/.g0_{at(1)}.log.2_0-1-2": at(3)}


@VERSIONS
def test_the_timeline_ends_with_the_savepoint_and_the_restore(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path, version)

    restore(table)

    instants = {name.split(".")[0].split("_")[0] for name in timeline_names(table)}
    assert {instant for instant in instants if instant.startswith("2026030110")} == {at(1), at(2)}


@VERSIONS
def test_a_second_restore_to_the_same_savepoint_finds_its_later_log_files_gone(
    tmp_path: Path, version: int
) -> None:
    """The savepoint lists them, because they were there when it was made."""
    table = savepointed(tmp_path, version)
    restore(table)
    table.delta(at(40), {"p0": "g0"}, at(1))

    assert isinstance(restore(table, reason="again"), RestoreCompleted)


@VERSIONS
def test_a_compaction_requested_before_the_savepoint_s_commit_stays(
    tmp_path: Path, version: int
) -> None:
    table = merge_on_read(tmp_path / "orders", version)
    table.compact(at(6), {"p0": "g0", "p1": "g1"}, at(4), completed=at(30))
    keep(table, at(7))

    assert isinstance(restore(table, at(7)), RestoreCompleted)

    assert f"p0/g0_0-1-2_{at(6)}.parquet" in data_files(table.path)
    assert any(name.startswith(at(6)) and "commit" in name for name in timeline_names(table))


@VERSIONS
def test_a_pending_compaction_after_the_savepoint_goes_with_what_was_written_since(
    tmp_path: Path, version: int
) -> None:
    """Hudi leaves those log files in version 6: one day they would hide the base file before."""
    table = savepointed(tmp_path, version, at(5))

    assert isinstance(restore(table, at(5)), RestoreCompleted)

    assert not [name for name in timeline_names(table) if name.startswith(at(6))]
    named = at(6) if version == 6 else at(7)
    assert not [name for name in data_files(table.path) if named in name]


@VERSIONS
def test_a_pending_log_compaction_goes(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path, version)
    table.put(Instant(at(20), Action.LOG_COMPACTION, InstantState.REQUESTED))

    assert isinstance(restore(table), RestoreCompleted)
    assert not [name for name in timeline_names(table) if name.startswith(at(20))]


def test_an_inflight_log_compaction_of_version_6_is_refused(tmp_path: Path) -> None:
    table = savepointed(tmp_path, 6)
    table.put(Instant(at(20), Action.LOG_COMPACTION, InstantState.REQUESTED))
    table.put(Instant(at(20), Action.LOG_COMPACTION, InstantState.INFLIGHT))

    assert refusal(table)[0] == "unsupported-instant"


def test_a_writer_of_version_6_that_does_not_say_what_it_updates_is_refused(tmp_path: Path) -> None:
    """Flink's writers are like that: which slices have its log files, only Hudi's markers know."""
    table = savepointed(tmp_path, 6)
    table.put(Instant(at(20), Action.DELTA_COMMIT, InstantState.REQUESTED))
    table.put(Instant(at(20), Action.DELTA_COMMIT, InstantState.INFLIGHT))

    reason, message = refusal(table)

    assert reason == "unsupported-instant"
    assert "roll that write back with Hudi first" in message


def test_a_delta_commit_of_version_6_that_overlaps_the_savepoint_is_refused(tmp_path: Path) -> None:
    table = merge_on_read(tmp_path / "orders", 6)
    table.delta(f"{at(2)[:-3]}500", {"p2": "g2"}, at(1))
    keep(table, at(3))
    late = table.timeline / f"{at(2)[:-3]}500.deltacommit"
    late.touch()

    assert refusal(table, at(3))[0] == "unsupported-instant"


@VERSIONS
def test_a_bulk_insert_that_overlaps_the_savepoint_is_refused(tmp_path: Path, version: int) -> None:
    """On a merge-on-read table a commit counts by its request: Hudi would leave its rows."""
    table = merge_on_read(tmp_path / "orders", version)
    early = f"{at(1)[:-3]}500"
    table.commit(early, groups={"p0": "g9"}, completed=f"{at(2)[:12]}45000")
    keep(table, at(2))

    reason, message = refusal(table)

    assert reason == "unsupported-instant"
    assert "would leave its rows" in message


@pytest.mark.parametrize("version", [9, 8])
def test_log_files_named_as_before_an_upgrade_are_refused(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path, version)
    written = table.log(at(1), "g2", "p2", at(1))
    record = {"partitionToWriteStats": {"p2": [{"fileId": "g2", "path": written}]}}
    done = Instant(at(20), Action.DELTA_COMMIT, InstantState.COMPLETED, at(21))
    table.put(done, table.metadata("HoodieCommitMetadata", record))

    reason, message = refusal(table)

    assert reason == "unsupported-instant"
    assert "upgrade" in message
    # Hudi's own procedure leaves such a file, and its rows are back after the next write
    with pytest.raises(Refused, match="upgrade"):
        plan_restore(warehouse_over(tmp_path), table.location, at(2), by_hudi=True)


@VERSIONS
def test_a_log_file_of_an_unknown_form_is_refused(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path, version)
    (table.path / f"p0/.g0_{at(3)}.log.next").touch()
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), ticking())

    (outcome,) = writer.execute(savepoint_request(table, at(3)))

    assert isinstance(outcome, SavepointRejected)
    assert outcome.reason == "unreadable-table"
    assert refusal(table) == ("unreadable-table", outcome.message)


@VERSIONS
def test_a_table_with_a_consistent_hashing_index_is_refused(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path, version)
    (table.path / ".hoodie/.bucket_index/consistent_hashing_metadata").mkdir(parents=True)

    assert refusal(table)[0] == "unsupported-table"


def test_a_block_that_hudi_appended_is_not_appended_again(tmp_path: Path) -> None:
    table = savepointed(tmp_path, 6)
    there = table.path / f"p2/.g2_{at(1)}.log.5_0-1-2"
    there.write_bytes(RollbackBlock(at(8), at(20)).encode())

    restore(table)

    assert [n for n, target in blocks(table).items() if target == at(8)] == [
        f"p2/.g2_{at(1)}.log.5_0-1-2"
    ]
