"""Quarantine moves what would go, undo puts it back, and a crash anywhere loses nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.acid import (
    DELETE_4,
    FIVE_LISTINGS,
    INSERT_1,
    INSERT_2,
    INSERTS,
    MAJOR_3,
    MINOR_3,
    VACUUMED,
    Case,
    build,
    names_in,
    release,
    release_of,
    tree,
)
from support.quarantined import (
    DyingWarehouse,
    clean,
    in_quarantine,
    quarantining,
    removal_of,
    steps_of,
    undo,
    undo_of,
    visible,
)
from support.stepwise import Killed, killed_at
from tidegate.cleaning.quarantine import FOLDER, LEAVING, RECORD, UNDONE
from tidegate.cleaning.settings import CleaningSettings
from tidegate.errors import ConfinementError, TransientError
from tidegate.events import (
    CleaningMode,
    CleaningRefused,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRefused,
    QuarantineRemoved,
)
from tidegate.tables.warehouse import Move, Warehouse, WarehouseRoots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER_MINOR = FIVE_LISTINGS[1].directories
DELETES = FIVE_LISTINGS[4]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "wh").mkdir()
    return tmp_path / "wh"


@pytest.mark.parametrize("case", VACUUMED, ids=lambda case: case.title)
def test_what_would_go_is_moved_aside_and_comes_back_as_it_was(case: Case, root: Path) -> None:
    table = build(root / "t", case.directories)
    before = tree(table)
    command, cleaner = release_of(case, str(table)), quarantining(root)
    cleaned = clean(cleaner, command)
    assert cleaned.directories == tuple(sorted(case.obsolete))
    assert (cleaned.mode, cleaned.keep_ms) == ("quarantine", 72 * 3_600_000)
    assert visible(table) == sorted(set(case.directories) - set(case.obsolete))
    assert in_quarantine(table) == sorted(case.obsolete)

    answer = undo(cleaner, undo_of(command))

    assert isinstance(answer, CleaningUndone)
    assert answer.directories == cleaned.directories
    assert (answer.files, answer.bytes) == (cleaned.files, cleaned.bytes)
    assert {k: v for k, v in tree(table).items() if not k.startswith(FOLDER)} == before


def test_the_record_says_which_vacuum_when_why_and_the_original_paths(root: Path) -> None:
    table = build(root / "t" / "day=1", AFTER_MINOR).parent
    command = release(str(table), partition="day=1")
    clean(quarantining(root), command)
    (record,) = (table / "day=1" / FOLDER).glob(f"*/{RECORD}")
    said = json.loads(record.read_text())
    assert said["paths"] == [f"day=1/{name}" for name in INSERTS]
    assert (said["cleaning"], said["vacuum"]) == (command.event_id, "vacuum-1")
    assert (said["at"], said["keep_ms"]) == ("2026-01-01T12:00:00+00:00", 259_200_000)
    assert said["why"]


def test_a_plan_of_an_undo_changes_nothing(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    command, cleaner = release(str(table)), quarantining(root)
    clean(cleaner, command)
    before = tree(table)
    answer = undo(cleaner, undo_of(command, plan_only=True))
    assert isinstance(answer, CleaningUndoPlanned)
    assert answer.directories == INSERTS
    assert tree(table) == before


def test_the_mode_follows_the_first_rule_that_matches_and_expiry_quarantines(root: Path) -> None:
    delete, keep = CleaningMode.DELETE, CleaningMode.QUARANTINE
    found = [{"tables": "hive.raw.*", "mode": delete}, {"tables": "hive.*", "mode": keep}]
    rules = CleaningSettings.model_validate({"rules": found})
    table = build(root / "t", AFTER_MINOR)
    raw, expired = {"table": "hive.raw.t"}, {"after_expiry": True}
    command = release(str(table))
    assert rules.handling(command).mode is keep
    assert rules.handling(release(str(table), **raw)).mode is delete
    assert rules.handling(release(str(table), **raw, **expired)).mode is keep
    assert CleaningSettings().handling(command).mode is delete
    assert CleaningSettings().handling(release(str(table), **expired)).mode is keep
    trusting = CleaningSettings(after_expiry=delete)
    assert trusting.handling(release(str(table), **expired)).mode is delete
    assert not trusting.may_quarantine
    assert CleaningSettings().may_quarantine


def test_a_cleaning_that_deletes_can_not_be_undone(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    command, cleaner = release(str(table)), quarantining(root, CleaningSettings())
    cleaned = clean(cleaner, command)
    assert (cleaned.mode, cleaned.keep_ms) == ("delete", None)
    assert names_in(table) == [MINOR_3]
    assert refused(cleaner_answer(root, command)) == "not-quarantined"


def cleaner_answer(root: Path, command: CleaningReleased) -> object:
    return undo(quarantining(root), undo_of(command))


def refused(answer: object) -> str:
    assert isinstance(answer, CleaningUndoRefused), answer
    return answer.reason


def break_product(table: Path) -> None:
    (table / MINOR_3 / "bucket_00000").unlink()


def remove_product(table: Path) -> None:
    for file in (table / MINOR_3).iterdir():
        file.unlink()
    (table / MINOR_3).rmdir()


def lose_one(table: Path) -> None:
    (gone,) = table.glob(f"{FOLDER}/*/{INSERT_1}")
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()


def change_one(table: Path) -> None:
    (kept,) = table.glob(f"{FOLDER}/*/{INSERT_2}")
    (kept / "bucket_00000").write_text("other")


def take_the_name(table: Path) -> None:
    build(table, {INSERT_1: 5})


def make_it_leave(table: Path) -> None:
    (kept,) = table.glob(f"{FOLDER}/*/{INSERT_1}")
    kept.rename(kept.with_name(LEAVING + INSERT_1))


def add_a_stranger(table: Path) -> None:
    (entry,) = table.glob(f"{FOLDER}/*")
    build(entry, {"delta_0000002_0000002_0007": 4})


def spoil_the_record(table: Path) -> None:
    (record,) = table.glob(f"{FOLDER}/*/{RECORD}")
    record.write_text("[]")


def spoil_what_was_undone(table: Path) -> None:
    (entry,) = table.glob(f"{FOLDER}/*")
    (entry / UNDONE).write_text("[]")


def nest_the_record(table: Path) -> None:
    (record,) = table.glob(f"{FOLDER}/*/{RECORD}")
    record.write_text("[" * 200_000)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(break_product, "rows-twice", id="the product has no rows any more"),
        pytest.param(remove_product, "rows-twice", id="the product is gone"),
        pytest.param(lose_one, "quarantine-incomplete", id="one is gone"),
        pytest.param(change_one, "quarantine-incomplete", id="one was changed"),
        pytest.param(take_the_name, "name-taken", id="the table has the name again"),
        pytest.param(make_it_leave, "quarantine-incomplete", id="its removal began"),
        pytest.param(add_a_stranger, "unreadable-quarantine", id="a directory of others"),
        pytest.param(spoil_the_record, "unreadable-quarantine", id="not a valid record"),
        pytest.param(spoil_what_was_undone, "unreadable-quarantine", id="not a valid undo"),
        pytest.param(nest_the_record, "unreadable-quarantine", id="a record nested too deeply"),
    ],
)
def test_an_undo_that_could_harm_is_refused_and_changes_nothing(
    change: Callable[[Path], None], reason: str, root: Path
) -> None:
    table = build(root / "t", AFTER_MINOR)
    command = release(str(table))
    clean(quarantining(root), command)
    change(table)
    before = tree(table)
    assert refused(cleaner_answer(root, command)) == reason
    assert tree(table) == before


def test_an_unreadable_record_stops_its_own_cleaning_alone(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    first, cleaner = release(str(table)), quarantining(root)
    clean(cleaner, first)
    spoil_the_record(table)
    build(table, {MAJOR_3: 30})
    later = release(str(table), caused_by="vacuum-2", kind="major", directories=(MAJOR_3,))
    clean(cleaner, later)

    assert isinstance(undo(cleaner, undo_of(later)), CleaningUndone)
    assert visible(table) == sorted([MAJOR_3, MINOR_3])
    clean(cleaner, later)
    (removed,) = cleaner.execute(removal_of(later))
    assert isinstance(removed, QuarantineRemoved)
    assert in_quarantine(table) == list(INSERTS)
    (own,) = cleaner.execute(removal_of(first))
    assert isinstance(own, CleaningRefused)
    assert own.reason == "unreadable-quarantine"
    assert in_quarantine(table) == list(INSERTS)


def test_an_undo_of_a_table_that_is_gone_or_elsewhere_is_refused(root: Path) -> None:
    command = release(str(root / "t"))
    assert refused(cleaner_answer(root, command)) == "no-such-table"
    outside = undo(quarantining(root), undo_of(release("/elsewhere/t")))
    assert refused(outside) == "outside-warehouse"
    bad = undo(quarantining(root), undo_of(command, partition="../u"))
    assert refused(bad) == "bad-partition"


def test_a_quarantine_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    (tmp_path / "elsewhere").mkdir()
    (table / FOLDER).symlink_to(tmp_path / "elsewhere")
    started, fault = _answers(root, release(str(table)))
    assert isinstance(started, CleaningStarted)
    assert isinstance(fault, ConfinementError)
    assert names_in(tmp_path / "elsewhere") == []
    assert visible(table) == sorted(AFTER_MINOR)


def _answers(root: Path, command: CleaningReleased) -> Iterator[object]:
    try:
        yield from quarantining(root).execute(command)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        yield error


def test_a_repeated_undo_has_the_same_answer_and_another_one_has_none(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    command, cleaner = release(str(table)), quarantining(root)
    clean(cleaner, command)
    first = undo(cleaner, undo_of(command))
    assert undo(cleaner, undo_of(command)) == first
    assert refused(undo(cleaner, undo_of(command, "undo-2"))) == "not-quarantined"


def test_what_was_put_back_can_be_cleaned_and_put_back_once_more(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    command, cleaner = release(str(table)), quarantining(root)
    for request in ("undo-1", "undo-2", "undo-1"):
        assert clean(cleaner, command).directories == INSERTS
        assert isinstance(undo(cleaner, undo_of(command, request)), CleaningUndone)
        assert visible(table) == sorted(AFTER_MINOR)


def test_delete_deltas_go_last_and_come_back_first(root: Path) -> None:
    table = build(root / "t", DELETES.directories)
    order: list[str] = []

    class Watched(DyingWarehouse):
        def step(self) -> None:
            order.append(DELETE_4 if (table / DELETE_4).exists() else "")

    command = release_of(DELETES, str(table))
    watched = Watched(root, lambda _: None)
    clean(quarantining(root, warehouse=watched), command)
    assert order == [DELETE_4] * len(DELETES.obsolete)
    order.clear()
    undo(quarantining(root, warehouse=watched), undo_of(command))
    assert order == ["", *[DELETE_4] * (len(DELETES.obsolete) - 1)]


def test_when_its_time_is_over_all_of_it_goes_and_asked_again_nothing_happens(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    command, cleaner = release(str(table)), quarantining(root)
    cleaned = clean(cleaner, command)
    (removed,) = cleaner.execute(removal_of(command))
    assert isinstance(removed, QuarantineRemoved)
    assert (removed.directories, removed.files, removed.bytes) == (
        cleaned.directories,
        cleaned.files,
        cleaned.bytes,
    )
    assert names_in(table) == [MINOR_3]
    (again,) = cleaner.execute(removal_of(command))
    assert isinstance(again, QuarantineRemoved)
    assert again.directories == ()


def test_the_end_of_one_cleanings_quarantine_leaves_the_others(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    first, cleaner = release(str(table)), quarantining(root)
    clean(cleaner, first)
    build(table, {"delta_0000004_0000004_0000": 3, "delta_0000001_0000004": 9})
    later = release(
        str(table),
        caused_by="vacuum-2",
        directories=("delta_0000001_0000004",),
        max_write_id=4,
        valid_write_ids=f"default.table_txn_001:4:{2**63 - 1}::",
    )
    assert clean(cleaner, later).directories == (MINOR_3, "delta_0000004_0000004_0000")
    list(cleaner.execute(removal_of(later)))
    assert in_quarantine(table) == list(INSERTS)
    assert refused(undo(cleaner, undo_of(first))) == "rows-twice"


def test_cleanings_are_undone_in_any_order_while_the_last_product_hides_all(root: Path) -> None:
    table = build(root / "t", AFTER_MINOR)
    first, cleaner = release(str(table)), quarantining(root)
    clean(cleaner, first)
    build(table, {"base_0000003_v0000009": 9})
    later = release(
        str(table), caused_by="vacuum-2", kind="major", directories=("base_0000003_v0000009",)
    )
    assert clean(cleaner, later).directories == (MINOR_3,)
    assert isinstance(undo(cleaner, undo_of(first)), CleaningUndone)
    assert isinstance(undo(cleaner, undo_of(later, "undo-2")), CleaningUndone)
    assert visible(table) == sorted([*AFTER_MINOR, "base_0000003_v0000009"])


def test_a_removal_at_a_bad_place_is_refused(root: Path) -> None:
    (answer,) = quarantining(root).execute(removal_of(release("/elsewhere")))
    assert isinstance(answer, CleaningRefused)
    assert answer.reason == "outside-warehouse"


def test_a_cleaner_that_died_at_any_step_leaves_a_quarantine_that_can_be_undone(root: Path) -> None:
    def table_at(name: str) -> Path:
        return build(root / name, DELETES.directories)

    def cleaned(warehouse: DyingWarehouse, table: Path) -> None:
        list(quarantining(root, warehouse=warehouse).execute(release_of(DELETES, str(table))))

    count = steps_of(lambda it: cleaned(it, table_at("whole")), root)
    assert count > len(DELETES.obsolete)
    for step in range(1, count + 1):
        table = table_at(f"t{step}")
        command = release_of(DELETES, str(table))
        with pytest.raises(Killed):
            cleaned(DyingWarehouse(root, killed_at(step)), table)
        clean(quarantining(root), command)
        assert in_quarantine(table) == sorted(DELETES.obsolete)
        answer = undo(quarantining(root), undo_of(command))
        assert isinstance(answer, CleaningUndone)
        assert answer.directories == tuple(sorted(DELETES.obsolete))
        assert visible(table) == sorted(DELETES.directories)


def test_an_undo_that_died_at_any_step_is_finished_by_the_same_request(root: Path) -> None:
    def quarantined(name: str) -> CleaningReleased:
        table = build(root / name, DELETES.directories)
        clean(quarantining(root), release_of(DELETES, str(table)))
        return release_of(DELETES, str(table))

    def undone(warehouse: DyingWarehouse, command: CleaningReleased) -> None:
        list(quarantining(root, warehouse=warehouse).execute(undo_of(command)))

    count = steps_of(lambda it: undone(it, quarantined("whole")), root)
    assert count > len(DELETES.obsolete)
    for step in range(1, count + 1):
        command = quarantined(f"t{step}")
        with pytest.raises(Killed):
            undone(DyingWarehouse(root, killed_at(step)), command)
        answer = undo(quarantining(root), undo_of(command))
        assert isinstance(answer, CleaningUndone)
        assert answer.directories == tuple(sorted(DELETES.obsolete))
        assert visible(root / f"t{step}") == sorted(DELETES.directories)


def test_a_removal_that_died_at_any_step_is_finished_and_never_undone_in_part(root: Path) -> None:
    def quarantined(name: str) -> CleaningReleased:
        table = build(root / name, AFTER_MINOR)
        clean(quarantining(root), release(str(table)))
        return release(str(table))

    def removed(warehouse: DyingWarehouse, command: CleaningReleased) -> None:
        list(quarantining(root, warehouse=warehouse).execute(removal_of(command)))

    count = steps_of(lambda it: removed(it, quarantined("whole")), root)
    for step in range(1, count + 1):
        command = quarantined(f"t{step}")
        with pytest.raises(Killed):
            removed(DyingWarehouse(root, killed_at(step)), command)
        answer = undo(quarantining(root), undo_of(command))
        table = root / f"t{step}"
        if isinstance(answer, CleaningUndone):  # it died before the first directory was set apart
            assert visible(table) == sorted(AFTER_MINOR)
        else:
            assert visible(table) == [MINOR_3]
        list(quarantining(root).execute(removal_of(command)))
        assert in_quarantine(table) == []
        assert not (table / FOLDER).exists()


def test_two_cleaners_at_once_move_each_directory_once(root: Path) -> None:
    for step in range(1, 8):
        table = build(root / f"t{step}", AFTER_MINOR)
        command = release(str(table))

        def let_in(number: int, step: int = step, command: CleaningReleased = command) -> None:
            if number == step:
                clean(quarantining(root), command)

        clean(quarantining(root, warehouse=DyingWarehouse(root, let_in)), command)
        assert in_quarantine(table) == list(INSERTS)
        assert isinstance(undo(quarantining(root), undo_of(command)), CleaningUndone)
        assert visible(table) == sorted(AFTER_MINOR)


def test_an_undo_and_a_removal_at_once_leave_each_directory_whole_or_gone(root: Path) -> None:
    for step in range(1, 10):
        table = build(root / f"t{step}", AFTER_MINOR)
        command = release(str(table))
        clean(quarantining(root), command)

        def let_in(number: int, step: int = step, command: CleaningReleased = command) -> None:
            if number == step:
                list(quarantining(root).execute(removal_of(command)))

        for _ in _during(root, DyingWarehouse(root, let_in), command):
            pass
        for name in visible(table):
            assert (table / name / "bucket_00000").stat().st_size == AFTER_MINOR[name]


def test_an_undo_that_met_a_half_done_removal_does_not_say_that_all_is_back(root: Path) -> None:
    for step, killed in product(range(1, 6), range(1, 9)):
        table = build(root / f"t{step}-{killed}", AFTER_MINOR)
        command = release(str(table))
        clean(quarantining(root), command)

        def let_in(
            number: int, step: int = step, killed: int = killed, its: CleaningReleased = command
        ) -> None:
            if number == step:
                dying = DyingWarehouse(root, killed_at(killed))
                with suppress(Killed):
                    list(quarantining(root, warehouse=dying).execute(removal_of(its)))

        answers = list(_during(root, DyingWarehouse(root, let_in), command))
        if any(isinstance(answer, CleaningUndone) for answer in answers):
            assert visible(table) == sorted(AFTER_MINOR), (step, killed)


def test_an_undo_whose_table_is_dropped_meanwhile_is_refused_at_the_next_attempt(
    root: Path,
) -> None:
    table = build(root / "t", AFTER_MINOR)
    command = release(str(table))
    clean(quarantining(root), command)

    class Dropping(Warehouse):
        @contextmanager
        def moving_back(self, source: str, target: str) -> Generator[Move]:
            with super().moving_back(source, target) as move:
                yield move
            shutil.rmtree(table)

    dropping = quarantining(root, warehouse=Dropping(WarehouseRoots.of(str(root))))
    with pytest.raises(TransientError, match="gone"):
        list(dropping.execute(undo_of(command)))
    assert refused(cleaner_answer(root, command)) == "no-such-table"


def _during(root: Path, warehouse: DyingWarehouse, command: CleaningReleased) -> Iterator[object]:
    try:
        yield from quarantining(root, warehouse=warehouse).execute(undo_of(command))
    except Exception as error:  # noqa: BLE001 - the loop would try again; here only the disk counts
        yield error


@pytest.mark.spark
def test_spark_passes_over_a_quarantine_as_over_every_hidden_directory(
    root: Path, spark: SparkSession
) -> None:
    table = build(root / "t", AFTER_MINOR)
    command = release(str(table))
    reading = spark.read.option("recursiveFileLookup", "true")
    before = len(reading.text(str(table)).inputFiles())
    clean(quarantining(root), command)
    (file,) = reading.text(str(table)).inputFiles()
    assert before == len(AFTER_MINOR)
    assert MINOR_3 in file
