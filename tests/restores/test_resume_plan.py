"""An approval of the plan that a restore began with covers the rest only if all of it is in it."""

from __future__ import annotations

import pytest

from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.rollback import InstantInfo, RestorePlanFile
from tidegate.restores.plan import STEPS_KEY, Step, _PlannedFile, plan_of, resume, summarise

SAVEPOINT = "20260301100200000"
THREE, FOUR = "20260301100300000", "20260301100400000"
PENDING = Instant("20260301110000000", Action.RESTORE, InstantState.REQUESTED)


def step(timestamp: str) -> Step:
    return Step(
        InstantInfo(timestamp, "commit"), (_PlannedFile("p0", f"p0/{timestamp}.parquet", 1),)
    )


@pytest.mark.parametrize(
    ("rest", "covered"),
    [
        pytest.param((FOUR, THREE), True, id="all of it was approved"),
        pytest.param((THREE,), True, id="a part is done already"),
        pytest.param(("20260301100500000", FOUR, THREE), False, id="one came later"),
    ],
)
def test_an_approval_covers_the_rest_only_if_every_instant_is_in_it(
    rest: tuple[str, ...], *, covered: bool
) -> None:
    approved = plan_of(SAVEPOINT, (step(FOUR), step(THREE)))
    file = RestorePlanFile((), SAVEPOINT, {STEPS_KEY: summarise(approved)})
    left = plan_of(SAVEPOINT, tuple(step(part) for part in rest))

    resumed = resume(left, PENDING, file, completed=set(rest), gone=set())

    assert (approved.plan_id in resumed.approved_by) is covered
