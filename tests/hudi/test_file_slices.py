"""Which file slice a log file belongs to, in both forms of its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hudi.file_slice import (
    FileSlice,
    SliceRules,
    compactions_to_read,
    latest_slices,
    parse_data_file,
)
from tidegate.hudi.instant import Action, Instant, InstantState, Layout
from tidegate.hudi.timeline import Timeline

NOTHING: frozenset[tuple[str, str]] = frozenset()


def at(minute: int) -> str:
    return f"2026030110{minute:02d}00000"


def base(minute: int, group: str = "g") -> str:
    return f"{group}_0-1-2_{at(minute)}.parquet"


def log(minute: int, version: int = 1, group: str = "g", ending: str = "") -> str:
    return f".{group}_{at(minute)}.log.{version}_0-1-2{ending}"


def completed(minute: int, until: int, action: Action = Action.DELTA_COMMIT) -> Instant:
    return Instant(at(minute), action, InstantState.COMPLETED, at(until))


def pending(minute: int, action: Action = Action.DELTA_COMMIT) -> Instant:
    return Instant(at(minute), action, InstantState.INFLIGHT)


def rules(layout: Layout, *instants: Instant, compacting: int | None = None) -> SliceRules:
    compactions = {} if compacting is None else {("p", "g"): at(compacting)}
    return SliceRules(Timeline.of(instants), layout, compactions)


def names(names: list[str], by: SliceRules, until: int) -> list[str]:
    found = latest_slices("p", names, by, at(until), NOTHING)
    return [name for slice_ in found for name in slice_.file_names]


FOUR = [completed(minute, minute + 1) for minute in (1, 3, 5, 7)]


def test_in_layout_1_a_log_file_names_its_slice() -> None:
    files = [base(1), log(1), log(1, 2), base(5), log(5)]
    one = rules(Layout.ONE, *FOUR)

    assert names(files, one, 3) == sorted([base(1), log(1), log(1, 2)])
    assert names(files, one, 7) == sorted([base(5), log(5)])


def test_in_layout_2_a_log_file_belongs_to_the_newest_slice_begun_before_it_completed() -> None:
    files = [base(1), log(3), base(5), log(7)]
    two = rules(Layout.TWO, *FOUR)

    assert names(files, two, 3) == sorted([base(1), log(3)])
    assert names(files, two, 7) == sorted([base(5), log(7)])


def test_a_delta_commit_that_a_compaction_overtook_belongs_to_the_newer_slice() -> None:
    """It began first and completed after the compaction was scheduled, so that is not in it."""
    instants = [completed(1, 2), completed(3, 9), completed(5, 6, Action.COMMIT)]
    files = [base(1), log(3), base(5)]

    assert names(files, rules(Layout.TWO, *instants), 5) == sorted([base(5), log(3)])


def test_later_log_files_of_the_slice_are_in_it() -> None:
    files = [base(1), log(3), log(7)]

    assert names(files, rules(Layout.TWO, *FOUR), 3) == sorted(files)


def test_log_files_of_writes_that_never_completed_are_left_out_in_layout_2() -> None:
    files = [base(1), log(3), log(5)]
    two = rules(Layout.TWO, completed(1, 2), completed(3, 4), pending(5))

    assert names(files, two, 5) == sorted([base(1), log(3)])


def test_log_files_can_be_all_that_a_group_has() -> None:
    files = [log(3), log(5)]

    assert names(files, rules(Layout.TWO, *FOUR), 7) == sorted(files)
    assert names([log(3), log(3, 2)], rules(Layout.ONE, *FOUR), 7) == sorted([log(3), log(3, 2)])


@pytest.mark.parametrize("layout", list(Layout))
def test_what_is_written_during_a_compaction_is_a_slice_of_its_own(layout: Layout) -> None:
    written = log(5) if layout is Layout.TWO else log(4)
    instants = [completed(1, 2), completed(5, 6), pending(4, Action.COMPACTION)]
    files = [base(1), base(4), written]

    assert names(files, rules(layout, *instants, compacting=4), 5) == [written]


@pytest.mark.parametrize("layout", list(Layout))
def test_the_files_of_a_group_are_kept_while_its_compaction_is_pending(layout: Layout) -> None:
    """Hudi's savepoint of version 9 lists nothing then: its cleaner could remove the group."""
    old = log(3) if layout is Layout.TWO else log(1)
    instants = [completed(1, 2), completed(3, 3), pending(4, Action.COMPACTION)]
    files = [base(1), old, base(4)]

    assert names(files, rules(layout, *instants, compacting=4), 5) == sorted([base(1), old])


