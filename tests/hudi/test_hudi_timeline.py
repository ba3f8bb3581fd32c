from __future__ import annotations

import pytest

from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.timeline import Timeline


def write(
    minute: int,
    completed: int | None = None,
    action: Action = Action.COMMIT,
    state: InstantState = InstantState.COMPLETED,
) -> Instant:
    time = f"202603011{minute:02d}000000"
    end = f"202603011{completed:02d}000000" if completed is not None else None
    return Instant(time, action, state if end else min(state, InstantState.INFLIGHT), end)


def savepoint(of: Instant) -> Instant:
    return Instant(of.timestamp, Action.SAVEPOINT, InstantState.COMPLETED, "20260301159000000")


def test_an_instant_is_there_once_in_its_furthest_state() -> None:
    done = write(1, 2)
    files = [
        Instant(done.timestamp, Action.COMMIT, InstantState.REQUESTED),
        done,
        Instant(done.timestamp, Action.COMMIT, InstantState.INFLIGHT),
    ]

    assert Timeline.of(files).instants == (done,)


def test_a_clustering_that_completed_is_one_replacecommit() -> None:
    done = write(1, 2, Action.REPLACE_COMMIT)
    files = [
        done,
        Instant(done.timestamp, Action.CLUSTERING, InstantState.REQUESTED),
        Instant(done.timestamp, Action.CLUSTERING, InstantState.INFLIGHT),
    ]

    assert Timeline.of(files).writes == (done,)


def test_a_savepoint_is_not_a_part_of_the_commit_with_its_time() -> None:
    done = write(1, 2)

    timeline = Timeline.of([done, savepoint(done)])

    assert timeline.completed_writes == (done,)
    assert timeline.savepoints == {done.timestamp}


def test_of_two_completions_of_one_savepoint_the_earlier_counts() -> None:
    early = Instant(
        write(1).timestamp, Action.SAVEPOINT, InstantState.COMPLETED, "20260301120000000"
    )
    late = Instant(
        write(1).timestamp, Action.SAVEPOINT, InstantState.COMPLETED, "20260301130000000"
    )

    assert Timeline.of([late, early]).instants == (early,)
    assert Timeline.of([early, late]).instants == (early,)


def test_a_restore_rolls_back_what_completed_later_newest_first() -> None:
    commits = [write(1, 2), write(3, 4), write(5, 6), write(7, 8)]

    later = Timeline.of(commits).completed_after(commits[1])

    assert later == (commits[3], commits[2])


def test_completion_decides_what_is_later_not_the_request() -> None:
    kept = write(3, 5)
    requested_before_completed_after = write(1, 8)
    requested_after_completed_before = write(4, 4)

    later = Timeline.of(
        [requested_before_completed_after, kept, requested_after_completed_before]
    ).completed_after(kept)

    assert later == (requested_before_completed_after,)


def test_pending_writes_are_later_than_everything_and_clusterings_come_first() -> None:
    older_pending = write(0)
    kept = write(1, 2)
    done = write(3, 9)
    clustering = write(4, action=Action.CLUSTERING)
    pending = write(5)

    later = Timeline.of([older_pending, kept, done, clustering, pending]).completed_after(kept)

    assert later == (clustering, pending, older_pending, done)


def test_what_is_older_than_the_timeline_was_committed_and_archived() -> None:
    timeline = Timeline.of([write(3, 4), write(5), write(6, 7)])

    assert timeline.is_committed(write(2).timestamp)
    assert timeline.is_committed(write(3).timestamp)
    assert not timeline.is_committed(write(4).timestamp)
    assert not timeline.is_committed(write(5).timestamp)


def test_a_pending_write_older_than_every_unsavepointed_commit_is_not_committed() -> None:
    kept, pending, other = write(1, 2), write(3), write(4, 5)
    timeline = Timeline.of([kept, savepoint(kept), pending, other, savepoint(other)])

    assert not timeline.is_committed(pending.timestamp)


def test_a_pending_write_older_than_the_timeline_is_not_committed() -> None:
    timeline = Timeline.of([write(1), write(2, 3)])

    assert not timeline.is_committed(write(1).timestamp)
    assert timeline.is_committed(write(0).timestamp)


def test_the_timeline_begins_with_its_first_completed_write_savepointed_or_not() -> None:
    kept, next_one = write(1, 2), write(5, 6)
    timeline = Timeline.of([kept, savepoint(kept), next_one])

    assert timeline.start == kept.timestamp
    assert not timeline.is_committed(write(3).timestamp)


def test_the_last_completed_write_is_found_by_its_request() -> None:
    timeline = Timeline.of([write(1, 2), write(3, 4), write(5)])

    assert timeline.last_completed_write() == write(3, 4)
    assert timeline.last_completed_write(until=write(2).timestamp) == write(1, 2)
    assert timeline.last_completed_write(until=write(0).timestamp) is None


def test_the_greatest_time_may_be_a_completion() -> None:
    assert Timeline.of([write(1, 9), write(3)]).greatest == "20260301109000000"
    assert Timeline.of([]).greatest == ""


@pytest.mark.parametrize("action", list(Action))
def test_every_action_can_be_asked_for(action: Action) -> None:
    instant = Instant("20260301100000000", action, InstantState.INFLIGHT)

    assert Timeline.of([instant]).of_action(action, InstantState.INFLIGHT) == (instant,)
    assert Timeline.of([instant]).of_action(action, InstantState.COMPLETED) == ()
