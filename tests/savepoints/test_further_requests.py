"""A person asks for a savepoint that another has made: from then on it is the person's, too."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    savepoint_request,
    ticking,
    warehouse_over,
)
from support.savepoint_removals import POLICY, keep, removal, remove, savepoints
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import (
    Outcome,
    SavepointCreated,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
)
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.removal import Ended
from tidegate.tables.warehouse import Warehouse

MINUTE: Ended = (None, timedelta(seconds=60))


def ask(
    table: HandMade, minute: int, warehouse: Warehouse | None = None, **fields: object
) -> SavepointCreated:
    """A person's request."""
    ours = warehouse or warehouse_over(table.path.parent)
    request = savepoint_request(table, at(minute), **fields)
    (outcome,) = SavepointWriter(ours, ThreadMap(), ticking()).execute(request)
    assert isinstance(outcome, SavepointCreated), outcome
    return outcome


def remove_at(command: SavepointRemovalRequested, now: datetime) -> Outcome:
    return remove(command, ended=POLICY, clock=ticking(now))


def table_with_two(folder: Path, version: int = 9) -> HandMade:
    """The policy's savepoint of commit 1 has had its time: there is a newer one."""
    table = four_commits(folder, version)
    keep(table, 1, "daily")
    keep(table, 3, "daily")
    return table


@pytest.mark.parametrize("version", [9, 6])
def test_a_policy_s_savepoint_that_a_person_asked_for_is_not_removed(
    tmp_path: Path, version: int
) -> None:
    table = table_with_two(tmp_path / "orders", version)
    outcome = ask(table, 1, comment="before the audit")
    assert outcome.already_there
    assert (outcome.policy, outcome.tiers) == (None, ())

    refused = remove(removal(table, 1), ended=POLICY)

    assert isinstance(refused, SavepointRemovalRejected)
    assert refused.reason == "not-of-policy"
    assert "ada" in refused.message
    assert len(savepoints(table)) == 4


def test_a_person_who_wants_it_kept_is_not_bound_by_another_person_s_lifetime(
    tmp_path: Path,
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    ask(table, 2, lifetime_seconds=60)
    ask(table, 2, requested_by="bob")

    refused = remove(removal(table, 2), ended=MINUTE)

    assert isinstance(refused, SavepointRemovalRejected)
    assert "bob" in refused.message


def test_a_longer_lifetime_is_waited_for(tmp_path: Path) -> None:
    table = table_with_two(tmp_path / "orders")
    ask(table, 1, lifetime_seconds=10 * 86_400)

    early = remove_at(removal(table, 1), NOW + timedelta(days=10))
    late = remove_at(removal(table, 1), NOW + timedelta(days=11, seconds=1))

    assert isinstance(early, SavepointRemovalRejected)
    assert early.reason == "claimed"
    assert isinstance(late, SavepointRemoved)


def test_a_person_removes_it_all_the_same_and_the_wish_goes_with_it(tmp_path: Path) -> None:
    table = table_with_two(tmp_path / "orders")
    ask(table, 1)

    assert isinstance(remove(removal(table, 1)), SavepointRemoved)

    keep(table, 1, "daily", comment="anew", caused_by="another commit", event_id="another")
    assert isinstance(remove(removal(table, 1), ended=POLICY), SavepointRemoved)


def test_one_s_own_repeated_request_is_not_another_wish(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    ask(table, 2, lifetime_seconds=60)
    ask(table, 2, lifetime_seconds=60)

    assert isinstance(remove(removal(table, 2), ended=MINUTE), SavepointRemoved)


def test_asked_for_during_its_removal_it_is_there_or_the_requester_gets_an_answer(
    tmp_path: Path,
) -> None:
    kept = gone = 0
    for step in range(1, 9):
        root = tmp_path / f"{step}"
        table = table_with_two(root / "orders")
        said: list[SavepointCreated] = []

        def meanwhile(n: int, table: HandMade = table, said: list[SavepointCreated] = said) -> None:
            if n == step and not said:  # noqa: B023 - called within this round
                said.append(ask(table, 1))

        try:
            outcome = remove(removal(table, 1), Stepwise(root, meanwhile), POLICY)
        except TransientError:  # it was written anew meanwhile: the second attempt sees whose it is
            outcome = remove(removal(table, 1), ended=POLICY)

        if said and said[0].already_there:
            assert isinstance(outcome, SavepointRemovalRejected), step
        there = [name for name in savepoints(table) if name.startswith(at(1))]
        if isinstance(outcome, SavepointRemovalRejected):
            assert any(name.endswith(".savepoint") for name in there), step
            kept += 1
        elif said:
            gone += 1
    assert kept >= 2
    assert kept + gone >= 4


def test_killed_at_any_step_the_wish_is_known_once_it_was_answered(tmp_path: Path) -> None:
    for step in range(1, 9):
        root = tmp_path / f"{step}"
        table = table_with_two(root / "orders")
        try:
            ask(table, 1, Stepwise(root, killed_at(step)))
        except Killed:
            ask(table, 1)
        else:
            break
        assert isinstance(remove(removal(table, 1), ended=POLICY), SavepointRemovalRejected)
    else:
        pytest.fail("a request takes fewer steps")
    assert step > 1
