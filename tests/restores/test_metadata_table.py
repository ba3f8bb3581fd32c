"""The metadata table is left alone where nothing is rolled back in it; an outcome says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from support.hudi_tables import (
    HandMade,
    at,
    four_commits,
    merge_on_read,
    restore_request,
    savepoint_request,
    ticking,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, RestoreCompleted, RestorePlanned, RestoreStarted
from tidegate.hudi import Action, Instant, InstantState
from tidegate.restores import LivenessSettings, Restorer
from tidegate.savepoints import SavepointWriter

INDEXED = {"hoodie__table__metadata__partitions": "record_index,files"}


def restore(table: HandMade, instant: str, **fields: object) -> Sequence[Outcome]:
    warehouse = warehouse_over(table.path.parent)
    writer = SavepointWriter(warehouse, ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, instant)))
    settings = LivenessSettings(watch=timedelta(0))
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
    started, completed = restore(table, at(2))

    said = "dropped: it is declared but missing. Readers list files until Hudi's next write"
    said += " builds it again, with: files, record_index"
    assert isinstance(planned, RestorePlanned)
    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    assert {planned.metadata_table, started.metadata_table, completed.metadata_table} == {said}
    assert not is_kept(table)


def test_it_is_kept_where_only_requests_are_rolled_back(tmp_path: Path) -> None:
    table = indexed(merge_on_read(tmp_path / "orders", 9, **INDEXED))
    table.delta(at(20), {"p2": "g2"}, at(1))
    table.schedule(at(22), {"p2": "g2"})
    (table.timeline / f"{at(8)}.deltacommit.inflight").unlink()

    *_, completed = restore(table, at(20))

    assert isinstance(completed, RestoreCompleted)
    assert [instant.instant for instant in completed.instants] == [at(8), at(22)]
    assert completed.metadata_table == "kept: it contains nothing that is rolled back"
    assert is_kept(table)


def test_it_is_dropped_where_a_write_had_begun(tmp_path: Path) -> None:
    """A write is announced to it before it completes: what died in between may be in it."""
    table = indexed(four_commits(tmp_path / "orders", 9, **INDEXED))
    table.put(Instant(at(20), Action.COMMIT, InstantState.REQUESTED))
    table.put(Instant(at(20), Action.COMMIT, InstantState.INFLIGHT))

    restore(table, at(4))

    assert not is_kept(table)


def test_of_a_table_without_one_nothing_is_said(tmp_path: Path) -> None:
    *_, completed = restore(four_commits(tmp_path / "orders", 9), at(2))

    assert isinstance(completed, RestoreCompleted)
    assert completed.metadata_table is None
