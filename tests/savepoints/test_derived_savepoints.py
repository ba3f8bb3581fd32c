"""A derived savepoint is the one that a listing of everything gives; in any doubt that is made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    end_of,
    four_commits,
    merge_on_read,
    savepoint_request,
    ticking,
    warehouse_over,
)
from support.savepoint_stories import (
    clean,
    derived,
    keep,
    kept,
    listed,
    opened,
    remove_instants,
    remove_savepoint,
    roll_back,
    story,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import SavepointCreated, SavepointRejected
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi_reader import partitions
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.plan import SavepointPlan
from tidegate.savepoints.rules import MOST_DERIVED, covering
from tidegate.service.settings import Settings

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
KINDS = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
GROUPS = {f"p{number}": f"g{number}" for number in range(4)}


def plan_of(table: HandMade, commit: str) -> SavepointPlan:
    """The derived plan, which is that of a listing."""
    found = derived(table, commit)
    assert isinstance(found, SavepointPlan), found
    assert kept(found) == kept(listed(table, commit))
    return found


def doubt_of(table: HandMade, commit: str) -> str:
    """Why there is none."""
    found = derived(table, commit)
    assert isinstance(found, str), found
    return found


def begun(path: Path, version: int = 9, **properties: str) -> HandMade:
    """A table of four partitions with a savepoint of its second commit."""
    table = HandMade(path / "orders", version).create(**properties)
    table.commit(at(1), None, GROUPS)
    table.commit(at(2), at(1), {"p0": "g0"})
    assert isinstance(keep(table, at(2)), SavepointCreated)
    return table


@VERSIONS
@KINDS
@pytest.mark.parametrize("seed", range(4))
def test_of_any_history_a_derived_savepoint_is_that_of_a_listing(
    tmp_path: Path, seed: int, version: int, kind: str
) -> None:
    story(tmp_path, seed, version, kind).steps(35)


@pytest.mark.full
@VERSIONS
@KINDS
def test_of_very_many_histories_too(tmp_path: Path, version: int, kind: str) -> None:
    """And both verdicts are among them, with each kind of doubt that these histories have."""
    stories = [story(tmp_path, seed, version, kind) for seed in range(100, 160)]
    for one in stories:
        one.steps(45)
    doubts = {doubt for one in stories for doubt in one.doubts}
    assert sum(one.derived for one in stories) > 60
    for part in ("rollback began", "no earlier savepoint"):
        assert any(part in doubt for doubt in doubts)


@VERSIONS
def test_only_partitions_that_changed_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    table = begun(tmp_path, version)
    table.commit(at(3), at(1), {"p1": "g1"})
    table.replace(at(4), {"p2": ["g2"]}, {"new": "h"})
    read, read_folder = list[str](), vars(partitions)["_read_folder"]

    def watched(storage: object, location: str, path: str) -> object:
        read.append(path)
        return read_folder(storage, location, path)

    monkeypatch.setattr(partitions, "_read_folder", watched)
    outcome = keep(table)

    assert isinstance(outcome, SavepointCreated)
    assert (outcome.derived_from, outcome.listed_because) == (at(2), None)
    assert sorted(read) == ["new", "p1", "p2"]
    everything = listed(table, at(4))
    assert everything is not None
    assert (outcome.files, outcome.bytes) == (4, everything.bytes)
    (file,) = table.timeline.glob(f"*{at(4)}*.savepoint")
    assert SavepointMetadata.decode(file.read_bytes()).files == {
        "new": (f"h_0-1-2_{at(4)}.parquet",),
        "p0": (f"g0_0-1-2_{at(2)}.parquet",),
        "p1": (f"g1_0-1-2_{at(3)}.parquet",),
        "p2": (),
        "p3": (f"g3_0-1-2_{at(1)}.parquet",),
    }


def test_the_first_savepoint_says_why_it_was_not_derived(tmp_path: Path) -> None:
    outcome = keep(four_commits(tmp_path / "orders", 9), at(2))
    assert isinstance(outcome, SavepointCreated)
    assert (outcome.derived_from, outcome.listed_because) == (None, "there is no earlier savepoint")


def test_a_write_that_was_pending_and_completed_since_counts(tmp_path: Path) -> None:
    """Its instant is before that of the savepoint: it is new all the same."""
    table = HandMade(tmp_path / "orders").create()
    table.commit(at(1), None, GROUPS)
    table.begin(at(2))
    table.data(at(2), "g1", "p1")
    table.commit(at(3), at(1), {"p0": "g0"})
    keep(table, at(3))
    table.commit(at(2), at(1), {"p1": "g1"}, end_of(at(4)))
    table.commit(at(5), at(3), {"p0": "g0"})
    assert plan_of(table, at(5)).files["p1"] == (f"g1_0-1-2_{at(2)}.parquet",)


def test_a_commit_that_was_there_already_counts_once_it_is_not_after_the_savepoint(
    tmp_path: Path,
) -> None:
    """A savepoint of an older commit was made when the newer one was complete already."""
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p1": "g1"})
    table.commit(at(4), at(3), {"p1": "g1"})
    keep(table, at(3))
    assert plan_of(table, at(4)).files["p1"] == (f"g1_0-1-2_{at(4)}.parquet",)


@VERSIONS
def test_log_files_of_later_delta_commits_and_pending_compactions_count(
    tmp_path: Path, version: int
) -> None:
    table = begun(tmp_path, version, hoodie__table__type="MERGE_ON_READ")
    table.delta(at(3), {"p1": "g1"}, at(1))
    assert len(plan_of(table, at(3)).files["p1"]) == 2
    keep(table, at(3))
    table.schedule(at(4), {"p2": "g2"})
    table.delta(at(5), {"p2": "g2"}, at(4))
    assert plan_of(table, at(5)).files["p2"][0].startswith(".g2_")
    keep(table, at(5))
    table.compact(at(4), {"p2": "g2"}, at(1), end_of(at(6)))
    table.delta(at(7), {"p3": "g3"}, at(1))
    assert len(plan_of(table, at(7)).files["p2"]) == 2


def test_a_group_that_was_replaced_long_ago_does_not_come_back(tmp_path: Path) -> None:
    """Its partition changed, and the savepoint does not say why it had not that group."""
    table = HandMade(tmp_path / "orders").create()
    table.commit(at(1), None, GROUPS)
    table.replace(at(2), {"p1": ["g1"]}, {"p1": "h1"})
    keep(table, at(2))
    table.commit(at(3), at(2), {"p1": "h1"})
    assert plan_of(table, at(3)).files["p1"] == (f"h1_0-1-2_{at(3)}.parquet",)


def test_what_a_clean_removed_of_a_savepoint_is_missed(tmp_path: Path) -> None:
    """Hudi's does not; if one did, the savepoint would be refused as by a listing."""
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p1": "g1"})
    (table.path / f"p3/g3_0-1-2_{at(1)}.parquet").unlink()
    clean(table, at(4), ["p3"], at(1))
    assert "is gone, although a savepoint keeps it" in doubt_of(table, at(3))
    outcome = keep(table, at(3))
    assert isinstance(outcome, SavepointRejected)
    assert outcome.reason == "missing-files"