def test_change_data_belong_to_the_base_file_of_their_commit_and_to_nothing_else() -> None:
    files = [base(1), base(3), log(3, ending=".cdc"), log(5, ending=".cdc")]
    instants = [completed(1, 2, Action.COMMIT), completed(3, 4, Action.COMMIT)]
    archived = ".g_20260228100000000.log.1_0-1-2.cdc"

    for layout in Layout:
        by = rules(layout, *instants)
        assert names(files, by, 5) == sorted(files[1:3])
        assert names([archived], by, 5) == []


MINUTES = st.integers(min_value=1, max_value=30)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Instant], list[str], int]:
    """Overlapping delta commits and compactions of one group, and the files that they wrote."""
    starts = draw(st.lists(MINUTES, unique=True, min_size=1, max_size=8))
    instants, files = list[Instant](), list[str]()
    for start in sorted(starts):
        compacts = draw(st.booleans())
        done = draw(st.booleans())
        action = Action.COMMIT if compacts else Action.DELTA_COMMIT
        end = start + draw(st.integers(min_value=1, max_value=9))
        instants.append(completed(start, end, action) if done else pending(start, action))
        files.append(base(start) if compacts else log(start))
    return instants, files, draw(MINUTES)


def test_a_log_file_older_than_all_slices_and_the_timeline_is_of_the_newest_as_in_hudi() -> None:
    """What a writer that died left was not removed when it was rolled back, and both archived."""
    two = rules(Layout.TWO, *FOUR[1:])
    assert names([log(2), base(3), base(5), log(7)], two, 7) == sorted([log(2), base(5), log(7)])
    assert names([log(2), base(3), base(5), log(7)], two, 3) == [base(3)]
    # its slice is there, so it is of that
    assert names([base(1), log(2), base(3)], two, 7) == [base(3)]
    # no slice but its own
    assert names([log(2)], two, 7) == [log(2)]
    # on the timeline, by a writer that inserts into log files first
    known = rules(Layout.TWO, completed(2, 3), *FOUR[1:])
    assert names([log(2), base(5)], known, 7) == [base(5)]


OVERTAKEN = [base(1), log(2), base(3), base(5)]
"""The delta commit of 2 was requested before the compactions of 3 and 5, and is archived."""


@pytest.mark.parametrize(
    ("merged", "newest"),
    [
        pytest.param({3: [log(2)]}, [base(5)], id="before the first"),
        pytest.param({3: [], 5: [log(2)]}, [base(5)], id="after the first"),
        pytest.param({3: [], 5: []}, [log(2), base(5)], id="after both"),
        pytest.param({3: [log(2)], 5: []}, [base(5)], id="merged once is merged"),
    ],
)
def test_a_log_file_of_an_archived_delta_commit_is_of_the_slice_that_no_compaction_merged(
    merged: dict[int, list[str]], newest: list[str]
) -> None:
    kept = [completed(3, 4, Action.COMMIT), completed(5, 6, Action.COMMIT), completed(7, 8)]
    two = rules(Layout.TWO, *kept)
    assert compactions_to_read("p", OVERTAKEN, two) == {at(3), at(5)}
    read = {at(minute): {("p", name) for name in files} for minute, files in merged.items()}
    assert names(OVERTAKEN, replace(two, merged=read), 7) == sorted(newest)


def test_a_plan_says_nothing_of_a_file_group_of_the_same_name_elsewhere() -> None:
    two = rules(Layout.TWO, completed(3, 4, Action.COMMIT), completed(7, 8))
    elsewhere = replace(two, merged={at(3): {("q", log(2))}})
    assert names([base(1), log(2), base(3)], elsewhere, 7) == sorted([log(2), base(3)])


