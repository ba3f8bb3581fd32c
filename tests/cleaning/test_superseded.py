from __future__ import annotations

from pathlib import Path

import pytest

from support.acid import (
    DELETE_4,
    IDS_1_TO_4,
    INSERT_1,
    INSERT_4,
    INSERTS,
    MAJOR_3,
    MAJOR_4,
    MINOR_3,
    MINOR_4,
    MINOR_DELETES_4,
    NOON,
    build,
    emptied,
    listed,
    names_in,
    release,
)
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import plan_cleaning
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import CleaningReleased, DirectoriesCleaned
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

MINOR_5 = "delta_0000001_0000005"
MINOR_DELETES_5 = "delete_delta_0000001_0000005"
FIRST = release()
WITH_DELETES = release(
    directories=(MINOR_4, MINOR_DELETES_4), max_write_id=4, valid_write_ids=IDS_1_TO_4
)
MAJOR = release(kind="major", directories=(MAJOR_3,))


@pytest.mark.parametrize(
    ("vacuum", "left", "later"),
    [
        pytest.param(FIRST, listed(MINOR_5), (MINOR_5,), id="a later minor"),
        pytest.param(FIRST, listed("base_0000005"), ("base_0000005",), id="a later major"),
        pytest.param(FIRST, listed(MAJOR_3), (MAJOR_3,), id="a major of the same range"),
        pytest.param(FIRST, (emptied(MAJOR_4),), (MAJOR_4,), id="a major that left no rows"),
        pytest.param(
            FIRST, listed(MINOR_5, "delta_0000006_0000006_0000"), (MINOR_5,), id="and an insert"
        ),
        pytest.param(
            FIRST, listed(MINOR_5, "base_0000007"), (MINOR_5, "base_0000007"), id="two later ones"
        ),
        pytest.param(
            WITH_DELETES,
            listed(MINOR_5, MINOR_DELETES_5),
            (MINOR_5, MINOR_DELETES_5),
            id="inserts and deletes",
        ),
        pytest.param(WITH_DELETES, listed(MINOR_5), (MINOR_5,), id="deletes that never were"),
        pytest.param(MAJOR, listed("base_0000005"), ("base_0000005",), id="a later base"),
    ],
)
def test_a_vacuum_whose_work_a_later_vacuums_cleaning_did_is_superseded(
    vacuum: CleaningReleased, left: tuple[ListedDirectory, ...], later: tuple[str, ...]
) -> None:
    plan = plan_cleaning(tuple(sorted(left, key=lambda directory: directory.name)), vacuum)
    assert plan.remove == ()
    assert sorted(plan.superseded_by) == sorted(later)


@pytest.mark.parametrize(
    ("vacuum", "left"),
    [
        pytest.param(FIRST, listed(INSERT_1, MINOR_5), id="the product is gone"),
        pytest.param(FIRST, listed(INSERT_1, MINOR_5, empty=(MINOR_3,)), id="it is emptied"),
        pytest.param(FIRST, listed(MINOR_5, empty=(MINOR_3,)), id="only its directory is left"),
        pytest.param(FIRST, listed(INSERT_1, "base_0000005"), id="a later major"),
        pytest.param(
            WITH_DELETES,
            listed(DELETE_4, MINOR_4, MINOR_5, MINOR_DELETES_5),
            id="a product of deletes is gone before the deletes",
        ),
        pytest.param(
            WITH_DELETES,
            listed(INSERT_4, MINOR_DELETES_4, MINOR_5, MINOR_DELETES_5),
            id="a product of inserts is gone before the inserts",
        ),
        pytest.param(MAJOR, listed(INSERT_1, "base_0000005"), id="the base is gone"),
    ],
)
def test_a_vacuum_waits_while_a_later_vacuums_cleaning_is_under_way(
    vacuum: CleaningReleased, left: tuple[ListedDirectory, ...]
) -> None:
    with pytest.raises(TransientError, match="still exists"):
        plan_cleaning(left, vacuum)


@pytest.mark.parametrize(
    ("vacuum", "left", "reason"),
    [
        pytest.param(FIRST, listed(*INSERTS), "products-missing", id="no later vacuum"),
        pytest.param(FIRST, (), "products-missing", id="nothing at all"),
        pytest.param(
            FIRST, listed(INSERT_1, "delta_0000001_0000002"), "products-missing", id="a lesser one"
        ),
        pytest.param(
            FIRST, listed(empty=(MINOR_5,)), "products-missing", id="a later one that is empty"
        ),
        pytest.param(
            FIRST, listed(INSERT_1, MINOR_DELETES_5), "products-missing", id="only its deletes"
        ),
        pytest.param(
            FIRST,
            listed(INSERT_1, "delta_0000001_0000003_v0000041", empty=("delta_0000001_0000003",)),
            "products-incomplete",
            id="another compaction of the same range",
        ),
        pytest.param(
            WITH_DELETES,
            listed(INSERT_1, DELETE_4, MINOR_4, MINOR_5),
            "not-covered",
            id="a later one without the deletes",
        ),
    ],
)
def test_what_no_later_vacuum_contains_is_refused(
    vacuum: CleaningReleased, left: tuple[ListedDirectory, ...], reason: str
) -> None:
    if reason == "products-incomplete":
        vacuum = release(own_transaction_id=7)
    with pytest.raises(Refused) as refused:
        plan_cleaning(left, vacuum)
    assert refused.value.reason == reason


def test_a_superseded_vacuum_is_reported_as_cleaned_with_the_directories_of_the_later_one(
    tmp_path: Path,
) -> None:
    table = build(tmp_path / "t", {MINOR_5: 9})
    cleaner = Cleaner(Warehouse(WarehouseRoots.of(str(tmp_path))), ThreadMap(), lambda: NOON)
    (cleaned,) = cleaner.execute(release(str(table)))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert (cleaned.directories, cleaned.superseded_by) == ((), (MINOR_5,))
    assert names_in(table) == [MINOR_5]


def test_a_vacuum_that_waited_is_superseded_once_the_later_vacuums_cleaning_is_done(
    tmp_path: Path,
) -> None:
    table = build(tmp_path / "t", {MINOR_5: 9, INSERT_1: 9})
    cleaner = Cleaner(Warehouse(WarehouseRoots.of(str(tmp_path))), ThreadMap(), lambda: NOON)
    with pytest.raises(TransientError):
        list(cleaner.execute(release(str(table))))
    later = release(
        str(table), directories=(MINOR_5,), max_write_id=5, valid_write_ids="table_txn_001:5:9::"
    )
    *_, cleaned = cleaner.execute(later)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert cleaned.directories == (INSERT_1,)
    (cleaned,) = cleaner.execute(release(str(table)))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert cleaned.superseded_by == (MINOR_5,)
