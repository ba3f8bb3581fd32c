"""Cleanings of Hive ACID tables on a real HDFS: quarantine, undo, removal, claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.acid import VACUUMED, Case, build, release_of
from support.hdfs import Cluster, Hdfs
from support.quarantined import clean, quarantining, removal_of, undo, undo_of
from tables.test_claim import done, take, task
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.quarantine import FOLDER
from tidegate.cleaning.settings import CleaningSettings
from tidegate.events import CleaningUndone, QuarantineRemoved
from tidegate.tables.claim import HIVE, AlreadyDone
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import Overtaken

pytestmark = pytest.mark.full  # the real cluster takes seconds to start


@pytest.fixture
def cluster(hdfs: Hdfs) -> Cluster:
    return hdfs.lake


def built(cluster: Cluster, case: Case, folder: Path) -> str:
    """Build a table on the cluster; return its location."""
    cluster.remove("/wh/t")
    cluster.copy(build(folder / "t", case.directories), "/wh/t")
    return f"{cluster.address}/wh/t"


def visible(cluster: Cluster, location: str) -> list[str]:
    return sorted(name for name in cluster.warehouse().names(location) if name[0] not in "._")


@pytest.mark.parametrize("case", VACUUMED[:3], ids=lambda case: case.title)
def test_what_would_go_is_moved_aside_comes_back_and_goes_for_good(
    case: Case, cluster: Cluster, tmp_path: Path
) -> None:
    table = built(cluster, case, tmp_path)
    before = cluster.all_files("/wh/t")
    first, second = release_of(case, table), release_of(case, table)
    cleaner = quarantining(tmp_path, warehouse=cluster.warehouse())
    cleaned = clean(cleaner, first)
    assert cleaned.directories == tuple(sorted(case.obsolete))
    assert visible(cluster, table) == sorted(set(case.directories) - set(case.obsolete))
    aside = [file.partition("/")[2] for file in cluster.all_files(f"/wh/t/{FOLDER}")]
    assert set(aside) > {file for file in before if file.partition("/")[0] in case.obsolete}

    answer = undo(cleaner, undo_of(first))
    assert isinstance(answer, CleaningUndone)
    assert answer.directories == cleaned.directories
    assert [f for f in cluster.all_files("/wh/t") if not f.startswith(FOLDER)] == before

    clean(cleaner, second)
    for command in (first, second):
        (removed,) = cleaner.execute(removal_of(command))
        assert isinstance(removed, QuarantineRemoved)
    left = {f for f in before if f.partition("/")[0] not in case.obsolete}
    assert set(cluster.all_files("/wh/t")) == left


def test_a_cleaning_removes_what_it_removes_on_a_local_disk(
    cluster: Cluster, tmp_path: Path
) -> None:
    case = VACUUMED[0]
    table = built(cluster, case, tmp_path)
    local = tmp_path / "t"
    for location, root in ((table, cluster.warehouse()), (str(local), None)):
        cleaner = quarantining(tmp_path, CleaningSettings(), root)
        assert clean(cleaner, release_of(case, location)).directories == tuple(
            sorted(case.obsolete)
        )
    left = sorted(str(path.relative_to(local)) for path in local.rglob("*") if path.is_file())
    assert cluster.all_files("/wh/t") == left


def test_a_claim_on_a_table_is_as_exclusive(cluster: Cluster) -> None:
    cluster.put("/wh/t/delta_0000001_0000001_0000/bucket_00000")
    warehouse, table = cluster.warehouse(), f"{cluster.address}/wh/t"
    one, other = take(warehouse, table, 1), take(warehouse, table, 1)
    assert one.finish(done(1, files=3)) == done(1, files=3)
    assert other.finish(done(1, files=0)) == done(1, files=3)
    with pytest.raises(AlreadyDone):
        take(warehouse, table, 1)
    take(warehouse, table, 2)
    with pytest.raises(Overtaken):
        one.check()
    with pytest.raises(Refused, match="location-of-another-table"):
        take(warehouse, table, 3, table="hive.sales.other")


def test_a_task_with_a_claim_cleans_once(cluster: Cluster, tmp_path: Path) -> None:
    case = VACUUMED[0]
    table = built(cluster, case, tmp_path)
    command, cleaner = (
        release_of(case, table),
        quarantining(tmp_path, warehouse=cluster.warehouse()),
    )
    assert isinstance(cleaner, Cleaner)
    claim = cleaner.claim(command, task(5, id=command.event_id))
    outcomes = list(cleaner.execute(command, claim))
    assert claim.finish(outcomes) == outcomes
    with pytest.raises(AlreadyDone) as again:
        cleaner.claim(command, task(5, id=command.event_id))
    assert again.value.outcomes == outcomes
    assert f"{HIVE}/tasks/5.done" in cluster.all_files("/wh/t")
