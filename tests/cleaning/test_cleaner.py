from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.acid import (
    FIVE_LISTINGS,
    IDS_1_TO_3,
    INSERT_1,
    INSERT_2,
    INSERTS,
    MINOR_3,
    NOON,
    NOTHING_OPEN,
    TABLE,
    VACUUMED,
    Case,
    build,
    names_in,
    release,
    release_of,
    tree,
)
from support.interfering import Forgetful
from support.names import STRANGE, takes_any_bytes
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import SparkMap, ThreadMap
from tidegate.errors import PermanentError, TransientError
from tidegate.events import (
    CleaningRefused,
    CleaningStarted,
    DirectoriesCleaned,
    Outcome,
    RestoreRequested,
)
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER_MINOR = FIVE_LISTINGS[1].directories


def ticking(seconds: int = 2) -> Callable[[], datetime]:
    ticks: Iterator[int] = count()
    return lambda: NOON + timedelta(seconds=seconds * next(ticks))


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    (tmp_path / "wh").mkdir()
    return tmp_path / "wh"


@pytest.fixture
def cleaner(warehouse: Path) -> Cleaner:
    return Cleaner(Warehouse(WarehouseRoots.of(str(warehouse))), ThreadMap(), ticking())


def only(outcomes: Sequence[Outcome]) -> CleaningRefused:
    assert len(outcomes) == 1
    assert isinstance(outcomes[0], CleaningRefused), outcomes
    return outcomes[0]


@pytest.mark.parametrize("case", VACUUMED, ids=lambda case: case.title)
def test_exactly_the_obsolete_directories_of_each_listing_go(
    case: Case, warehouse: Path, cleaner: Cleaner
) -> None:
    table = build(warehouse / "t", case.directories)
    started, cleaned = cleaner.execute(release_of(case, str(table)))
    assert isinstance(started, CleaningStarted)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert started.directories == cleaned.directories == tuple(sorted(case.obsolete))
    assert cleaned.files == 2 * len(case.obsolete)
    assert cleaned.bytes == sum(case.directories[name] + 1 for name in case.obsolete)
    assert names_in(table) == sorted(set(case.directories) - set(case.obsolete))


def test_the_listing_without_a_vacuum_loses_nothing(warehouse: Path, cleaner: Cleaner) -> None:
    table = build(warehouse / "t", FIVE_LISTINGS[0].directories)
    before = tree(table)
    refused = only(list(cleaner.execute(release(str(table)))))
    assert refused.reason == "products-missing"
    assert tree(table) == before


def test_the_outcomes_name_their_cause_and_how_long_it_took(
    warehouse: Path, cleaner: Cleaner
) -> None:
    command = release(str(build(warehouse / "t", AFTER_MINOR)))
    started, cleaned = cleaner.execute(command)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert {started.caused_by, cleaned.caused_by} == {command.event_id}
    assert {started.source, cleaned.source} == {"cleaner"}
    assert (started.table, started.location) == (TABLE, command.location)
    assert cleaned.duration_ms == 4000


def test_the_plan_is_said_before_anything_goes(warehouse: Path, cleaner: Cleaner) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    before = tree(table)
    outcomes = cleaner.execute(release(str(table)))
    assert isinstance(next(outcomes), CleaningStarted)
    assert tree(table) == before


def test_planning_changes_nothing(warehouse: Path, cleaner: Cleaner) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    before = tree(table)
    plan = cleaner.plan(release(str(table)))
    assert plan.directories == INSERTS
    assert tree(table) == before


def test_asked_again_it_says_that_all_is_clean_and_removes_nothing(
    warehouse: Path, cleaner: Cleaner
) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    list(cleaner.execute(release(str(table))))
    before = tree(table)
    (again,) = cleaner.execute(release(str(table)))
    assert isinstance(again, DirectoriesCleaned)
    assert (again.directories, again.files, again.bytes) == ((), 0, 0)
    assert tree(table) == before


