from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    data_files,
    four_commits,
    restore_request,
    savepoint_request,
    snapshot,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.names import STRANGE, takes_any_bytes
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import PermanentError
from tidegate.events import (
    Outcome,
    RestoreCompleted,
    RestorePlanned,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.hudi import containers
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.rollback import InstantInfo, RestoreMetadata, RestorePlanFile
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.restores.executor import Restorer
from tidegate.restores.preparation import plan_restore
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.refusal import Refused

VERSIONS = pytest.mark.parametrize("version", [9, 8, 6])
RESTORE = "20260301120100000"


def savepointed(path: Path, version: int, instant: str = at(2), **properties: str) -> HandMade:
    table = four_commits(path, version, **properties)
    keep(table, instant)
    return table


def keep(table: HandMade, instant: str) -> None:
    writer = SavepointWriter(warehouse_over(table.path.parent), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, instant)))


def run(
    table: HandMade, command: RestoreRequested, settings: RestoreSettings | None = None
) -> Sequence[Outcome]:
    clock = ticking(NOW + timedelta(minutes=1))
    restorer = Restorer(warehouse_over(table.path.parent), ThreadMap(), clock, settings)
    restorer.context = replace(restorer.context, wait=lambda _: None)
    return list(restorer.execute(command))


def refusal(table: HandMade, command: RestoreRequested) -> str:
    """The reason code; nothing around the table may have changed, and the dry run says the same."""
    before = snapshot(table.path.parent)
    (outcome,) = run(table, command)
    assert isinstance(outcome, RestoreRejected)
    assert snapshot(table.path.parent) == before
    return outcome.reason


@VERSIONS
def test_a_restore_removes_every_later_commit_and_its_files(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path / "orders", version)

    started, completed = run(table, restore_request(table, at(2)))

    assert isinstance(started, RestoreStarted)
    assert [i.instant for i in started.instants] == [at(4), at(3)]
    assert (started.files, started.bytes, started.resumed) == (4, 124, False)
    assert isinstance(completed, RestoreCompleted)
    assert completed.files_deleted == 4
    assert completed.restore_instant == started.restore_instant
    assert data_files(table.path) == {
        f"{p}/{g}_0-1-2_{at(m)}.parquet" for p, g in (("p0", "g0"), ("p1", "g1")) for m in (1, 2)
    }


def test_the_timeline_ends_with_the_savepoint_and_the_restore_of_layout_2(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)

    _, completed = run(table, restore_request(table, at(2)))

    assert isinstance(completed, RestoreCompleted)
    instant = completed.restore_instant
    names = timeline_names(table)
    (done,) = (name for name in names if name.endswith(".restore"))
    assert done.startswith(f"{instant}_")
    assert names - {done} == {
        *(f"{at(m)}.commit.requested" for m in (1, 2)),
        *(f"{at(m)}.inflight" for m in (1, 2)),
        *(f"{at(m)}_{at(m)[:12]}30000.commit" for m in (1, 2)),
        f"{at(2)}.savepoint.inflight",
        f"{at(2)}_20260301120003000.savepoint",
        f"{instant}.restore.requested",
        f"{instant}.restore.inflight",
    }


def test_the_timeline_ends_with_the_savepoint_and_the_restore_of_layout_1(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 6)

    _, completed = run(table, restore_request(table, at(2)))

    assert isinstance(completed, RestoreCompleted)
    instant = completed.restore_instant
    assert timeline_names(table) == {
        *(f"{at(m)}.commit.requested" for m in (1, 2)),
        *(f"{at(m)}.inflight" for m in (1, 2)),
        *(f"{at(m)}.commit" for m in (1, 2)),
        f"{at(2)}.savepoint.inflight",
        f"{at(2)}.savepoint",
        f"{instant}.restore.requested",
        f"{instant}.restore.inflight",
        f"{instant}.restore",
    }


