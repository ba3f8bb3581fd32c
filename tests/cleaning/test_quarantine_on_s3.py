"""Quarantine on real S3 servers, in a bucket with versions: by delete markers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from support.acid import INSERT_1, INSERT_2, MAJOR_3, MINOR_3, VACUUMED, Case, release, release_of
from support.quarantined import clean, quarantining, removal_of, undo, undo_of
from support.stepwise import Killed, killed_at
from support.versioned import FILES, TABLE, Kept, kept_bucket
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.quarantine import FOLDER
from tidegate.errors import PermanentError, TransientError
from tidegate.events import (
    CleaningRefused,
    CleaningReleased,
    CleaningUndone,
    CleaningUndoRefused,
    Outcome,
    QuarantineRemoved,
)

CASE = VACUUMED[0]
SMALL = Case("one insert", {INSERT_1: 5, MINOR_3: 9}, (MINOR_3,), 3, (INSERT_1,))
TWO = Case("two", {INSERT_1: 5, INSERT_2: 6, MINOR_3: 9}, (MINOR_3,), 3, (INSERT_1, INSERT_2))
MAJOR = {"caused_by": "vacuum-2", "kind": "major", "directories": (MAJOR_3,)}
COMMAND = release_of(CASE, TABLE)


@pytest.fixture(
    params=["moto", pytest.param("minio", marks=[pytest.mark.full, pytest.mark.timeout(1200)])]
)
def kept(request: pytest.FixtureRequest) -> Generator[Kept]:
    with kept_bucket(str(request.param)) as bucket:
        yield bucket


def cleaner_of(kept: Kept, at_step: Callable[[int], None] | None = None) -> Cleaner:
    return quarantining(Path(), warehouse=kept.warehouse(at_step))


def ended(cleaner: Cleaner, command: CleaningReleased) -> Outcome:
    (removed,) = cleaner.execute(removal_of(command))
    return removed


def refused(answer: object) -> str:
    assert isinstance(answer, CleaningUndoRefused), answer
    return answer.reason


@pytest.mark.parametrize("case", VACUUMED, ids=lambda case: case.title)
def test_what_would_go_is_hidden_comes_back_and_goes_for_good(case: Case, kept: Kept) -> None:
    kept.build(case.directories)
    before, versions = kept.files(), set(kept.versions())
    command, cleaner = release_of(case, TABLE), cleaner_of(kept)
    cleaned = clean(cleaner, command)
    assert (cleaned.mode, cleaned.directories) == ("quarantine", tuple(sorted(case.obsolete)))
    assert cleaned.files == len(FILES) * len(case.obsolete)
    assert kept.visible() == sorted(set(case.directories) - set(case.obsolete))
    assert versions <= set(kept.versions()) | {v for v in versions if v[0].endswith("/")}

    answer = undo(cleaner, undo_of(command))
    assert isinstance(answer, CleaningUndone)
    assert (answer.directories, answer.files, answer.bytes) == (
        cleaned.directories,
        cleaned.files,
        cleaned.bytes,
    )
    assert kept.files() == before
    assert undo(cleaner, undo_of(command)) == answer
    assert refused(undo(cleaner, undo_of(command, "undo-2"))) == "not-quarantined"

    assert clean(cleaner, command).files == cleaned.files
    removed = ended(cleaner, command)
    assert isinstance(removed, QuarantineRemoved)
    assert (removed.files, removed.bytes) == (cleaned.files, cleaned.bytes)
    left = {key for key, _, _ in kept.versions() if key[0] != "."}
    assert left == {key for key, _, _ in versions if key.partition("/")[0] not in case.obsolete}
    assert kept.quarantine() == []
    again = ended(cleaner, command)
    assert isinstance(again, QuarantineRemoved)
    assert again.directories == ()


def test_a_cleaner_that_died_at_any_request_leaves_a_quarantine_that_can_be_undone(
    kept: Kept,
) -> None:
    command = release_of(TWO, TABLE)
    for step in range(1, 1000):
        kept.build(TWO.directories)
        before = kept.files()
        try:
            clean(cleaner_of(kept, killed_at(step)), command)
        except Killed:
            pass
        else:
            break
        if step % 2:  # undone as it is, or after the next run
            clean(cleaner_of(kept), command)
            assert kept.visible() == sorted(set(TWO.directories) - set(TWO.obsolete))
        answer = undo(cleaner_of(kept), undo_of(command))
        if step > 1 or step % 2:
            assert isinstance(answer, CleaningUndone), (step, answer)
        assert kept.files() == before
    assert step > len(TWO.obsolete) * len(FILES)


def test_what_a_dead_cleaner_moved_in_part_stays_one_and_comes_back_with_its_own_undo(
    kept: Kept,
) -> None:
    first, later = release_of(SMALL, TABLE), release(TABLE, **MAJOR)
    for step in range(1, 1000):
        kept.build(SMALL.directories)
        before = kept.files()
        try:
            clean(cleaner_of(kept, killed_at(step)), first)
        except Killed:
            pass
        else:
            break
        for number, file in enumerate(FILES):  # a major compaction, whose cleaning comes next
            kept.put(f"{MAJOR_3}/{file}", b"x" * (30 + number))
        clean(cleaner_of(kept), later)
        assert kept.visible() == [MAJOR_3]
        if step % 2:
            assert isinstance(ended(cleaner_of(kept), first), QuarantineRemoved)
        assert isinstance(undo(cleaner_of(kept), undo_of(later)), CleaningUndone), step
        back = kept.visible()
        assert {f for f in before if f.partition("/")[0] in back} <= kept.files().keys(), step
        if step > 1 and not step % 2:
            undo(cleaner_of(kept), undo_of(first, "undo-2"))
            assert before.items() <= kept.files().items(), step
    assert step > len(SMALL.obsolete) * len(FILES)


@pytest.mark.parametrize("spoilt", ["[]", "{", '{"version": 2}'])
def test_a_record_that_is_unreadable_stops_its_own_cleaning_alone(spoilt: str, kept: Kept) -> None:
    """Also where its cleaner died half way: what it moved in part is moved into its entry."""
    first, later = release_of(SMALL, TABLE), release(TABLE, **MAJOR)
    for step in range(2, 1000):
        kept.build(SMALL.directories)
        try:
            clean(cleaner_of(kept, killed_at(step)), first)
        except Killed:
            pass
        else:
            break
        [record] = [key for key in kept.quarantine() if key.endswith("/record.json")]
        kept.put(f"{FOLDER}/{record}", spoilt.encode())
        *_, own = cleaner_of(kept).execute(first)
        if INSERT_1 in kept.visible():
            assert isinstance(own, CleaningRefused)
            assert (own.reason, f"{FOLDER}/{record} is not" in own.message) == (
                "unreadable-quarantine",
                True,
            )
        for number, file in enumerate(FILES):
            kept.put(f"{MAJOR_3}/{file}", b"x" * (30 + number))
        clean(cleaner_of(kept), later)
        assert kept.visible() == [MAJOR_3]
        assert isinstance(undo(cleaner_of(kept), undo_of(later)), CleaningUndone)
        answer = undo(cleaner_of(kept), undo_of(first))
        assert refused(answer) == "unreadable-quarantine"
        assert isinstance(answer, CleaningUndoRefused)
        assert record.partition("/")[0] in answer.message
    assert step > len(FILES)


def test_an_undo_that_died_at_any_request_is_finished_by_the_same_request(kept: Kept) -> None:
    command = release_of(SMALL, TABLE)
    for step in range(1, 1000):
        kept.build(SMALL.directories)
        before = kept.files()
        clean(cleaner_of(kept), command)
        try:
            undo(cleaner_of(kept, killed_at(step)), undo_of(command))
        except Killed:
            pass
        else:
            break
        answer = undo(cleaner_of(kept), undo_of(command))
        assert isinstance(answer, CleaningUndone)
        assert (answer.directories, kept.files()) == ((INSERT_1,), before)
    assert step > len(FILES)


def test_a_removal_that_died_at_any_request_is_finished_and_never_undone_in_part(
    kept: Kept,
) -> None:
    command = release_of(SMALL, TABLE)
    for step in range(1, 1000):
        kept.build(SMALL.directories)
        before = kept.files()
        clean(cleaner_of(kept), command)
        try:
            ended(cleaner_of(kept, killed_at(step)), command)
        except Killed:
            pass
        else:
            break
        answer = undo(cleaner_of(kept), undo_of(command))
        if isinstance(answer, CleaningUndone):  # it died before the directory was set apart
            assert kept.files() == before
            clean(cleaner_of(kept), command)
        else:
            assert kept.visible() == [SMALL.made[0]]
        ended(cleaner_of(kept), command)
        assert kept.visible() == [SMALL.made[0]]
        assert kept.versions(INSERT_1) == []
        assert kept.quarantine() == []
    assert step > 2 * len(FILES)


def test_an_object_that_is_written_again_is_neither_replaced_nor_removed(kept: Kept) -> None:
    kept.build(CASE.directories)
    cleaner = cleaner_of(kept)
    clean(cleaner, COMMAND)
    mine = kept.put(f"{INSERT_1}/bucket_00000", b"mine")
    new = kept.put(f"{INSERT_1}/new", b"mine")

    assert refused(undo(cleaner, undo_of(COMMAND))) == "name-taken"
    assert {key: size for key, size in kept.files().items() if INSERT_1 in key} == {
        f"{INSERT_1}/bucket_00000": 4,
        f"{INSERT_1}/new": 4,
    }
    ended(cleaner, COMMAND)
    left = {id_ for key, id_, is_marker in kept.versions(INSERT_1) if not is_marker}
    assert left == {mine, new}
    assert kept.files()[f"{INSERT_1}/bucket_00000"] == 4


@pytest.mark.parametrize("change", ["a version is gone", "all is gone"])
def test_an_undo_without_all_versions_is_refused_and_changes_nothing(
    change: str, kept: Kept
) -> None:
    kept.build(CASE.directories)
    cleaner = cleaner_of(kept)
    clean(cleaner, COMMAND)
    versions = [v for v in kept.versions(f"{INSERT_1}/") if not v[2] and v[0][-1] != "/"]
    for key, id_, _ in versions[:1] if change == "a version is gone" else versions:
        kept.client.delete_object(Bucket="kept", Key=f"wh/t/{key}", VersionId=id_)
    before = kept.versions()

    assert refused(undo(cleaner, undo_of(COMMAND))) == "quarantine-incomplete"
    assert kept.versions() == before


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_a_directory_of_more_objects_than_a_page_or_a_request_has(kept: Kept) -> None:
    kept.build(SMALL.directories)
    for number in range(2100):
        kept.put(f"{INSERT_1}/{number:04d}")
    kept.put(f"{INSERT_1}/0999", b"22")
    before = kept.files()
    cleaner, command = cleaner_of(kept), release_of(SMALL, TABLE)

    assert clean(cleaner, command).files == 2100 + len(FILES)
    assert kept.visible() == [SMALL.made[0]]
    assert isinstance(undo(cleaner, undo_of(command)), CleaningUndone)
    assert kept.files() == before
    clean(cleaner, command)
    ended(cleaner, command)
    left = [key for key, _, is_marker in kept.versions(INSERT_1) if not is_marker]
    assert left == [f"{INSERT_1}/0999"], "the version that it replaced is not ours"
    assert kept.visible() == [SMALL.made[0]]


@pytest.mark.full
def test_while_versions_are_suspended_nothing_is_moved_and_all_comes_back() -> None:
    with kept_bucket("minio") as kept:  # moto then removes the versions
        kept.build(CASE.directories)
        before, cleaner = kept.files(), cleaner_of(kept)
        clean(cleaner, COMMAND)
        kept.keep_versions("Suspended")
        assert isinstance(undo(cleaner, undo_of(COMMAND)), CleaningUndone)
        with pytest.raises((PermanentError, TransientError), match="without versions"):
            clean(cleaner, COMMAND)
        assert kept.files() == before


def test_two_cleaners_at_once_hide_each_object_once(kept: Kept) -> None:
    command = release_of(SMALL, TABLE)
    for step in range(1, 8):
        kept.build(SMALL.directories)
        before = kept.files()

        def let_in(number: int, step: int = step) -> None:
            if number == step:
                clean(cleaner_of(kept), command)

        clean(cleaner_of(kept, let_in), command)
        assert kept.visible() == [SMALL.made[0]]
        assert isinstance(undo(cleaner_of(kept), undo_of(command)), CleaningUndone)
        assert kept.files() == before
