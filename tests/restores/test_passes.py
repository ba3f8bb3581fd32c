"""Instants that may be rolled back in one pass over their files, and those that may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from support.hudi_tables import at
from tidegate.hudi.instant import Action, Instant, InstantState, Layout
from tidegate.hudi.rollback import InstantInfo
from tidegate.restores.plan import PlannedBlock, Step, _PlannedFile, passes

DONE, INFLIGHT = InstantState.COMPLETED, InstantState.INFLIGHT


def step(minute: int, files: int = 1, blocks: int = 0) -> Step:
    return Step(
        InstantInfo(at(minute), "commit"),
        tuple(_PlannedFile("p0", f"p0/{n}.parquet", 1) for n in range(files)),
        tuple(PlannedBlock("p0", f"p0/.g.log.{n}_1", is_there=False) for n in range(blocks)),
    )


def timeline(**actions: str) -> Mapping[str, Sequence[Instant]]:
    """`m3="clustering replacecommit"`: at minute 3 an inflight and a completed file."""
    return {
        at(int(minute[1:])): [
            Instant(at(int(minute[1:])), Action(action), state, at(50) if state is DONE else None)
            for action, state in zip(named.split(), (INFLIGHT, DONE), strict=False)
        ]
        for minute, named in actions.items()
    }


def shape(
    steps: Sequence[Step], files: Mapping[str, Sequence[Instant]], layout: Layout = Layout.TWO
) -> list[list[str]]:
    divided = list(passes(steps, files, layout))
    assert [undo for group in divided for undo in group] == list(steps)
    return [[undo.target.timestamp[10:12] for undo in group] for group in divided]


def test_commits_newest_first_are_one_pass() -> None:
    files = timeline(m1="commit commit", m2="replacecommit replacecommit", m3="deltacommit")

    assert shape([step(3), step(2), step(1)], files) == [["03", "02", "01"]]


def test_what_an_earlier_attempt_took_off_the_timeline_joins() -> None:
    assert shape([step(3, files=0), step(2)], timeline(m2="commit")) == [["03", "02"]]


@pytest.mark.parametrize(
    "actions",
    ["clustering replacecommit", "compaction commit", "compaction", "logcompaction deltacommit"],
)
def test_an_instant_that_hudi_knows_by_another_action_once_it_is_unpublished_is_alone(
    actions: str,
) -> None:
    files = timeline(m1="commit commit", m2="commit commit", m3=actions, m4="commit commit")

    steps = [step(4), step(3), step(2), step(1)]
    assert shape(steps, files) == [["04"], ["03"], ["02", "01"]]


def test_an_instant_that_needs_rollback_blocks_is_alone() -> None:
    files = timeline(m1="commit commit", m2="commit commit", m3="commit commit")

    assert shape([step(3), step(2, blocks=1), step(1)], files) == [["03"], ["02"], ["01"]]


def test_a_delta_commit_of_layout_1_is_alone() -> None:
    """Once it is inflight, its writes are known from its inflight file."""
    files = timeline(m1="deltacommit deltacommit", m2="deltacommit deltacommit")

    assert shape([step(2), step(1)], files, Layout.ONE) == [["02"], ["01"]]
    assert shape([step(2), step(1)], files, Layout.TWO) == [["02", "01"]]


def test_an_instant_that_began_later_than_the_one_before_it_begins_a_new_pass() -> None:
    """Hudi refuses to roll back an instant while a later one is on the timeline."""
    files = timeline(m1="commit", m2="commit commit", m3="commit commit")

    assert shape([step(1), step(3), step(2)], files) == [["01"], ["03", "02"]]


def test_a_pass_has_a_limit_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.restores.plan.FILES_PER_PASS", 5)
    files = timeline(m1="commit commit", m2="commit commit", m3="commit commit")

    assert shape([step(3, 2), step(2, 3), step(1, 1)], files) == [["03", "02"], ["01"]]
    assert shape([step(3, 9), step(2, 9)], files) == [["03"], ["02"]]
    assert shape([], {}) == []