def test_a_restore_s_metadata_tells_of_every_instant(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 6)

    _, completed = run(table, restore_request(table, at(2)))

    assert isinstance(completed, RestoreCompleted)
    stem = table.timeline / completed.restore_instant
    plan = RestorePlanFile.decode(stem.with_suffix(".restore.requested").read_bytes())
    assert plan.savepoint == at(2)
    assert [i.timestamp for i in plan.instants] == [at(4), at(3)]
    metadata = RestoreMetadata.decode(stem.with_suffix(".restore").read_bytes())
    assert [i.timestamp for i in metadata.instants] == [at(4), at(3)]
    assert metadata.rollbacks[0].deleted == {
        "p0": (f"{table.path}/p0/g0_0-1-2_{at(4)}.parquet",),
        "p1": (f"{table.path}/p1/g1_0-1-2_{at(4)}.parquet",),
    }


def test_deleted_files_lose_their_checksums_too(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)

    run(table, restore_request(table, at(2)))

    assert {p.name for p in (table.path / "p0").glob(".*.crc")} == {
        f".g0_0-1-2_{at(m)}.parquet.crc" for m in (1, 2)
    }
    assert not list(table.timeline.glob(f".{at(3)}*"))


@VERSIONS
def test_a_pending_write_is_rolled_back_with_the_files_it_left(
    tmp_path: Path, version: int
) -> None:
    table = savepointed(tmp_path / "orders", version)
    table.begin(at(7))
    table.data(at(7), "g0", "p0")
    table.put(Instant(at(8), Action.COMMIT, InstantState.REQUESTED))
    (table.path / f".hoodie/.temp/{at(7)}/p0").mkdir(parents=True)

    started, completed = run(table, restore_request(table, at(2)))

    assert isinstance(started, RestoreStarted)
    assert [i.instant for i in started.instants] == [at(8), at(7), at(4), at(3)]
    assert isinstance(completed, RestoreCompleted)
    assert completed.files_deleted == 5
    assert not (table.path / f".hoodie/.temp/{at(7)}").exists()
    assert not [name for name in timeline_names(table) if name.startswith((at(7), at(8)))]
    assert not (table.path / f"p0/g0_0-1-2_{at(7)}.parquet").exists()


def test_an_insert_overwrite_is_undone_and_what_it_replaced_shows_again(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9, at(4))
    table.replace(at(5), {"p0": ["g0"]}, {"p0": "g2"})

    started, _ = run(table, restore_request(table, at(4)))
    keep(table, at(4))

    assert isinstance(started, RestoreStarted)
    assert [(i.instant, i.action) for i in started.instants] == [(at(5), "replacecommit")]
    assert (table.path / f"p0/g0_0-1-2_{at(4)}.parquet").exists()
    assert not (table.path / f"p0/g2_0-1-2_{at(5)}.parquet").exists()


def test_a_completed_clustering_goes_with_its_pending_files(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9, at(4))
    table.replace(at(5), {"p0": ["g0"]}, {"p0": "g2"})
    table.begin(at(5), Action.CLUSTERING, "CLUSTER")
    table.begin(at(6), Action.CLUSTERING, "CLUSTER")

    run(table, restore_request(table, at(4)))

    assert not [name for name in timeline_names(table) if name.startswith((at(5), at(6)))]


@VERSIONS
def test_the_metadata_table_goes_and_the_other_properties_stay(
    tmp_path: Path, version: int
) -> None:
    more = {
        "hoodie__table__metadata__partitions": "files",
        "hoodie__table__metadata__partitions__inflight": "",
    }
    table = savepointed(tmp_path / "orders", version, **more)
    (table.path / ".hoodie/metadata/files").mkdir(parents=True)
    properties = table.path / ".hoodie/hoodie.properties"
    (table.path / ".hoodie/.hoodie.properties.crc").write_text("crc")
    before = properties.read_text().splitlines()

    run(table, restore_request(table, at(2)))

    assert not (table.path / ".hoodie/metadata").exists()
    assert not (table.path / ".hoodie/.hoodie.properties.crc").exists()
    expected = [line for line in before if "metadata.partitions" not in line]
    assert properties.read_text().splitlines() == expected


