from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.acid import (
    DELETE_4,
    FIVE_LISTINGS,
    INSERT_1,
    INSERT_2,
    INSERT_3,
    INSERT_4,
    INSERTS,
    MINOR_3,
    MINOR_4,
    MINOR_DELETES_4,
    NOON,
    build,
    names_in,
    release,
    release_of,
    tree,
)
from support.interfering import Interfering
from support.samples import events_on, memory_bus, message, outcomes_on, work_off
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import (
    CleaningReleased,
    CleaningStarted,
    DirectoriesCleaned,
    TaskEnd,
    TaskEnded,
)
from tidegate.events.cleanings import PartsJoiner
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.retry import DENIED_ATTEMPTS, RetryPolicy
from tidegate.tables import task_numbers
from tidegate.tables.claim import HIVE
from tidegate.tables.warehouse import Warehouse

AFTER_MINOR = FIVE_LISTINGS[1].directories
WITH_DELETES = FIVE_LISTINGS[4]


def fails_to_clean(warehouse: Warehouse, command: CleaningReleased) -> str:
    outcomes = Cleaner(warehouse, ThreadMap(1), lambda: NOON).execute(command)
    assert isinstance(next(outcomes), CleaningStarted)
    with pytest.raises((TransientError, OSError)) as error:
        next(outcomes)
    return str(error.value)


def fail_at(*names: str) -> Callable[[str], None]:
    def remove(name: str) -> None:
        if name in names:
            raise PermissionError(13, "the disk is read-only", name)

    return remove


def test_a_table_that_is_refused_after_the_removal_is_not_reported_as_clean(tmp_path: Path) -> None:
    table = build(tmp_path / "t", AFTER_MINOR)

    def lose_the_product(name: str) -> None:
        if name == INSERTS[-1]:
            shutil.rmtree(table / MINOR_3)

    error = fails_to_clean(Interfering(tmp_path, after=lose_the_product), release(str(table)))
    assert "products-missing" in error


def test_what_could_not_be_removed_is_reported_with_its_cause(tmp_path: Path) -> None:
    table = build(tmp_path / "t", AFTER_MINOR)
    error = fails_to_clean(Interfering(tmp_path, fail_at(INSERT_2)), release(str(table)))
    assert INSERT_2 in error
    assert "the disk is read-only" in error
    assert names_in(table) == [MINOR_3, INSERT_2]


def test_no_delete_delta_is_removed_while_a_row_that_it_deletes_is_still_there(
    tmp_path: Path,
) -> None:
    table = build(tmp_path / "t", WITH_DELETES.directories)
    warehouse = Interfering(tmp_path, fail_at(INSERT_1))
    fails_to_clean(warehouse, release_of(WITH_DELETES, str(table)))
    assert names_in(table) == sorted((INSERT_1, DELETE_4, MINOR_4, MINOR_DELETES_4))
    assert DELETE_4 not in warehouse.removed
    assert {INSERT_2, INSERT_3, INSERT_4} <= set(warehouse.removed)


def replace_by_a_larger_table(table: Path) -> None:
    shutil.rmtree(table)
    build(table, {name: size + 1 for name, size in AFTER_MINOR.items()})


def replace_by_a_newer_table(table: Path) -> None:
    shutil.rmtree(table)
    for file in build(table, AFTER_MINOR).rglob("*"):
        later = file.stat().st_mtime + 60
        os.utime(file, (later, later))


def rewrite_the_inserts(table: Path) -> None:
    for name in INSERTS:
        shutil.rmtree(table / name, ignore_errors=True)
        build(table, {name: 5000})


@pytest.mark.parametrize(
    "replace", [replace_by_a_larger_table, replace_by_a_newer_table, rewrite_the_inserts]
)
def test_a_table_that_is_replaced_while_it_is_cleaned_keeps_its_new_directories(
    replace: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned again it would be cleaned: the new table's products contain its rows."""
    monkeypatch.setattr("tidegate.cleaning.executor._ROUNDS", 1)
    table = build(tmp_path / "t", AFTER_MINOR)
    replaced: list[dict[str, int | str]] = []

    def after(name: str) -> None:
        if name == INSERT_1:
            replace(table)
            replaced.append(tree(table))

    warehouse = Interfering(tmp_path, after=after)
    error = fails_to_clean(warehouse, release(str(table)))
    assert "changed since the plan" in error
    assert warehouse.removed == [INSERT_1]
    assert [tree(table)] == replaced


def test_nothing_more_is_removed_once_a_product_is_gone(tmp_path: Path) -> None:
    table = build(tmp_path / "t", AFTER_MINOR)

    def after(name: str) -> None:
        if name == INSERT_1:
            (table / MINOR_3 / "bucket_00000").unlink()

    warehouse = Interfering(tmp_path, after=after)
    assert "products-incomplete" in fails_to_clean(warehouse, release(str(table)))
    assert names_in(table) == [MINOR_3, INSERT_2, INSERT_3]


def test_a_directory_that_another_cleaner_is_removing_is_not_a_replaced_one(tmp_path: Path) -> None:
    table = build(tmp_path / "t", AFTER_MINOR)

    def after(name: str) -> None:
        if name == INSERT_1:
            (table / INSERT_2 / "bucket_00000").unlink()
            shutil.rmtree(table / INSERT_3)

    cleaner = Cleaner(Interfering(tmp_path, after=after), ThreadMap(1), lambda: NOON)
    *_, cleaned = cleaner.execute(release(str(table)))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert names_in(table) == [MINOR_3]


class FailingWarehouse(Interfering):
    """Its storage answers with one error for so many removals."""

    def __init__(self, root: Path, number: int, times: int) -> None:
        super().__init__(root, before=self.fail)
        self.number, self.left = number, times

    def fail(self, name: str) -> None:
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number), name)