def test_a_log_file_is_kept_with_both_slices_if_the_compaction_is_archived_too() -> None:
    """More than Hudi keeps, which can ask its archive. Nothing is lost."""
    two = rules(Layout.TWO, completed(7, 8))
    assert compactions_to_read("p", [base(1), log(2), base(3)], two) == {at(3)}
    assert names([base(1), log(2), base(3)], two, 7) == sorted([log(2), base(3)])
    assert names([base(1), log(2), base(3)], two, 2) == sorted([base(1), log(2)])


@pytest.mark.parametrize(
    ("files", "merged", "until", "expected"),
    [
        pytest.param(
            [log(2), base(3), base(5)], {5: [log(2)]}, 4, [base(3), log(2)],
            id="the slice before is cleaned, and the compaction after the archived one merged it",
        ),
        pytest.param(
            [base(1), log(2), base(3), base(5)], {5: []}, 7, [base(5), log(2)],
            id="the one after the archived one did not merge it",
        ),
        pytest.param(
            [base(1), log(2), base(3), base(5)], {5: []}, 4, [base(3)],
            id="then it is not of the slice between",
        ),
        pytest.param(
            [log(2), base(5)], {}, 4, [log(2)],
            id="a group that began with log files, before a base file that is not of a compaction",
        ),
    ],
)  # fmt: skip
def test_every_slice_that_an_archived_delta_commit_may_be_of_keeps_its_log_file(
    files: list[str], merged: dict[int, list[str]], until: int, expected: list[str]
) -> None:
    """Those of 2 and 3 are archived."""
    kept = [completed(4, 5), completed(5, 6, Action.COMMIT), completed(7, 8)]
    read = {at(minute): {("p", name) for name in files} for minute, files in merged.items()}
    two = replace(rules(Layout.TWO, *kept), merged=read)
    assert names(files, two, until) == sorted(expected)


def test_a_log_file_is_kept_with_each_slice_of_archived_compactions() -> None:
    two = rules(Layout.TWO, completed(7, 8))
    assert names(OVERTAKEN, two, 7) == sorted([log(2), base(5)])
    assert names(OVERTAKEN, two, 4) == sorted([log(2), base(3)])


def test_a_pending_compaction_s_plan_counts_too() -> None:
    two = rules(Layout.TWO, completed(7, 8), compacting=5)
    assert compactions_to_read("p", [base(1), log(2)], two) == {at(5)}
    overtaken = replace(two, merged={at(5): set[tuple[str, str]]()})
    assert names([base(1), log(2)], overtaken, 7) == [log(2)]
    merged = replace(two, merged={at(5): {("p", log(2))}})
    assert names([base(1), log(2)], merged, 7) == sorted([base(1), log(2)])


def test_no_plan_is_read_where_the_timeline_says_it_all() -> None:
    files = [base(1), log(1), base(3), log(5), log(2, ending=".cdc"), base(1, "h"), base(3, "h")]
    assert not compactions_to_read("p", files, rules(Layout.TWO, *FOUR))
    assert not compactions_to_read("p", files, rules(Layout.ONE, completed(9, 10)))
    # nothing came after it
    assert not compactions_to_read("p", [base(1), log(2)], rules(Layout.TWO, completed(7, 8)))


@given(histories())
def test_the_newest_slice_has_every_committed_log_file_that_its_base_misses(
    history: tuple[list[Instant], list[str], int],
) -> None:
    instants, files, until = history
    by = rules(Layout.TWO, *instants)

    found = latest_slices("p", files, by, at(until), NOTHING)

    bases = [i.timestamp for i in by.timeline.completed_writes if i.action is Action.COMMIT]
    newest = max((instant for instant in bases if instant <= at(until)), default="")
    following = min((instant for instant in bases if instant > at(until)), default="~")
    needed = {
        f".g_{i.timestamp}.log.1_0-1-2"
        for i in by.timeline.completed_writes
        if i.action is Action.DELTA_COMMIT and newest <= (i.completion or "") < following
    }
    if newest:
        (only,) = found
        assert only.instant == newest
        assert {log_file.file_name for log_file in only.logs} == needed
    for slice_ in found:
        check_only_committed(slice_, by)


def check_only_committed(slice_: FileSlice, by: SliceRules) -> None:
    for name in slice_.file_names:
        file = parse_data_file(name)
        assert file is not None
        assert by.timeline.is_committed(file.instant)