@VERSIONS
def test_rollbacks_after_the_savepoint_go_older_ones_and_cleans_stay(
    tmp_path: Path, version: int
) -> None:
    table = savepointed(tmp_path / "orders", version)
    for minute in (1, 5):
        instant = f"202603011{minute:03d}45000"[:17]
        for state in InstantState:
            done = instant if state is InstantState.COMPLETED else None
            table.put(Instant(instant, Action.ROLLBACK, state, done))
    table.clean(at(6), bound=at(1))

    run(table, restore_request(table, at(2)))

    rollbacks = {n.split(".")[0].split("_")[0] for n in timeline_names(table) if "rollback" in n}
    assert rollbacks == {"20260301100145000"}
    assert [n for n in timeline_names(table) if n.endswith(".clean")]


@VERSIONS
def test_asked_again_it_is_answered_again_and_nothing_changes(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path / "orders", version)
    _, completed = run(table, restore_request(table, at(2)))
    before = snapshot(tmp_path)

    (again,) = run(table, restore_request(table, at(2)))

    assert isinstance(again, RestoreCompleted)
    assert isinstance(completed, RestoreCompleted)
    assert again.event_id == completed.event_id
    assert (again.instants, again.files_deleted) == (completed.instants, completed.files_deleted)
    assert (again.restore_instant, again.duration_ms) == (
        completed.restore_instant,
        completed.duration_ms,
    )
    assert snapshot(tmp_path) == before


def rollback_plan(target: InstantInfo, *files: tuple[str, str]) -> bytes:
    """The content of a requested rollback, as Hudi writes it."""
    requests = [
        {
            "partitionPath": partition,
            "fileId": "",
            "latestBaseInstant": "",
            "filesToBeDeleted": [path],
            "logBlocksToBeDeleted": {},
        }
        for partition, path in files
    ]
    record = {"instantToRollback": target.record(), "RollbackRequests": requests, "version": 1}
    return containers.encode("HoodieRollbackPlan", record)


def test_a_rollback_that_a_writer_made_after_the_restore_stays_when_asked_again(
    tmp_path: Path,
) -> None:
    table = savepointed(tmp_path / "orders", 9)
    run(table, restore_request(table, at(2)))
    later = "20260301130000000"
    plan = rollback_plan(InstantInfo("20260301125900000", "commit"))
    table.put(Instant(later, Action.ROLLBACK, InstantState.REQUESTED), plan)

    run(table, restore_request(table, at(2)))

    assert f"{later}.rollback.requested" in timeline_names(table)