@pytest.mark.parametrize(
    ("number", "attempts"),
    [
        pytest.param(errno.ENAMETOOLONG, 1, id="a name too long"),
        pytest.param(errno.ELOOP, 1, id="a loop of links"),
        pytest.param(errno.EACCES, DENIED_ATTEMPTS, id="no permission"),
        pytest.param(errno.EROFS, DENIED_ATTEMPTS, id="mounted read-only"),
    ],
)
def test_what_can_never_be_removed_is_dead_lettered_soon_with_the_file_systems_reason(
    number: int, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_numbers, "FRESH_SECONDS", -1.0)
    table, bus = build(tmp_path / "t", AFTER_MINOR), memory_bus()
    bus.send([message(release(str(table)))])
    cleaner = Cleaner(FailingWarehouse(tmp_path, number, 10**6), ThreadMap(1), lambda: NOON)
    work_off(ExecutorLoop(cleaner, bus, retries=RetryPolicy(50, 0.001, 0.001)))

    assert [type(it) for it in outcomes_on(bus)] == [CleaningStarted] * attempts
    ended = events_on(bus, "tidegate.outcomes")[-1]
    assert isinstance(ended, TaskEnded)
    assert ended.end is TaskEnd.DEAD_LETTERED
    [dead_letter] = bus.records("tidegate.dead-letters")
    assert os.strerror(number).encode() in (dict(dead_letter.headers)["x-exception-message"] or b"")


@pytest.mark.parametrize("number", [errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EBUSY])
def test_a_removal_that_may_succeed_later_is_tried_again(number: int, tmp_path: Path) -> None:
    table, bus = build(tmp_path / "t", AFTER_MINOR), memory_bus()
    bus.send([message(release(str(table)))])
    storage = FailingWarehouse(tmp_path, number, 50)
    cleaner = Cleaner(storage, ThreadMap(1), lambda: NOON)
    work_off(ExecutorLoop(cleaner, bus, retries=RetryPolicy(50, 0.001, 0.001)))

    *_, last, ended = events_on(bus, "tidegate.outcomes")
    assert isinstance(last, DirectoriesCleaned)
    assert isinstance(ended, TaskEnded)
    assert ended.end is TaskEnd.ANSWERED
    assert names_in(table) == [HIVE, MINOR_3]
    assert bus.records("tidegate.dead-letters") == []


def test_one_directory_that_may_go_later_keeps_the_others_waiting(tmp_path: Path) -> None:
    faults = {INSERT_1: errno.EIO, INSERT_2: errno.EACCES, INSERT_3: errno.EACCES}
    table = build(tmp_path / "t", AFTER_MINOR)

    def fail(name: str) -> None:
        raise OSError(faults[name], os.strerror(faults[name]), name)

    command = release(str(table))
    outcomes = Cleaner(Interfering(tmp_path, fail), ThreadMap(1), lambda: NOON).execute(command)
    next(outcomes)
    with pytest.raises(TransientError, match=INSERT_1):
        next(outcomes)


def test_names_that_do_not_fit_into_one_message_go_out_in_parts_that_readers_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.events.cleanings.MAX_NAME_BYTES", 2 * (len(INSERT_1) + 4))
    table, bus = build(tmp_path / "t", AFTER_MINOR), memory_bus()
    bus.send([message(release(str(table)))])
    cleaner = Cleaner(Interfering(tmp_path), ThreadMap(1), lambda: NOON)
    work_off(ExecutorLoop(cleaner, bus))

    *outcomes, ended = events_on(bus, "tidegate.outcomes")
    assert isinstance(ended, TaskEnded)
    assert len({outcome.event_id for outcome in outcomes}) == len(outcomes) == 4
    listed = [
        outcome for outcome in outcomes if isinstance(outcome, CleaningStarted | DirectoriesCleaned)
    ]
    assert [(outcome.part, outcome.parts) for outcome in listed] == [(1, 2), (2, 2)] * 2
    assert [len(outcome.directories) for outcome in listed] == [2, 1, 2, 1]
    started, cleaned = filter(None, map(PartsJoiner().add, listed))
    assert isinstance(started, CleaningStarted)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert started.directories == cleaned.directories == INSERTS
    assert (cleaned.files, cleaned.part) == (2 * len(INSERTS), None)
    assert cleaned.bytes == sum(AFTER_MINOR[name] + 1 for name in INSERTS)
    assert names_in(table) == [HIVE, MINOR_3]
