"""The metadata table is dropped, and the outcomes say so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from support.hudi_tables import (
    HandMade,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    ticking,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, RestoreCompleted, RestorePlanned, RestoreStarted
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter

INDEXED = {"hoodie__table__metadata__partitions": "record_index,files"}


def restore(table: HandMade, instant: str, **fields: object) -> Sequence[Outcome]:
    warehouse = warehouse_over(table.path.parent)
    writer = SavepointWriter(warehouse, ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, instant)))
    settings = RestoreSettings(watch_seconds=0)
    restorer = Restorer(warehouse, ThreadMap(threads=1), ticking(), settings)
    return list(restorer.execute(restore_request(table, instant, **fields)))


def indexed(table: HandMade) -> HandMade:
    (table.path / ".hoodie/metadata/files").mkdir(parents=True)
    return table


def is_kept(table: HandMade) -> bool:
    properties = (table.path / ".hoodie/hoodie.properties").read_text()
    return (table.path / ".hoodie/metadata/files").exists() and "record_index,files" in properties


def test_if_it_is_dropped_every_outcome_says_so(tmp_path: Path) -> None:
    table = indexed(four_commits(tmp_path / "orders", 9, **INDEXED))

    (planned,) = restore(table, at(2), plan_only=True)
    assert is_kept(table)
    started, completed = restore(table, at(2))

    message = "dropped. Readers list files until Hudi's next write builds it again, with:"
    message += " files, record_index"
    assert isinstance(planned, RestorePlanned)
    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    fates = {planned.metadata_table, started.metadata_table, completed.metadata_table}
    assert fates == {message}
    assert not is_kept(table)


def test_it_is_kept_where_nothing_is_rolled_back(tmp_path: Path) -> None:
    table = indexed(four_commits(tmp_path / "orders", 9, **INDEXED))

    *_, completed = restore(table, at(4))

    assert isinstance(completed, RestoreCompleted)
    assert completed.metadata_table == "kept: nothing is rolled back"
    assert is_kept(table)


def test_it_is_dropped_where_a_write_had_begun(tmp_path: Path) -> None:
    """Hudi announces a write to it before the write completes."""
    table = indexed(four_commits(tmp_path / "orders", 9, **INDEXED))
    table.put(Instant(at(20), Action.COMMIT, InstantState.REQUESTED))
    table.put(Instant(at(20), Action.COMMIT, InstantState.INFLIGHT))

    restore(table, at(4))

    assert not is_kept(table)


def test_of_a_table_without_one_no_outcome_says_anything(tmp_path: Path) -> None:
    *_, completed = restore(four_commits(tmp_path / "orders", 9), at(2))

    assert isinstance(completed, RestoreCompleted)
    assert completed.metadata_table is None
