"""Removing savepoints from a table: what is refused, every crash, and others at work meanwhile."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    restore_request,
    snapshot,
    tables_own,
    ticking,
    warehouse_over,
)
from support.savepoint_removals import POLICY, keep, removal, remove, savepoints
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import (
    Outcome,
    RestoreCompleted,
    RestoreRejected,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
)
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.restores.executor import Restorer

VERSIONS = pytest.mark.parametrize("version", [9, 6])


def restore(table: HandMade, minute: int) -> Outcome:
    restorer = Restorer(warehouse_over(table.path.parent), ThreadMap(), ticking())
    return list(restorer.execute(restore_request(table, at(minute))))[-1]


@VERSIONS
def test_a_removed_savepoint_leaves_the_table_as_it_was_before(
    tmp_path: Path, version: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    before = tables_own(tmp_path)
    keep(table, 2, "daily")

    outcome = remove(removal(table, 2))

    assert isinstance(outcome, SavepointRemoved)
    assert (outcome.policy, outcome.tiers, outcome.made_by) == ("sales", ("daily",), "policy:sales")
    assert (outcome.files, outcome.savepoints_left, outcome.already_gone) == (2, 0, False)
    assert tables_own(tmp_path) == before
    assert copies(table) == [at(2)]  # until the next removal, see below


def copies(table: HandMade) -> list[str]:
    """The commits of whose savepoint a removal has left a copy."""
    folder = table.path / ".hoodie/.tidegate/savepoint-removal"
    return sorted(path.stem for path in folder.rglob("*.savepoint"))


def test_the_next_removal_removes_the_copies_of_the_earlier_ones(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    for minute in (2, 3):
        keep(table, minute, "daily")
        remove(removal(table, minute))

    assert copies(table) == [at(3)]


def test_a_savepoint_s_comment_says_who_made_it_and_for_what(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    outcome = keep(table, 2, "daily", "weekly", comment="nightly")

    (name,) = (savepoint for savepoint in savepoints(table) if savepoint.endswith(".savepoint"))
    metadata = SavepointMetadata.decode((table.timeline / name).read_bytes())
    assert metadata.by == "policy:sales"
    decided = (NOW + timedelta(minutes=2)).isoformat()
    mark = f"[tidegate policy=sales tiers=daily,weekly decided={decided}]"
    assert metadata.comment == f"{mark} nightly"
    assert (outcome.policy, outcome.tiers) == ("sales", ("daily", "weekly"))
    sizes = {path.name: path.stat().st_size for path in table.path.rglob("*.parquet")}
    assert outcome.bytes == sum(sizes[n] for names in metadata.files.values() for n in names)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"policy": None, "requested_by": "ada"}, id="a person's"),
        pytest.param({"policy": None, "requested_by": "policy:sales"}, id="a person's in its name"),
        pytest.param({"policy": "other"}, id="another policy's"),
        pytest.param({"policy": None, "lifetime_seconds": 60}, id="a person's with a lifetime"),
    ],
)
def test_a_policy_never_removes_what_is_not_its_own(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    given: dict[str, object] = {"requested_by": "ada"} | fields
    policy = given.pop("policy")
    assert policy is None or isinstance(policy, str)
    keep(table, 1, policy=policy, **({} if policy else given))
    keep(table, 3, "daily")
    before = tables_own(tmp_path)

    outcome = remove(removal(table, 1), ended=POLICY)

    assert isinstance(outcome, SavepointRemovalRejected)
    assert outcome.reason == "not-of-policy"
    assert tables_own(tmp_path) == before


def test_a_savepoint_that_is_gone_is_removed_already(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    before = snapshot(tmp_path)

    outcome = remove(removal(table, 2))

    assert isinstance(outcome, SavepointRemoved)
    assert outcome.already_gone
    assert snapshot(tmp_path) == before


def same(outcome: Outcome, other: Outcome) -> bool:
    """Whether two outcomes report the same, apart from when."""
    of_now = {"occurred_at", "duration_ms", "savepoints_left"}
    return outcome.model_dump(exclude=of_now) == other.model_dump(exclude=of_now)


def test_a_repeated_removal_does_not_remove_what_was_made_again_since(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    keep(table, 2, "daily")
    command = removal(table, 2)
    first = remove(command)
    keep(table, 2, policy=None, comment="again")

    assert same(remove(command), first)
    assert len(savepoints(table)) == 2


def test_an_incomplete_savepoint_is_removed_for_a_person_only(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.put(Instant(at(2), Action.SAVEPOINT, InstantState.INFLIGHT))

    refused = remove(removal(table, 2), ended=POLICY)
    removed = remove(removal(table, 2))

    assert isinstance(refused, SavepointRemovalRejected)
    assert refused.reason == "savepoint-incomplete"
    assert isinstance(removed, SavepointRemoved)
    assert removed.made_by is None
    assert savepoints(table) == set()


@VERSIONS
def test_killed_at_any_step_and_repeated_the_savepoint_is_gone_once(
    tmp_path: Path, version: int
) -> None:
    for step in range(1, 12):
        root = tmp_path / f"{step}"
        table = four_commits(root / "orders", version)
        keep(table, 2, "daily")
        command = removal(table, 2)
        dying = Stepwise(root, killed_at(step))
        try:
            remove(command, dying)
        except Killed:
            outcome = remove(command)
        else:
            break

        assert isinstance(outcome, SavepointRemoved), step
        assert (outcome.files, outcome.already_gone) == (2, False), step
        assert savepoints(table) == set(), step
        assert same(remove(command), outcome)
    else:
        pytest.fail("a removal takes fewer steps")
    assert step > 6


@VERSIONS
def test_no_savepoint_is_removed_during_a_restore(tmp_path: Path, version: int) -> None:
    table = four_commits(tmp_path / "orders", version)
    keep(table, 2, "daily")
    table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED))
    before = tables_own(tmp_path)

    outcome = remove(removal(table, 2))

    assert isinstance(outcome, SavepointRemovalRejected)
    assert outcome.reason == "restore-pending"
    assert tables_own(tmp_path) == before


@VERSIONS
def test_a_restore_and_a_removal_at_once_leave_a_restored_table_or_no_savepoint(
    tmp_path: Path, version: int
) -> None:
    """Whichever step of the removal the restore begins and ends before."""
    seen = set[str]()
    for step in range(1, 9):
        root = tmp_path / f"{step}"
        table = four_commits(root / "orders", version)
        keep(table, 2, "daily")
        others: list[Outcome] = []

        def meanwhile(number: int, table: HandMade = table, others: list[Outcome] = others) -> None:
            if number == step and not others:  # noqa: B023 - called within this round
                others.append(restore(table, 2))

        outcome = remove(removal(table, 2), Stepwise(root, meanwhile))

        assert isinstance(outcome, SavepointRemoved)
        for other in others:
            assert isinstance(other, RestoreCompleted | RestoreRejected)
            if isinstance(other, RestoreRejected):
                assert other.reason == "no-such-savepoint"
            seen.add(type(other).__name__)
    assert {"RestoreCompleted", "RestoreRejected"} <= seen


@VERSIONS
def test_a_restore_that_begins_during_a_removal_gets_its_savepoint_back(
    tmp_path: Path, version: int
) -> None:
    refused = set[int]()
    for step in range(1, 9):
        root = tmp_path / f"{step}"
        table = four_commits(root / "orders", version)
        keep(table, 2, "daily")
        before = savepoints(table)
        pending = Instant(at(9), Action.RESTORE, InstantState.REQUESTED)

        def meanwhile(number: int, table: HandMade = table, pending: Instant = pending) -> None:
            if number == step:  # noqa: B023 - called within this round
                table.put(pending)

        outcome = remove(removal(table, 2), Stepwise(root, meanwhile))

        if isinstance(outcome, SavepointRemovalRejected):
            assert outcome.reason == "restore-pending"
            assert savepoints(table) == before, step
            refused.add(step)
        else:
            assert savepoints(table) == set(), step
    # the copy, the inflight file, then the completed one and its checksum; a restore that begins
    # after that finds no savepoint to restore to
    assert refused == {1, 2, 3, 4, 5}


def test_a_removal_that_died_is_taken_back_for_a_restore_that_began_since(tmp_path: Path) -> None:
    taken_back = 0
    for step in range(1, 9):
        root = tmp_path / f"{step}"
        table = four_commits(root / "orders", 9)
        keep(table, 2, "daily")
        before = savepoints(table)
        command = removal(table, 2)
        with suppress(Killed):
            remove(command, Stepwise(root, killed_at(step)))
        if not savepoints(table):
            continue
        table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED))

        outcome = remove(command)

        assert isinstance(outcome, SavepointRemovalRejected)
        assert savepoints(table) == before, step
        taken_back += 1
    assert taken_back >= 3


def test_a_savepoint_that_is_written_while_it_is_removed_is_found_out(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    keep(table, 2, "daily")
    (name,) = (savepoint for savepoint in savepoints(table) if savepoint.endswith(".savepoint"))
    content = (table.timeline / name).read_bytes()
    gone = table.timeline / name

    def meanwhile(_: int) -> None:
        # the slower of two writers completes it again, as soon as it is gone
        if not gone.exists():
            (table.timeline / name.replace("_2026", "_2027")).write_bytes(content)

    with pytest.raises(TransientError, match="was written again meanwhile"):
        remove(removal(table, 2), Stepwise(tmp_path, meanwhile))


@VERSIONS
def test_two_writers_at_once_remove_it_once(tmp_path: Path, version: int) -> None:
    """A whole removal for the same request, before any step of another."""
    seen = set[int]()
    for step in range(1, 12):
        root = tmp_path / f"{step}"
        table = four_commits(root / "orders", version)
        keep(table, 1, "daily")
        keep(table, 3, "daily")
        command = removal(table, 1)
        others: list[Outcome] = []

        def meanwhile(
            number: int,
            command: SavepointRemovalRequested = command,
            others: list[Outcome] = others,
        ) -> None:
            if number == step and not others:  # noqa: B023 - called within this round
                others.append(remove(command))

        try:
            outcome = remove(command, Stepwise(root, meanwhile))
        except TransientError:
            outcome = remove(command)
        assert isinstance(outcome, SavepointRemoved), step
        assert not [name for name in savepoints(table) if name.startswith(at(1))], step
        for other in others:
            assert isinstance(other, SavepointRemoved)
            seen.add(step)
        assert copies(table) == [at(1)], step
    assert len(seen) >= 6


@VERSIONS
def test_a_slow_writer_does_not_remove_what_was_made_anew_meanwhile(
    tmp_path: Path, version: int
) -> None:
    """A savepoint that a person makes on the commit once it was removed stays."""
    for step in range(1, 12):
        root = tmp_path / f"{step}"
        table = four_commits(root / "orders", version)
        keep(table, 1, "daily")
        keep(table, 3, "daily")
        command = removal(table, 1)
        others: list[Outcome] = []

        def meanwhile(
            number: int,
            table: HandMade = table,
            command: SavepointRemovalRequested = command,
            others: list[Outcome] = others,
        ) -> None:
            if number == step and not others:  # noqa: B023 - called within this round
                others.append(remove(command))
                keep(table, 1, policy=None, requested_by="ada", comment="mine")

        with suppress(TransientError):
            remove(command, Stepwise(root, meanwhile))
        # in layout 1 the new one has the name of the old: between the last look at it and its
        # removal, the steps 4 and 5, nothing tells them apart
        if others and (version == 9 or step not in {4, 5}):
            there = {name for name in savepoints(table) if name.startswith(at(1))}
            assert any(name.endswith(".savepoint") for name in there), step