@pytest.mark.parametrize("left", [(), ("bucket_00000",)], ids=["emptied", "one file left"])
def test_what_a_crash_left_half_removed_goes_in_the_next_run(
    left: tuple[str, ...], warehouse: Path, cleaner: Cleaner
) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    for file in (table / INSERT_1).iterdir():
        if file.name not in left:
            file.unlink()
    (table / INSERT_2 / "bucket_00000").unlink()
    _, cleaned = cleaner.execute(release(str(table)))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert cleaned.directories == INSERTS
    assert names_in(table) == [MINOR_3]


def test_two_cleaners_at_once_both_succeed(warehouse: Path, cleaner: Cleaner) -> None:
    directories = {f"delta_{n:07d}_{n:07d}_0000": 10 for n in range(1, 201)}
    product = "delta_0000001_0000200"
    table = build(warehouse / "t", {**directories, product: 100})
    ids = f"default.table_txn_001:200:{NOTHING_OPEN}::"
    command = release(str(table), directories=(product,), max_write_id=200, valid_write_ids=ids)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda command: list(cleaner.execute(command)), [command] * 4))
    assert all(isinstance(outcomes[-1], DirectoriesCleaned) for outcomes in runs)
    assert names_in(table) == [product]


def test_what_can_not_be_removed_is_never_said_to_be_clean(warehouse: Path) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    cleaner = Cleaner(Forgetful(warehouse, INSERT_2), ThreadMap(), ticking())
    outcomes = cleaner.execute(release(str(table)))
    assert isinstance(next(outcomes), CleaningStarted)
    with pytest.raises(TransientError, match=INSERT_2):
        next(outcomes)


def test_only_the_partition_of_the_vacuum_is_cleaned(warehouse: Path, cleaner: Cleaner) -> None:
    build(warehouse / "t" / "p=1", AFTER_MINOR)
    other = build(warehouse / "t" / "p=2", AFTER_MINOR)
    before = tree(other)
    *_, cleaned = cleaner.execute(release(str(warehouse / "t"), partition="p=1"))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert cleaned.partition == "p=1"
    assert names_in(warehouse / "t" / "p=1") == [MINOR_3]
    assert tree(other) == before


def test_what_is_not_an_acid_directory_stays(warehouse: Path, cleaner: Cleaner) -> None:
    """Hive calls original files obsolete below a base; here they stay, without harm."""
    case = FIVE_LISTINGS[2]
    table = build(warehouse / "t", case.directories)
    (table / "000000_0").write_text("an original file")
    (table / ".hive-staging").mkdir()
    (table / "_tmp.delta_0000001_0000001").mkdir()
    list(cleaner.execute(release_of(case, str(table))))
    assert names_in(table) == [
        ".hive-staging",
        "000000_0",
        "_tmp.delta_0000001_0000001",
        "base_0000003",
    ]


def test_the_markers_of_directories_that_an_object_store_keeps_go_with_them(
    warehouse: Path, cleaner: Cleaner
) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    for name in (INSERT_1, MINOR_3, "delta_0000009_0000009_0000"):
        (table / f"{name}_$folder$").touch()
    *_, cleaned = cleaner.execute(release(str(table)))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert cleaned.directories == INSERTS
    assert names_in(table) == [
        MINOR_3,
        f"{MINOR_3}_$folder$",
        "delta_0000009_0000009_0000_$folder$",
    ]


