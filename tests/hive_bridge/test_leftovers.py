"""The rest of a compaction's cleaning keeps it from being marked."""

from __future__ import annotations

import pytest

from support.acid import found
from tidegate.events import VacuumKind
from tidegate.hive.write_ids import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds
from tidegate.hive_bridge.aborted import _AbortedPlace, judged
from tidegate.hive_bridge.describing import NotYet
from tidegate.hive_bridge.marking import check_nothing_left
from tidegate.hive_bridge.products import VacuumFields

MADE = "delta_0000002_0000004_v0000009"
TXNS = ValidTxns(20)
FAILED = ValidTxns(20, aborted=IdRanges.of(8))
"""Transaction 8, of an earlier compaction, aborted."""


def ids(*aborted: int, hwm: int = 4, opened: tuple[int, ...] = ()) -> ValidWriteIds:
    return ValidWriteIds(
        "sales.orders",
        hwm,
        min(opened, default=NOTHING_OPEN),
        IdRanges.of(*opened),
        IdRanges.of(*aborted),
    )


def published(*made: str, aborted: tuple[int, ...] = ()) -> VacuumFields:
    major = made[0].startswith("base")
    kind = VacuumKind.MAJOR if major else VacuumKind.MINOR
    low = 1 if major else 2
    return VacuumFields("/wh/orders", made, low, 4, str(ids(*aborted)), kind, 9)


@pytest.mark.parametrize(
    "names",
    [
        [MADE],
        [MADE, "delta_0000001_0000001_0000"],  # before its range
        [MADE, "delta_0000005_0000005_0000"],
        ["base_0000007_v0000020"],  # a later vacuum has replaced it
        ["delta_0000002_0000009_v0000020", "delete_delta_0000002_0000009_v0000020"],
    ],
)
def test_nothing_is_left(names: list[str]) -> None:
    check_nothing_left(found(*names), published(MADE), ids(), TXNS, 9)


@pytest.mark.parametrize(
    "left", ["delta_0000003_0000003_0000", "delete_delta_0000004_0000004_0001"]
)
def test_a_directory_that_it_made_obsolete_is_left(left: str) -> None:
    made = (MADE, "delete_" + MADE)
    with pytest.raises(NotYet, match=f"{left} is there, which the compaction made obsolete"):
        check_nothing_left(found(*made, left), published(*made), ids(), TXNS, 9)


@pytest.mark.parametrize(
    ("aborted", "left"),
    [
        (1, "delta_0000001_0000001_0000"),  # below the range of a minor one
        (3, "delta_0000003_0000003_0000"),
        (1, "delta_0000001_0000010"),  # of a streaming writer: with rows of others beside it
        (1, "base_0000001"),  # of an insert overwrite
        (4, "delete_delta_0000004_0000004_0000"),
    ],
)
def test_rows_of_an_aborted_write_are_left(aborted: int, left: str) -> None:
    with pytest.raises(NotYet, match=f"{left} is there, with rows of an aborted write"):
        check_nothing_left(
            found(MADE, left), published(MADE, aborted=(aborted,)), ids(aborted), TXNS, 9
        )


def test_a_product_has_no_aborted_rows_and_what_aborted_later_is_not_forgotten() -> None:
    check_nothing_left(
        found(MADE, "delta_0000005_0000005"), published(MADE, aborted=(3,)), ids(3), TXNS, 9
    )
    check_nothing_left(found("base_0000004"), published("base_0000004"), ids(2, 3), TXNS, 9)
    check_nothing_left(found(MADE, "base_0000001_v0000002"), published(MADE), ids(1), TXNS, 9)


@pytest.mark.parametrize("left", ["base_0000004_v0000008", "delta_0000002_0000004_v0000008"])
def test_a_directory_of_a_compaction_that_aborted_is_left(left: str) -> None:
    """The mark lets the Metastore forget the abort: every reader would see half of its rows."""
    with pytest.raises(NotYet, match=f"{left} is there, of a compaction that aborted"):
        check_nothing_left(found(MADE, left), published(MADE), ids(), FAILED, 9)


def test_a_compaction_that_aborted_above_the_highest_write_id_is_not_forgotten() -> None:
    names = (MADE, "base_0000006_v0000008")
    check_nothing_left(found(*names), published(MADE), ids(), FAILED, 9)


def test_a_directory_of_aborted_writes_alone_is_left_whatever_an_event_calls_it() -> None:
    """Anybody may publish another vacuum with the compaction's transaction."""
    forged = published("base_0000004", "base_0000003_v0000009")
    names = found("base_0000004", "base_0000003_v0000009")
    with pytest.raises(NotYet, match="base_0000004 is there, with rows of an aborted write"):
        check_nothing_left(names, forged, ids(4), TXNS, 9)


def test_a_streaming_writers_rows_are_left_whatever_an_event_calls_them() -> None:
    """It has the name of a product of Hive 3, but this compaction has a transaction."""
    streamed = "delta_0000002_0000004"
    with pytest.raises(NotYet, match=f"{streamed} is there, with rows of an aborted write"):
        check_nothing_left(found(streamed), published(streamed), ids(3), TXNS, 9)
    check_nothing_left(found(streamed), published(streamed), ids(3), TXNS, None)  # of Hive 3


def test_the_aborts_of_a_table_with_a_directory_of_a_failed_compaction_are_not_forgotten() -> None:
    name = "base_0000004_v0000008"
    place = judged(None, found("base_0000003_v0000007", name), ids(1), FAILED)
    assert place == _AbortedPlace(None, (), (name,))


def test_a_write_that_is_open_below_its_highest_id_may_still_abort() -> None:
    with pytest.raises(NotYet, match="write id 3 is open"):
        check_nothing_left(found(MADE), published(MADE), ids(opened=(3,)), TXNS, 9)


def test_a_snapshot_that_its_products_exceed_tells_nothing() -> None:
    wrong = VacuumFields("/wh", (MADE,), 2, 3, str(ids()), VacuumKind.MINOR, 9)
    with pytest.raises(NotYet, match="exceeds"):
        check_nothing_left(found(MADE), wrong, ids(), TXNS, 9)


def test_aborted_rows_alone_and_beside_others_in_a_directory() -> None:
    """Of a table with more writes than are final: nothing is known above the high mark."""
    alone = ("base_0000001", "delete_delta_0000003_0000003_0000", "delta_0000001_0000001")
    mixed = ("delta_0000001_0000002", "delta_0000003_0000007")
    none = ("delta_0000002_0000002", "delta_0000001_0000003_v0000008", "delta_0000005_0000005")

    place = judged("day=1", found(*alone, *mixed, *none), ids(1, 3), TXNS)

    assert place == _AbortedPlace("day=1", alone, mixed)