def test_after_new_commits_a_second_restore_is_a_new_one(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    _, first = run(table, restore_request(table, at(2)))
    table.commit("20260301130000000", at(2))

    _, second = run(table, restore_request(table, at(2), occurred_at=NOW + timedelta(days=1)))

    assert isinstance(first, RestoreCompleted)
    assert isinstance(second, RestoreCompleted)
    assert second.restore_instant > first.restore_instant
    assert [i.instant for i in second.instants] == ["20260301130000000"]


def test_a_table_that_is_at_its_savepoint_is_restored_to_it_without_harm(tmp_path: Path) -> None:
    properties = {"hoodie__table__metadata__partitions": "files"}
    table = savepointed(tmp_path / "orders", 9, at(4), **properties)
    files = data_files(table.path)

    _, completed = run(table, restore_request(table, at(4)))

    assert isinstance(completed, RestoreCompleted)
    assert completed.instants == ()
    assert data_files(table.path) == files
    assert "metadata.partitions" in (table.path / ".hoodie/hoodie.properties").read_text()


def test_the_plan_alone_changes_nothing_and_is_the_dry_run(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    before = snapshot(tmp_path)

    (planned,) = run(table, restore_request(table, at(2), plan_only=True))
    dry = plan_restore(warehouse_over(tmp_path), table.location, at(2))

    assert isinstance(planned, RestorePlanned)
    assert (planned.plan_id, planned.files, planned.bytes) == (dry.plan_id, 4, 124)
    assert [step.target.timestamp for step in dry.steps] == [at(4), at(3)]
    assert snapshot(tmp_path) == before


def test_a_plan_that_no_longer_holds_is_not_carried_out(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    (planned,) = run(table, restore_request(table, at(2), plan_only=True))
    assert isinstance(planned, RestorePlanned)
    expecting = restore_request(table, at(2), expected_plan=planned.plan_id)
    table.commit(at(5), at(4))

    assert refusal(table, expecting) == "plan-changed"


def test_a_plan_that_still_holds_is_carried_out(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    (planned,) = run(table, restore_request(table, at(2), plan_only=True))
    assert isinstance(planned, RestorePlanned)

    outcomes = run(table, restore_request(table, at(2), expected_plan=planned.plan_id))

    assert [type(o) for o in outcomes] == [RestoreStarted, RestoreCompleted]


def test_another_command_is_not_answered(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    restorer = Restorer(warehouse_over(tmp_path), ThreadMap(), ticking())

    with pytest.raises(PermanentError):
        list(restorer.execute(savepoint_request(table, at(2))))


@VERSIONS
@pytest.mark.parametrize("savepoint", [at(1), at(9), "20200101000000"])
def test_without_a_savepoint_there_is_not_a_restore(
    tmp_path: Path, version: int, savepoint: str
) -> None:
    table = savepointed(tmp_path / "orders", version)

    assert refusal(table, restore_request(table, savepoint)) == "no-such-savepoint"
    with pytest.raises(Refused, match="no-such-savepoint"):
        plan_restore(warehouse_over(tmp_path), table.location, savepoint)


@VERSIONS
def test_a_greater_savepoint_is_found_before_anything_is_touched(
    tmp_path: Path, version: int
) -> None:
    table = savepointed(tmp_path / "orders", version)
    keep(table, at(3))

    assert refusal(table, restore_request(table, at(2))) == "greater-savepoint"


def test_a_greater_savepoint_that_is_being_written_counts(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    table.put(Instant(at(3), Action.SAVEPOINT, InstantState.INFLIGHT))

    assert refusal(table, restore_request(table, at(2))) == "greater-savepoint"


def test_an_older_savepoint_is_not_a_hindrance(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    keep(table, at(1))

    outcomes = run(table, restore_request(table, at(2)))

    assert isinstance(outcomes[-1], RestoreCompleted)


@VERSIONS
def test_overlapping_writes_after_the_savepoint_are_rolled_back_last_completed_first(
    tmp_path: Path, version: int
) -> None:
    table = HandMade(tmp_path / "orders", version).create()
    table.commit(at(1))
    keep(table, at(1))
    table.commit(at(3), at(1), completed=at(9))
    table.commit(at(4), at(1), {"p2": "g2"}, completed=at(5))

    started, completed = run(table, restore_request(table, at(1)))

    assert isinstance(started, RestoreStarted)
    assert [i.instant for i in started.instants] == [at(3), at(4)]
    assert isinstance(completed, RestoreCompleted)


@VERSIONS
def test_a_write_begun_before_the_savepoint_and_completed_after_it_is_rolled_back(
    tmp_path: Path, version: int
) -> None:
    """As Hudi does with its lazy policy for failed writes, which overlapping writers need."""
    table = HandMade(tmp_path / "orders", version).create()
    table.commit(at(1))
    table.begin(at(2))
    table.commit(at(3), at(1), {"p1": "g1"})
    keep(table, at(3))
    table.commit(at(2), at(1), {"p0": "g0"}, completed=at(5))

    started, completed = run(table, restore_request(table, at(3)))

    assert isinstance(started, RestoreStarted)
    assert [i.instant for i in started.instants] == [at(2)]
    assert isinstance(completed, RestoreCompleted)
    assert data_files(table.path) == {
        f"p0/g0_0-1-2_{at(1)}.parquet",
        f"p1/g1_0-1-2_{at(1)}.parquet",
        f"p1/g1_0-1-2_{at(3)}.parquet",
    }


@pytest.mark.parametrize("replaces", [False, True])
def test_a_copy_that_lost_its_completion_times_does_not_roll_back_what_the_savepoint_rests_on(
    tmp_path: Path, *, replaces: bool
) -> None:
    table = HandMade(tmp_path / "orders", 6).create()
    table.commit(at(1), completed=at(9))
    if replaces:
        table.replace(at(2), {"p0": ["g0"], "p1": ["g1"]}, {"p0": "g2"})
    else:
        table.commit(at(2), at(1))
    keep(table, at(2))

    assert refusal(table, restore_request(table, at(2))) == "greater-commit"


def test_an_older_pending_write_is_rolled_back_too(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    table.begin("20260301100130000")

    started, completed = run(table, restore_request(table, at(2)))

    assert isinstance(started, RestoreStarted)
    assert started.instants[0].instant == "20260301100130000"
    assert isinstance(completed, RestoreCompleted)


@pytest.mark.parametrize(
    ("version", "action"), [(9, Action.CLUSTERING), (6, Action.REPLACE_COMMIT)]
)
def test_an_older_pending_clustering_is_rolled_back_as_hudi_does(
    tmp_path: Path, version: int, action: Action
) -> None:
    table = savepointed(tmp_path / "orders", version)
    table.begin("20260301100130000", action, "CLUSTER")

    started, completed = run(table, restore_request(table, at(2)))

    assert isinstance(started, RestoreStarted)
    assert started.instants[0].instant == "20260301100130000"
    assert isinstance(completed, RestoreCompleted)


def test_a_later_commit_that_completed_first_would_stay_so_nothing_is_done(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(1), completed=at(8))
    table.commit(at(3), groups={"p2": "g2"}, completed=at(4))
    keep(table, at(1))

    assert refusal(table, restore_request(table, at(1))) == "later-commit-stays"


@pytest.mark.parametrize(
    ("action", "version"),
    [(Action.DELTA_COMMIT, 9), (Action.COMPACTION, 6), (Action.LOG_COMPACTION, 9)],
)
def test_instants_of_merge_on_read_are_not_rolled_back(
    tmp_path: Path, action: Action, version: int
) -> None:
    table = savepointed(tmp_path / "orders", version)
    table.put(Instant(at(6), action, InstantState.REQUESTED))

    assert refusal(table, restore_request(table, at(2))) == "unsupported-instant"


def test_what_is_half_done_is_finished_first(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    indexing = Instant(at(6), Action.INDEXING, InstantState.REQUESTED)
    table.put(indexing)
    assert refusal(table, restore_request(table, at(2))) == "indexing-pending"
    (table.timeline / indexing.file_name(table.layout)).unlink()

    table.put(Instant("20260301100130000", Action.ROLLBACK, InstantState.REQUESTED))
    asked_later = restore_request(table, at(2), occurred_at=NOW + timedelta(days=1))
    assert refusal(table, asked_later) == "rollback-pending"


def test_a_restore_to_another_savepoint_that_did_not_complete_comes_first(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    keep(table, at(1))
    plan = RestorePlanFile((), at(1))
    table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED), plan.encode())

    assert refusal(table, restore_request(table, at(2))) == "restore-pending"


def beat(table: HandMade, age: timedelta) -> None:
    folder = table.path / ".hoodie/.heartbeat"
    folder.mkdir()
    (folder / at(9)).touch()
    moment = (NOW + timedelta(minutes=1) - age).timestamp()
    os.utime(folder / at(9), (moment, moment))


def test_a_writer_s_heartbeat_keeps_a_restore_away(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    beat(table, timedelta(minutes=4))

    assert refusal(table, restore_request(table, at(2))) == "writer-alive"


def test_a_dead_writer_s_heartbeat_does_not(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    beat(table, timedelta(minutes=6))

    assert isinstance(run(table, restore_request(table, at(2)))[-1], RestoreCompleted)


@pytest.mark.parametrize(
    ("name", "content", "held"),
    [
        pytest.param("lock", "", True, id="a lock file is held"),
        pytest.param(".locks/table_lock.json", "{", True, id="what can't be read is held"),
        pytest.param(
            ".locks/table_lock.json",
            '{"expired":false,"validUntil":1e999}',
            True,
            id="what never ends is held",
        ),
        pytest.param(
            ".locks/table_lock.json",
            '{"expired":false,"validUntil":9999999999999}',
            True,
            id="held",
        ),
        pytest.param(
            ".locks/table_lock.json",
            '{"expired":true,"validUntil":9999999999999}',
            False,
            id="free",
        ),
        pytest.param(
            ".locks/table_lock.json", '{"expired":false,"validUntil":1}', False, id="past"
        ),
    ],
)
def test_a_lock_that_is_held_keeps_a_restore_away(
    tmp_path: Path, name: str, content: str, *, held: bool
) -> None:
    table = savepointed(tmp_path / "orders", 9)
    lock = table.path / ".hoodie" / name
    lock.parent.mkdir(exist_ok=True)
    lock.write_text(content)

    if held:
        assert refusal(table, restore_request(table, at(2))) == "writer-alive"
    else:
        assert isinstance(run(table, restore_request(table, at(2)))[-1], RestoreCompleted)


def test_a_savepoint_whose_files_are_gone_is_not_restored_to(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    (table.path / f"p1/g1_0-1-2_{at(2)}.parquet").unlink()

    assert refusal(table, restore_request(table, at(2))) == "missing-files"


@VERSIONS
def test_a_savepoint_with_files_of_a_commit_that_was_archived_alone_is_not_restored_to(
    tmp_path: Path, version: int
) -> None:
    """Hudi archives it with `hoodie.archive.beyond.savepoint`, and then reads none of its files."""
    table = HandMade(tmp_path / "orders", version).create()
    table.commit(at(1))
    table.commit(at(2), at(1), {"p0": "g0"})
    table.commit(at(3), at(2), {"p1": "g1"})
    keep(table, at(1))
    keep(table, at(3))
    table.commit(at(4), at(3))
    for path in table.timeline.glob(f"{at(2)}*"):
        path.unlink()

    with pytest.raises(Refused) as refused:
        plan_restore(warehouse_over(tmp_path), table.location, at(3))

    assert refused.value.reason == "savepoint-archived"
    assert at(2) in refused.value.message


def test_a_commit_that_names_the_savepoint_s_own_file_is_not_rolled_back(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 6)
    kept = {"p0": (f"g0_0-1-2_{at(3)}.parquet",)}
    path = table.timeline / f"{at(2)}.savepoint"
    path.write_bytes(SavepointMetadata("ada", 0, "", kept).encode())

    assert refusal(table, restore_request(table, at(2))) == "deletes-savepoint-file"


@pytest.mark.parametrize(
    "stray",
    [
        "../invoices/p0/a_0-1-2_20260301100500000.parquet",
        "/etc/a_0-1-2_20260301100500000.parquet",
        ".hoodie/a_0-1-2_20260301100500000.parquet",
        "file:///etc/a_0-1-2_20260301100500000.parquet",
        "out/a_0-1-2_20260301100500000.parquet",
    ],
)
def test_a_commit_that_names_a_file_elsewhere_is_not_believed(tmp_path: Path, stray: str) -> None:
    table = savepointed(tmp_path / "lake/orders", 6)
    outside = tmp_path / "outside"
    outside.mkdir()
    table.commit(at(5), at(4))
    path = table.timeline / f"{at(5)}.commit"
    path.write_text(path.read_text().replace(f"p0/g0_0-1-2_{at(5)}.parquet", stray))
    before = snapshot(tmp_path)
    if stray.startswith("out/"):
        (table.path / "p0/out").symlink_to(outside)
        path.write_text(path.read_text().replace("out/", "p0/out/"))
        before = snapshot(tmp_path)

    (outcome,) = run(table, restore_request(table, at(2)))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason in {"unsafe-path", "unreadable-table"}
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"hoodie__table__type": "MERGE_ON_TUESDAY"}, "unsupported-table"),
        ({"hoodie__table__name": "invoices"}, "table-mismatch"),
        ({"hoodie__database__name": "test"}, "table-mismatch"),
    ],
)
def test_a_table_that_we_do_not_know_is_left_alone(
    tmp_path: Path, properties: dict[str, str], reason: str
) -> None:
    table = four_commits(tmp_path / "orders", 9, **properties)
    savepoint = Instant(at(2), Action.SAVEPOINT, InstantState.COMPLETED, at(9))
    table.put(savepoint)

    assert refusal(table, restore_request(table, at(2))) == reason


def test_a_table_outside_the_roots_is_not_even_read(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "elsewhere/orders", 9)
    before = snapshot(tmp_path)
    restorer = Restorer(warehouse_over(tmp_path / "lake"), ThreadMap(), ticking())

    (outcome,) = restorer.execute(restore_request(table, at(2)))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "outside-warehouse"
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("linked", ["orders", "orders/.hoodie", "orders/.hoodie/timeline"])
def test_a_table_under_another_name_is_refused(tmp_path: Path, linked: str) -> None:
    """Else what is said of one table would be done to another."""
    table = savepointed(tmp_path / "orders", 9)
    (tmp_path / linked).rename(tmp_path / "elsewhere")
    (tmp_path / linked).symlink_to(tmp_path / "elsewhere")

    assert refusal(table, restore_request(table, at(2))) == "link-inside"


@pytest.mark.parametrize("linked", [".hoodie/metadata", ".hoodie/.temp", ".hoodie/.tidegate"])
def test_a_link_where_a_restore_would_remove_or_note_is_found_before(
    tmp_path: Path, linked: str
) -> None:
    table = savepointed(tmp_path / "orders", 9)
    (tmp_path / "precious").mkdir()
    shutil.rmtree(table.path / linked, ignore_errors=True)
    (table.path / linked).symlink_to(tmp_path / "precious")

    expected = "link-inside" if linked.endswith(".tidegate") else "unsafe-path"
    assert refusal(table, restore_request(table, at(2))) == expected


@takes_any_bytes
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (f"p0/{STRANGE}_0-1-2_{at(7)}.parquet", "unreadable-table"),
        (f".hoodie/.heartbeat/{STRANGE}", "writer-alive"),
    ],
    ids=["a data file", "a heartbeat"],
)
def test_a_name_that_is_not_text_is_refused_and_shown(
    tmp_path: Path, place: str, reason: str
) -> None:
    table = savepointed(tmp_path / "orders", 9)
    table.begin(at(7))
    (table.path / ".hoodie/.heartbeat").mkdir()
    (table.path / place).touch()
    os.utime(table.path / place, (NOW.timestamp(), NOW.timestamp()))

    (outcome,) = run(table, restore_request(table, at(2)))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == reason
    assert "\\udcff" in outcome.message


def test_a_folder_without_a_table_is_refused(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9)

    assert refusal(table, restore_request(table, at(2))) == "no-such-table"


def test_a_pending_restore_without_its_plan_is_refused_not_retried_for_ever(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    table.put(Instant(at(9), Action.RESTORE, InstantState.INFLIGHT))

    assert refusal(table, restore_request(table, at(2))) == "unreadable-table"


def half_done(table: HandMade, *targets: InstantInfo) -> None:
    """A restore to at(2) that another tool began, and died in."""
    plan = RestorePlanFile(targets, at(2))
    table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED), plan.encode())
    table.put(Instant(at(9), Action.RESTORE, InstantState.INFLIGHT))


@VERSIONS
def test_a_restore_that_another_tool_died_in_is_finished(tmp_path: Path, version: int) -> None:
    table = savepointed(tmp_path / "orders", version)
    half_done(table, InstantInfo(at(4), "commit"), InstantInfo(at(3), "commit"))

    started, completed = run(table, restore_request(table, at(2)))

    assert isinstance(started, RestoreStarted)
    assert started.resumed
    assert started.restore_instant == at(9)
    assert isinstance(completed, RestoreCompleted)
    assert completed.files_deleted == 4


def test_a_rollback_plan_that_names_a_file_elsewhere_is_not_carried_out(tmp_path: Path) -> None:
    table = savepointed(tmp_path / "orders", 9)
    half_done(table, InstantInfo(at(4), "commit"), InstantInfo(at(3), "commit"))
    other = tmp_path / "invoices.parquet"
    other.touch()
    kept = f"{table.path}/p0/g0_0-1-2_{at(2)}.parquet"
    plan = rollback_plan(InstantInfo(at(4), "commit"), ("p0", kept), ("", str(other)))
    table.put(Instant("20260301100930000", Action.ROLLBACK, InstantState.REQUESTED), plan)

    completed = run(table, restore_request(table, at(2)))[-1]

    assert isinstance(completed, RestoreCompleted)
    assert completed.files_deleted == 4
    assert other.exists()
    assert Path(kept).exists()