@pytest.mark.parametrize("work", ["plan", "execute"])
def test_each_directory_is_passed_once_for_the_plan_and_once_for_its_removal(
    work: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted at the operating system: listings of directories, and openings by whole paths."""
    listings, openings = Counter[str](), Counter[str]()
    for inserts in (250, 500):
        directories = {f"delta_{n:07d}_{n:07d}_0000": 10 for n in range(1, inserts + 1)}
        product = f"delta_0000001_{inserts:07d}"
        table = build(warehouse / f"t{inserts}", {**directories, product: 100})
        ids = f"default.table_txn_001:{inserts}:{NOTHING_OPEN}::"
        command = release(
            str(table), directories=(product,), max_write_id=inserts, valid_write_ids=ids
        )
        cleaner = Cleaner(Warehouse(WarehouseRoots.of(str(warehouse))), ThreadMap(1), ticking())
        with monkeypatch.context() as patched:
            count_calls(patched, str(inserts), listings, openings)
            cleaner.plan(command) if work == "plan" else list(cleaner.execute(command))
    per_file, more = (1, 0) if work == "plan" else (3, 10)  # the product before each removal
    assert 0 <= listings["500"] - listings["250"] - 250 * per_file <= more
    assert openings["500"] - openings["250"] <= 10
    assert openings["250"] <= 20


def count_calls(
    patched: pytest.MonkeyPatch, key: str, listings: Counter[str], openings: Counter[str]
) -> None:
    scandir, open_ = os.scandir, os.open

    def counted_scandir(path: int) -> object:
        listings[key] += 1
        return scandir(path)

    def counted_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        openings[key] += dir_fd is None
        return open_(path, flags, mode, dir_fd=dir_fd)

    patched.setattr(os, "scandir", counted_scandir)
    patched.setattr(os, "open", counted_open)


def test_a_location_may_be_a_hadoop_uri(warehouse: Path, cleaner: Cleaner) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    list(cleaner.execute(release(f"file:{table}")))
    assert names_in(table) == [MINOR_3]


def outside(wh: Path) -> tuple[Path, dict[str, object]]:
    return build(wh.parent / "elsewhere" / "t", AFTER_MINOR), {}


def linked_out(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh.parent / "elsewhere" / "t", AFTER_MINOR)
    (wh / "t").symlink_to(wh.parent / "elsewhere" / "t")
    return wh / "t", {}


def partition_linked_out(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh.parent / "elsewhere" / "t", AFTER_MINOR)
    (wh / "t").mkdir()
    (wh / "t" / "p=1").symlink_to(wh.parent / "elsewhere" / "t")
    return wh / "t", {"partition": "p=1"}


def partition_linked_to_another_table(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh / "other", AFTER_MINOR)
    (wh / "t").mkdir()
    (wh / "t" / "p=1").symlink_to(wh / "other")
    return wh / "t", {"partition": "p=1"}


def partition_steps_out(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh / "other", AFTER_MINOR)
    return build(wh / "t", AFTER_MINOR), {"partition": "../other"}


def delta_is_a_link(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh / "other", AFTER_MINOR)
    table = build(wh / "t", {INSERT_2: 9, MINOR_3: 9})
    (table / INSERT_1).symlink_to(wh / "other" / INSERT_1)
    return table, {}


def link_in_a_delta(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh / "other", AFTER_MINOR)
    table = build(wh / "t", AFTER_MINOR)
    (table / INSERT_1 / "more").symlink_to(wh / "other")
    return table, {}


def table_is_a_link_to_another(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh / "other", AFTER_MINOR)
    (wh / "t").symlink_to(wh / "other")
    return wh / "t", {}


def folder_above_is_a_link(wh: Path) -> tuple[Path, dict[str, object]]:
    build(wh / "real" / "t", AFTER_MINOR)
    (wh / "sales").symlink_to(wh / "real")
    return wh / "sales" / "t", {}


def link_without_a_readable_name(wh: Path) -> tuple[Path, dict[str, object]]:
    table = build(wh / "t", AFTER_MINOR)
    (table / INSERT_1 / STRANGE).symlink_to("/")
    return table, {}


def directory_without_a_readable_name(wh: Path) -> tuple[Path, dict[str, object]]:
    table = build(wh / "t", AFTER_MINOR)
    (table / f"delta_0000001_{STRANGE}").mkdir()
    return table, {}


def no_table(wh: Path) -> tuple[Path, dict[str, object]]:
    return wh / "nothing", {}


def the_root_itself(wh: Path) -> tuple[Path, dict[str, object]]:
    return build(wh, AFTER_MINOR), {}


def bad_name(wh: Path) -> tuple[Path, dict[str, object]]:
    return build(wh / "t", {**AFTER_MINOR, "delta_0000001_": 9}), {}


def bad_snapshot(wh: Path) -> tuple[Path, dict[str, object]]:
    return build(wh / "t", AFTER_MINOR), {"valid_write_ids": IDS_1_TO_3.replace(":3:", ":x:")}


def product_missing(wh: Path) -> tuple[Path, dict[str, object]]:
    return build(wh / "t", FIVE_LISTINGS[0].directories), {}


def product_empty(wh: Path) -> tuple[Path, dict[str, object]]:
    table = build(wh / "t", AFTER_MINOR)
    (table / MINOR_3 / "bucket_00000").write_bytes(b"")
    return table, {}


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (outside, "outside-warehouse"),
        (linked_out, "outside-warehouse"),
        (partition_linked_out, "outside-warehouse"),
        (the_root_itself, "outside-warehouse"),
        (partition_linked_to_another_table, "link-inside"),
        (delta_is_a_link, "link-inside"),
        (link_in_a_delta, "link-inside"),
        (table_is_a_link_to_another, "link-inside"),
        (folder_above_is_a_link, "link-inside"),
        pytest.param(link_without_a_readable_name, "link-inside", marks=takes_any_bytes),
        pytest.param(directory_without_a_readable_name, "bad-name", marks=takes_any_bytes),
        (partition_steps_out, "bad-partition"),
        (no_table, "no-such-table"),
        (bad_name, "bad-name"),
        (bad_snapshot, "bad-snapshot"),
        (product_missing, "products-missing"),
        (product_empty, "products-incomplete"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_may_not_be_cleaned_is_refused_and_nothing_is_changed(
    prepare: Callable[[Path], tuple[Path, dict[str, object]]],
    reason: str,
    warehouse: Path,
    cleaner: Cleaner,
) -> None:
    table, changes = prepare(warehouse)
    before = tree(warehouse.parent)
    refused = only(list(cleaner.execute(release(str(table), **changes))))
    assert refused.reason == reason
    assert refused.message
    assert tree(warehouse.parent) == before


@takes_any_bytes
def test_files_without_a_readable_name_go_like_others(warehouse: Path, cleaner: Cleaner) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    (table / INSERT_1 / STRANGE).touch()
    (table / STRANGE).touch()
    *_, cleaned = cleaner.execute(release(str(table)))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert names_in(table) == [MINOR_3, STRANGE]


def test_a_table_below_a_root_that_is_a_link_is_cleaned(warehouse: Path) -> None:
    table = build(warehouse / "t", AFTER_MINOR)
    (warehouse.parent / "alias").symlink_to(warehouse)
    roots = WarehouseRoots.of(str(warehouse.parent / "alias"))
    list(Cleaner(Warehouse(roots), ThreadMap(), ticking()).execute(release(f"{roots.roots[0]}/t")))
    assert names_in(table) == [MINOR_3]


def test_a_relative_location_is_refused(cleaner: Cleaner) -> None:
    assert only(list(cleaner.execute(release("wh/t")))).reason == "outside-warehouse"


def test_a_command_that_is_not_for_it_can_never_work(cleaner: Cleaner) -> None:
    stranger = RestoreRequested.model_validate(
        {
            "event_id": "a-request",
            "table": TABLE,
            "location": "/wh/t",
            "occurred_at": NOON,
            "source": "test",
            "savepoint": "20260301100000001",
            "requested_by": "ana",
            "reason": "a test",
        }
    )
    with pytest.raises(PermanentError):
        list(cleaner.execute(stranger))


@pytest.mark.spark
def test_on_spark_the_outcome_is_the_same(warehouse: Path, spark: SparkSession) -> None:
    case = FIVE_LISTINGS[4]
    storage = Warehouse(WarehouseRoots.of(str(warehouse)))
    said: list[tuple[tuple[str, ...], int, int]] = []
    for name, parallel_map in (("on_spark", SparkMap(lambda: spark)), ("in_place", ThreadMap())):
        table = build(warehouse / name, case.directories)
        cleaner = Cleaner(storage, parallel_map, ticking())
        *_, cleaned = cleaner.execute(release_of(case, str(table)))
        assert isinstance(cleaned, DirectoriesCleaned)
        said.append((cleaned.directories, cleaned.files, cleaned.bytes))
        assert names_in(table) == sorted(set(case.directories) - set(case.obsolete))
    assert said[0] == said[1]