def test_a_file_that_is_missing_in_a_partition_that_changed_is_missed(tmp_path: Path) -> None:
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p1": "g1"})
    (table.path / f"p1/g1_0-1-2_{at(3)}.parquet").unlink()
    outcome = keep(table, at(3))
    assert isinstance(outcome, SavepointRejected)
    assert outcome.reason == "missing-files"


def test_after_many_derived_savepoints_everything_is_listed(tmp_path: Path) -> None:
    """So a file removed by hand where nothing else happened is noticed then."""
    table = begun(tmp_path)
    (table.path / f"p3/g3_0-1-2_{at(1)}.parquet").unlink()
    for minute in range(3, 3 + MOST_DERIVED):
        table.commit(at(minute), at(minute - 1), {"p0": "g0"})
        outcome = keep(table, at(minute))
        assert isinstance(outcome, SavepointCreated)
        assert outcome.derived_from == at(minute - 1)
    table.commit(at(40), None, {"p0": "g0"})
    refused = keep(table, at(40))
    assert isinstance(refused, SavepointRejected)
    assert refused.reason == "missing-files"


@pytest.mark.parametrize("full_every", [1, 3])
def test_a_rule_says_how_often_everything_is_listed(tmp_path: Path, full_every: int) -> None:
    rule = {"tables": "lake.SALES.*", "when": "on_request", "full_every": full_every}
    settings = Settings.model_validate({"savepoints": [rule]})
    table = four_commits(tmp_path / "orders", 9)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(1), ticking(), settings.savepoints)
    derived = list[bool]()
    for minute in range(1, 5):
        (outcome,) = writer.execute(savepoint_request(table, at(minute)))
        assert isinstance(outcome, SavepointCreated)
        derived.append(outcome.derived_from is not None)

    assert derived == [number % full_every != 0 for number in range(4)]
    assert covering(settings.savepoints, "lake.hr.staff") is None


