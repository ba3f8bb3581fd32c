"""A pending restore on the timeline may be anybody's: what it says decides nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    data_files,
    end_of,
    four_commits,
    restore_request,
    savepoint_request,
    snapshot,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    Outcome,
    RestoreCompleted,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.rollback import InstantInfo, RestorePlanFile
from tidegate.restores.executor import Restorer
from tidegate.restores.plan import PlannedRestore
from tidegate.restores.preparation import plan_restore
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage.file_info import Version
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse

VERSIONS = pytest.mark.parametrize("version", [9, 6])
LATER = InstantInfo(at(4), "commit"), InstantInfo(at(3), "commit")


def savepointed(root: Path, version: int = 9) -> HandMade:
    table = four_commits(root / "orders", version)
    keep(table, at(2))
    return table


def keep(table: HandMade, instant: str) -> None:
    writer = SavepointWriter(warehouse_over(table.path.parent), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, instant)))


def run(
    table: HandMade, command: RestoreRequested, warehouse: Warehouse | None = None
) -> Sequence[Outcome]:
    ours = warehouse or warehouse_over(table.path.parent)
    clock, unwatched = ticking(NOW + timedelta(minutes=1)), RestoreSettings(watch_seconds=0)
    return list(Restorer(ours, ThreadMap(threads=1), clock, unwatched).execute(command))


def begun(table: HandMade, *targets: InstantInfo, **header: str) -> None:
    """A restore to at(2) that another restorer began."""
    named = {f"tidegate.{name}": value for name, value in header.items()}
    plan = RestorePlanFile(targets, at(2), named)
    table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED), plan.encode())
    table.put(Instant(at(9), Action.RESTORE, InstantState.INFLIGHT))


def refusal(table: HandMade, command: RestoreRequested) -> str:
    """The reason code; the dry run has the same, and nothing was changed."""
    before = snapshot(table.path.parent)
    (outcome,) = run(table, command)
    assert isinstance(outcome, RestoreRejected)
    with pytest.raises(Refused) as dry:
        planned(table)
    assert dry.value.reason == outcome.reason
    assert snapshot(table.path.parent) == before
    return outcome.reason


def planned(table: HandMade) -> PlannedRestore:
    return plan_restore(warehouse_over(table.path.parent), table.location, at(2))


@VERSIONS
def test_resuming_a_pending_restore_does_not_destroy_a_later_savepoint(
    tmp_path: Path, version: int
) -> None:
    table = savepointed(tmp_path, version)
    keep(table, at(3))
    begun(table, *LATER)

    assert refusal(table, restore_request(table, at(2))) == "greater-savepoint"


def test_resuming_a_pending_restore_does_not_delete_a_file_of_the_savepoint(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    begun(table, *LATER, InstantInfo(at(2), "commit"), InstantInfo(at(1), "commit"))

    assert refusal(table, restore_request(table, at(2))) == "restore-pending"


def test_a_pending_restore_is_not_resumed_when_files_of_the_savepoint_are_gone(
    tmp_path: Path,
) -> None:
    table = savepointed(tmp_path)
    begun(table, *LATER)
    (table.path / f"p1/g1_0-1-2_{at(2)}.parquet").unlink()

    assert refusal(table, restore_request(table, at(2))) == "missing-files"


def test_a_planted_restore_does_not_stand_for_an_approved_plan(tmp_path: Path) -> None:
    """An approved plan, then an unseen commit, and the id planted next to it."""
    table = savepointed(tmp_path)
    approved = planned(table)
    table.commit(at(5), at(4))
    steps = json.dumps([[at(5), "commit", 2, 62, "0" * 64]])
    begun(table, InstantInfo(at(5), "commit"), *LATER, plan=approved.plan_id, steps=steps)

    (outcome,) = run(table, restore_request(table, at(2), expected_plan=approved.plan_id))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "plan-changed"
    assert f"p0/g0_0-1-2_{at(5)}.parquet" in data_files(table.path)


@VERSIONS
@pytest.mark.parametrize("step", [3, 8, 14, 20, 26])
def test_an_approved_restore_that_died_is_resumed_under_the_same_approval(
    tmp_path: Path, version: int, step: int
) -> None:
    table = savepointed(tmp_path, version)
    plan = planned(table)
    command = restore_request(table, at(2), expected_plan=plan.plan_id, seen_up_to=None)
    with pytest.raises(Killed):
        run(table, command, Stepwise(tmp_path, killed_at(step)))

    outcomes = run(table, command)

    assert isinstance(outcomes[-1], RestoreCompleted)
    assert outcomes[-1].files_deleted == 4
    if len(outcomes) > 1:
        assert isinstance(outcomes[0], RestoreStarted)
        assert (outcomes[0].plan_id, outcomes[0].files) == (plan.plan_id, 4)


def test_what_remains_of_a_strangers_restore_can_be_approved(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    begun(table, *LATER)
    command = restore_request(table, at(2), expected_plan=planned(table).plan_id, seen_up_to=None)

    assert isinstance(run(table, command)[-1], RestoreCompleted)


@pytest.mark.parametrize(
    "steps",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps([[at(4), "commit", -4, -124, ""], [at(3), "commit", 0, 0, ""]]),
        json.dumps([[at(4), "commit", True, 1.5, ""]]),
    ],
    ids=["none", "empty", "no list", "deep", "negative", "not whole"],
)
def test_forged_numbers_of_an_earlier_attempt_reach_no_outcome(tmp_path: Path, steps: str) -> None:
    table = savepointed(tmp_path)
    begun(table, *LATER, steps=steps, files="-5", bytes="-5", plan="x")

    started, completed = run(table, restore_request(table, at(2)))

    assert isinstance(started, RestoreStarted)
    assert (started.files, started.bytes) == (4, 124)
    assert isinstance(completed, RestoreCompleted)


def test_a_pending_restore_that_names_no_instant_is_refused(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    begun(table, InstantInfo("../../../precious", "commit"))

    assert refusal(table, restore_request(table, at(2))) == "unreadable-table"


class SleptWriter(Warehouse):
    """A writer that began before the restore completes its commit in the middle of it."""

    table: HandMade

    def replace(self, location: str, content: bytes, if_version: Version = None) -> None:
        super().replace(location, content, if_version)
        self.table.commit(at(5), at(4))


@VERSIONS
def test_a_commit_during_the_restore_is_said_plainly_and_rolled_back_once_it_was_seen(
    tmp_path: Path, version: int
) -> None:
    properties = {"hoodie__table__metadata__partitions": "files"}
    table = four_commits(tmp_path / "orders", version, **properties)
    keep(table, at(2))
    command = restore_request(table, at(2), seen_up_to=end_of(at(4)))
    sleepy = SleptWriter(warehouse_over(tmp_path).roots)
    sleepy.table = table

    failed = run(table, command, sleepy)[-1]

    assert isinstance(failed, RestoreFailed)
    assert at(5) in failed.message
    assert "Instant(" not in failed.message
    (again,) = run(table, command)
    assert isinstance(again, RestoreRejected)
    assert (again.reason, at(5) in again.message) == ("newer-commits", True)
    completed = run(table, restore_request(table, at(2), seen_up_to=end_of(at(5))))[-1]
    assert isinstance(completed, RestoreCompleted)
    assert not [name for name in timeline_names(table) if name.startswith((at(3), at(4), at(5)))]


def test_a_link_where_outcomes_are_stored_is_refused(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    (tmp_path / "precious").mkdir()
    (table.path / ".hoodie/.tidegate").mkdir()
    (table.path / ".hoodie/.tidegate/restorer").symlink_to(tmp_path / "precious")

    (outcome,) = run(table, restore_request(table, at(2)))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "link-inside"


def test_a_record_of_another_table_does_not_stand_for_this_restore(tmp_path: Path) -> None:
    other, table = savepointed(tmp_path / "other"), savepointed(tmp_path / "ours")
    run(other, restore_request(other, at(2)))
    command = restore_request(table, at(2))
    run(table, command)
    (theirs,) = (other.path / ".hoodie/.tidegate/restorer").glob("*.begun")
    (ours,) = (table.path / ".hoodie/.tidegate/restorer").glob("*.begun")
    ours.write_text(str(int(theirs.read_text()) + 1))

    (outcome,) = run(table, command)

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "restore-abandoned"


@pytest.mark.parametrize("confirmed", [{}, {"reason": "urgent"}])
def test_a_request_that_confirms_nothing_is_only_planned(
    tmp_path: Path, confirmed: dict[str, str]
) -> None:
    table = savepointed(tmp_path)
    before = snapshot(tmp_path)

    (outcome,) = run(table, restore_request(table, at(2), seen_up_to=None, **confirmed))

    assert isinstance(outcome, RestorePlanned)
    assert outcome.message
    assert outcome.plan_id in outcome.message
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("seen", "done"),
    [(at(4), True), (end_of(at(4)), True), (at(3), False), (end_of(at(3)), False), (at(2), False)],
)
def test_a_commit_that_the_requester_could_not_know_of_is_not_destroyed(
    tmp_path: Path, seen: str, *, done: bool
) -> None:
    table = savepointed(tmp_path)

    outcome = run(table, restore_request(table, at(2), seen_up_to=seen))[-1]

    if done:
        assert isinstance(outcome, RestoreCompleted)
    else:
        assert isinstance(outcome, RestoreRejected)
        assert outcome.reason == "newer-commits"


def test_a_write_that_began_early_and_completed_after_the_requester_looked_is_newer(
    tmp_path: Path,
) -> None:
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(1))
    keep(table, at(1))
    table.commit(at(3), at(1), {"p2": "g2"}, completed=at(8))
    table.commit(at(4), at(1))
    request = restore_request(table, at(1), seen_up_to=at(4))

    (outcome,) = run(table, request)

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "newer-commits"
    assert at(3) in outcome.message
