"""`engine = "hudi"`: real Hudi restores, under our checks; what dies in between is recognised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession  # noqa: TC002 - stands where a reader looks

from support.hudi_records import RealHudi
from support.hudi_tables import at, four_commits, restore_request, savepoint_request, warehouse_over
from support.judged import NOW, request, savepoint
from support.real_hudi import RealTable, rows
from support.stepwise import Killed
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import FormatError, TransientError
from tidegate.events import (
    Outcome,
    RestoreCompleted,
    RestoreFailed,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.events.reasons import Reason
from tidegate.hudi.instant import Action
from tidegate.hudi_reader.table import HudiTable, load_table
from tidegate.restores import hudi_engine
from tidegate.restores.executor import Restorer
from tidegate.restores.hudi_engine import Session, failure_of, restore_by_hudi
from tidegate.restores.preparation import plan_restore
from tidegate.restores.run import RestoreRun
from tidegate.restores.settings import RestoreRule, RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import Storage
from tidegate.tables.refusal import Refused

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow]
BY_HUDI = RestoreSettings(watch_seconds=0, rules=(RestoreRule(tables="*", engine="hudi"),))


def saved(table: RealTable) -> str:
    """Save the last commit, then write two more."""
    last = load_table(Storage(), table.location).timeline.last_completed_write()
    assert last is not None
    savepoint(table, last.timestamp, ThreadMap())
    table.write(rows(range(4), "second", 2))
    table.write(rows(range(4), "third", 3))
    return last.timestamp


def carried_out(
    table: RealTable,
    command: RestoreRequested,
    engine: Session | None,
    settings: RestoreSettings = BY_HUDI,
) -> Sequence[Outcome]:
    warehouse = warehouse_over(table.path.parent)
    return list(Restorer(warehouse, ThreadMap(), NOW, settings, engine).execute(command))


def never() -> SparkSession:
    raise AssertionError("Hudi was called")


def check_restored_by_hudi(table: RealTable) -> None:
    kept = table.read()
    command = request(table, saved(table))
    engine = table.hudi.session

    started, completed = carried_out(table, command, engine)

    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    assert completed.restore_instant == started.restore_instant
    assert [instant.instant for instant in completed.instants] == [
        i.instant for i in started.instants
    ]
    assert len(completed.instants) == 2
    assert completed.files_deleted == (0 if started.files == 0 else started.files)
    assert table.read() == kept
    version = load_table(Storage(), table.location).properties.version
    assert version == table.version, "Hudi upgraded the table"
    table.write(rows(range(3), "a later write", 9))
    (again,) = carried_out(table, command, never)
    assert isinstance(again, RestoreCompleted)
    assert again.already_done
    assert table.read() != kept


def test_hudi_restores_and_keeps_its_metadata_table(live_hudi: RealHudi, tmp_path: Path) -> None:
    table = RealTable(live_hudi, tmp_path / "lake/orders", 9, metadata_table=True)
    table.write(rows(range(6), "first", 1), "insert")
    check_restored_by_hudi(table)
    assert (table.path / ".hoodie/metadata").is_dir()
    properties = load_table(Storage(), table.location).properties
    assert "files" in properties.values["hoodie.table.metadata.partitions"]


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    [(9, False, False), (9, True, True), (8, True, False), (6, True, False), (6, False, True)],
)
def test_hudi_restores_tables_of_every_kind(
    live_hudi: RealHudi, tmp_path: Path, kind: tuple[int, bool, bool]
) -> None:
    version, metadata_table, merge_on_read = kind
    where = tmp_path / "lake/orders"
    table = RealTable(live_hudi, where, version, metadata_table, merge_on_read=merge_on_read)
    table.write(rows(range(6), "first", 1), "insert")
    check_restored_by_hudi(table)


@pytest.mark.full
def test_a_bootstrapped_table_is_left_to_hudi_alone(live_hudi: RealHudi, tmp_path: Path) -> None:
    source = tmp_path / "source"
    frame = live_hudi.session().createDataFrame(
        rows(range(6), "first", 1), "id long, p string, ts long, v string"
    )
    frame.write.partitionBy("p").parquet(str(source))
    table = RealTable(live_hudi, tmp_path / "lake/orders", 9, metadata_table=False)
    table.bootstrap(source)
    kept = table.read()
    version = saved_by_hudi(table)
    command = request(table, version)
    others = RestoreSettings(watch_seconds=0, rules=(RestoreRule(tables="x.*", engine="hudi"),))
    (refused,) = carried_out(table, command, never, others)
    assert isinstance(refused, RestoreRejected)
    assert refused.reason == Reason.UNSUPPORTED_TABLE
    with pytest.raises(Refused, match="bootstrapped"):
        plan_restore(warehouse_over(table.path.parent), table.location, version)
    planned = plan_restore(warehouse_over(table.path.parent), table.location, version, by_hudi=True)
    assert len(planned.steps) == 2

    started, completed = carried_out(table, command, live_hudi.session)

    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted), completed
    assert table.read() == kept


def saved_by_hudi(table: RealTable) -> str:
    last = load_table(Storage(), table.location).timeline.last_completed_write()
    assert last is not None
    table.call("create_savepoint", commit_time=last.timestamp)
    table.write(rows(range(4), "second", 2))
    table.write(rows(range(4), "third", 3))
    return last.timestamp


def test_what_died_before_or_after_hudi_s_part_is_finished_once(
    live_hudi: RealHudi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RealTable(live_hudi, tmp_path / "lake/orders", 9, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert")
    kept = table.read()
    command = request(table, saved(table))

    def dies() -> SparkSession:
        raise Killed

    with pytest.raises(Killed):
        carried_out(table, command, dies)
    (pending,) = load_table(Storage(), table.location).timeline.pending_restores
    assert pending.action is Action.RESTORE

    by_hudi = RestoreRun.roll_back_by_hudi

    def dies_after(run: RestoreRun) -> object:
        by_hudi(run)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(RestoreRun, "roll_back_by_hudi", dies_after)
        with pytest.raises(Killed):
            carried_out(table, command, live_hudi.session)
    assert table.read() == kept

    table.write(rows(range(3), "written before anybody looked", 9))
    (completed,) = carried_out(table, command, never)

    assert isinstance(completed, RestoreCompleted)
    assert completed.restore_instant == pending.timestamp
    assert table.read() != kept, "what was written since was destroyed"


@pytest.mark.full
def test_a_write_that_began_while_hudi_restored_is_reported_and_rolled_back_by_the_next_request(
    live_hudi: RealHudi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer had looked before the restore was there, and began after Hudi's own last look."""
    table = RealTable(live_hudi, tmp_path / "lake/orders", 9, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert")
    kept = table.read()
    instant = saved(table)

    def begins_during(engine: Session, seen: HudiTable, savepoint: str) -> None:
        (restore,) = seen.timeline.pending_restores
        call(engine, seen, savepoint)
        write = int(restore.timestamp) + 1
        for name in (f"{write}.commit.requested", f"{write}.inflight"):
            (table.path / ".hoodie/timeline" / name).touch()

    call = hudi_engine._call
    with monkeypatch.context() as patched:
        patched.setattr(hudi_engine, "_call", begins_during)
        started, failed = carried_out(table, request(table, instant), live_hudi.session)

    assert isinstance(started, RestoreStarted)
    assert isinstance(failed, RestoreFailed)
    assert f"the write {int(started.restore_instant) + 1} began during it" in failed.message
    assert table.read() == kept

    started, completed = carried_out(table, request(table, instant), live_hudi.session)

    assert isinstance(started, RestoreStarted)
    assert [instant.action for instant in started.instants] == ["commit"]
    assert isinstance(completed, RestoreCompleted)
    now = load_table(Storage(), table.location).timeline
    assert [write.timestamp for write in now.writes][-1] == instant
    assert table.read() == kept


@pytest.mark.full
def test_where_a_commit_got_a_savepoint_after_the_plan_hudi_is_not_called(
    live_hudi: RealHudi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RealTable(live_hudi, tmp_path / "lake/orders", 9, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert")
    command = request(table, saved(table))
    last = load_table(Storage(), table.location).timeline.completed_writes[-1].timestamp

    def comes_between(_: RestoreRun) -> None:
        table.call("create_savepoint", commit_time=last)

    monkeypatch.setattr(RestoreRun, "drop_metadata_table", comes_between)
    shown = table.read()

    _, failed = carried_out(table, command, never)

    assert isinstance(failed, RestoreFailed)
    assert f"a savepoint of {last}, which is rolled back" in failed.message
    assert table.read() == shown


@pytest.mark.full
def test_hudi_s_own_error_is_reported(live_hudi: RealHudi, tmp_path: Path) -> None:
    table = RealTable(live_hudi, tmp_path / "lake/orders", 9, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert")
    loaded = load_table(Storage(), table.location)

    with pytest.raises(FormatError, match="no completed savepoint"):
        restore_by_hudi(live_hudi.session, loaded, "20200101000000000", "20200101000000001")


@pytest.mark.parametrize(
    ("causes", "error"),
    [
        (
            ["org.apache.hudi.exception.HoodieRollbackException: no", "java.io.IOException"],
            FormatError,
        ),
        (["org.apache.spark.SparkException: Job aborted: executor lost"], TransientError),
    ],
)
def test_what_fails_in_hudi_is_final_and_what_fails_in_spark_may_pass(
    causes: list[str], error: type[Exception]
) -> None:
    assert type(failure_of(causes)) is error


def test_a_restore_that_hudi_failed_to_do_stays_pending_and_is_resumed(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    warehouse = warehouse_over(tmp_path)
    list(SavepointWriter(warehouse, ThreadMap(), NOW).execute(savepoint_request(table, at(2))))
    command = restore_request(table, at(2))
    unwatched = RestoreSettings(watch_seconds=0)

    def fails() -> SparkSession:
        raise FormatError("Hudi could not restore it: because")

    failing = Restorer(warehouse, ThreadMap(), NOW, BY_HUDI, fails)
    started, failed = failing.execute(command)
    assert isinstance(started, RestoreStarted)
    assert isinstance(failed, RestoreFailed)
    assert "because" in failed.message

    ours = Restorer(warehouse, ThreadMap(), NOW, unwatched)
    resumed, completed = ours.execute(command)
    assert isinstance(resumed, RestoreStarted)
    assert resumed.resumed
    assert isinstance(completed, RestoreCompleted)


def test_the_guards_are_the_same_and_hudi_is_not_called(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    warehouse = warehouse_over(tmp_path)
    for instant in (at(2), at(3)):
        list(
            SavepointWriter(warehouse, ThreadMap(), NOW).execute(savepoint_request(table, instant))
        )
    restorer = Restorer(warehouse, ThreadMap(), NOW, BY_HUDI, never)

    def refusal(**fields: object) -> str:
        (outcome,) = restorer.execute(restore_request(table, **fields))  # type: ignore[arg-type]
        assert isinstance(outcome, RestoreRejected)
        return outcome.reason

    assert refusal(savepoint=at(2)) == Reason.GREATER_SAVEPOINT
    assert refusal(savepoint=at(3), expected_plan="another") == Reason.PLAN_CHANGED
    assert refusal(savepoint=at(3), seen_up_to=at(3)) == Reason.NEWER_COMMITS
    beat = table.path / f".hoodie/.heartbeat/{at(4)}"
    beat.parent.mkdir(parents=True)
    beat.touch()
    assert refusal(savepoint=at(3)) == Reason.WRITER_ALIVE


def test_a_location_that_would_end_the_quotes_is_refused(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "it's/orders", 9)
    loaded = load_table(Storage(), table.location)
    with pytest.raises(FormatError, match="can't be named in a CALL"):
        restore_by_hudi(never, loaded, at(2), at(9))


def test_the_first_rule_that_matches_decides_who_restores() -> None:
    rules = (
        RestoreRule(tables="lake.a.*", engine="tidegate"),
        RestoreRule(tables="lake.*", engine="hudi"),
    )
    settings = RestoreSettings(rules=rules)
    assert not settings.are_by_hudi("lake.a.x", "/a/x")
    assert settings.are_by_hudi("lake.b.x", "/b/x")
    assert not settings.are_by_hudi("other.b.x", "/b/x")
    assert not settings.are_by_hudi("", "/b/x")