def _completed(table: HandMade, action: Action, minute: int) -> None:
    done = Instant(at(minute), action, InstantState.COMPLETED, end_of(at(minute)))
    table.put(done, b"metadata")


def _upgraded(table: HandMade) -> None:
    file = table.path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("table.version=9", "table.version=8"))


def _rolled_back_commit(table: HandMade) -> None:
    remove_instants(table, at(1))
    table.put(Instant(at(1), Action.COMMIT, InstantState.INFLIGHT))


def _recreated_commit(table: HandMade) -> None:
    (file,) = table.timeline.glob(f"{at(2)}_*.commit")
    file.rename(file.with_name(f"{at(2)}_{at(3)}.commit"))


def _hudis_own(table: HandMade) -> None:
    (file,) = table.timeline.glob("*.savepoint")
    saved = SavepointMetadata.decode(file.read_bytes())
    file.write_bytes(saved.encode())


DOUBTS: dict[str, tuple[Callable[[HandMade], None], str]] = {
    "its savepoint was removed": (lambda t: remove_savepoint(t, at(2)), "no earlier savepoint"),
    "its savepoint is Hudi's own": (_hudis_own, "not written by this version"),
    "a restore": (lambda t: _completed(t, Action.RESTORE, 4), "a restore began since"),
    "a rollback": (lambda t: roll_back(t, at(4), at(59)), "a rollback began since"),
    "a pending rollback": (
        lambda t: t.put(Instant(at(4), Action.ROLLBACK, InstantState.REQUESTED)),
        "a rollback is or was pending",
    ),
    "the savepointed commit was archived": (
        lambda t: remove_instants(t, at(1), at(2)),
        "is no longer on the timeline",
    ),
    "an earlier commit was undone": (_rolled_back_commit, "has changed"),
    "the commit is another one": (_recreated_commit, "has changed"),
    "the table was upgraded": (_upgraded, "upgraded"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_in_doubt_everything_is_listed(tmp_path: Path, name: str) -> None:
    change, why = DOUBTS[name]
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p1": "g1"})
    change(table)
    assert why in doubt_of(table, at(3))
    outcome = keep(table, at(3))
    assert isinstance(outcome, SavepointCreated)
    assert outcome.derived_from is None
    assert why in (outcome.listed_because or "")


def test_a_rollback_that_may_have_been_archived_is_a_doubt(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders").create()
    table.commit(at(1), None, GROUPS)
    _completed(table, Action.ROLLBACK, 2)
    table.commit(at(3), at(1), GROUPS)
    keep(table, at(3))
    table.commit(at(4), at(3), {"p1": "g1"})
    plan_of(table, at(4))
    remove_instants(table, at(2))
    assert "may have been archived" in doubt_of(table, at(4))


def test_a_write_that_was_pending_and_is_gone_is_a_doubt(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders").create()
    table.commit(at(1), None, GROUPS)
    table.begin(at(2))
    table.commit(at(3), at(1), GROUPS)
    keep(table, at(3))
    table.commit(at(4), at(3), {"p1": "g1"})
    plan_of(table, at(4))
    remove_instants(table, at(2))
    assert "no longer on the timeline" in doubt_of(table, at(4))


def test_commits_before_the_savepoint_may_be_archived(tmp_path: Path) -> None:
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p1": "g1"})
    remove_instants(table, at(1))
    plan_of(table, at(3))


def test_an_archived_replacement_is_a_doubt(tmp_path: Path) -> None:
    """Its groups count again, if its files are still there."""
    table = HandMade(tmp_path / "orders").create()
    table.replace(at(1), {}, {"p0": "g0"})
    table.commit(at(2), None, {"p1": "g1"})
    keep(table, at(2))
    table.commit(at(3), at(2), {"p1": "g1"})
    remove_instants(table, at(1))
    assert "replacement" in doubt_of(table, at(3))


def test_an_archived_write_during_which_another_began_is_a_doubt(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders").create()
    table.commit(at(1), None, GROUPS, end_of(at(2)))
    table.commit(at(2), None, {"p1": "h"}, end_of(at(3)))
    keep(table, at(2))
    table.commit(at(4), None, {"p1": "h"})
    plan_of(table, at(4))
    remove_instants(table, at(1))
    assert "overlapped another write" in doubt_of(table, at(4))


def test_files_of_unknown_instants_are_a_doubt_once_the_timeline_begins_after_them(
    tmp_path: Path,
) -> None:
    """A listing counts them then; as long as the timeline begins before them, it does not."""
    table = HandMade(tmp_path / "orders").create()
    table.commit(at(1), None, {"p2": "g2"})
    table.commit(at(3), None, GROUPS)
    table.data(at(2), "stray", "p2")
    keep(table, at(3))
    table.commit(at(4), at(3), {"p1": "g1"})
    plan_of(table, at(4))
    remove_instants(table, at(1))
    assert "stray" in str(kept(listed(table, at(4)))["p2"])
    assert "unknown instants" in doubt_of(table, at(4))


def test_commits_that_were_archived_beyond_a_savepoint_are_a_doubt_once_they_count(
    tmp_path: Path,
) -> None:
    """Their partitions were not listed: they began, and were archived, between two savepoints."""
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p3": "g3"})
    table.commit(at(4), at(1), {"p1": "g1"})
    remove_instants(table, at(1), at(3))
    outcome = keep(table, at(4))
    assert isinstance(outcome, SavepointCreated)
    assert outcome.derived_from == at(2)
    remove_savepoint(table, at(2))
    remove_instants(table, at(2))
    table.commit(at(5), at(4), {"p1": "g1"})
    assert at(3) in str(kept(listed(table, at(5)))["p3"])
    assert "unknown instants" in doubt_of(table, at(5))


def test_pending_delta_commits_of_version_6_are_a_doubt(tmp_path: Path) -> None:
    table = begun(tmp_path, 6, hoodie__table__type="MERGE_ON_READ")
    table.delta(at(3), {"p1": "g1"}, at(1), completes=False)
    table.delta(at(4), {"p1": "g1"}, at(1))
    assert "a delta commit is or was pending" in doubt_of(table, at(4))


@pytest.mark.parametrize("path", ["../elsewhere", "p0/inside", ".hoodie/x", "/p0"])
def test_a_strange_path_of_a_commit_is_a_doubt(tmp_path: Path, path: str) -> None:
    table = begun(tmp_path)
    table.begin(at(3))
    record: dict[str, object] = {"partitionToWriteStats": {path: []}}
    done = Instant(at(3), Action.COMMIT, InstantState.COMPLETED, end_of(at(3)))
    table.put(done, table.metadata("HoodieCommitMetadata", record))
    assert "path" in doubt_of(table, at(3)) or "inside" in doubt_of(table, at(3))


def test_more_changes_than_can_be_held_are_a_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing takes one commit after the other."""
    table = begun(tmp_path)
    for minute in (3, 4, 5):
        table.commit(at(minute), at(minute - 1), GROUPS)
    plan_of(table, at(5))
    monkeypatch.setattr("tidegate.savepoints.incremental._HELD", 11)
    assert "more than 11 files" in doubt_of(table, at(5))


def test_a_damaged_view_is_a_doubt(tmp_path: Path) -> None:
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p1": "g1"})
    (file,) = table.timeline.glob("*.savepoint")
    content = file.read_bytes()
    for place in range(0, len(content), 7):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        assert "not written by this version" in doubt_of(table, at(3))
        file.write_bytes(content[:place])
        assert "not written by this version" in doubt_of(table, at(3))


def test_a_merge_on_read_table_is_derived_over_a_pending_compaction(tmp_path: Path) -> None:
    for version in (8, 9):
        table = merge_on_read(tmp_path / f"orders{version}", version)
        keep(table, at(7))
        table.delta(at(10), {"p1": "g1"}, at(6))
        plan_of(table, at(10))


def test_hadoops_checksums_and_times_do_not_matter(tmp_path: Path) -> None:
    table = begun(tmp_path)
    table.commit(at(3), at(1), {"p1": "g1"})
    for path in table.path.rglob("*.crc"):
        os.utime(path, (1, 1))
    assert plan_of(table, at(3)).derived_from == at(2)
    assert opened(table).timeline.savepoints == {at(2)}
