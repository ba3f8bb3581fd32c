"""What a compaction made, by the names in the directory; what the Metastore's durations mean."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tidegate.events import VacuumKind
from tidegate.hive.names import AcidDirectory
from tidegate.hive_bridge.products import products_of, products_of_hive_3, write_id_range
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore.values import READY_FOR_CLEANING, QueueEntry

NAMES = (
    "delta_0000001_0000001_0000",
    "delta_0000002_0000002_0000",
    "delete_delta_0000002_0000002_0000",
    "delta_0000001_0000003_v0000020",
    "delete_delta_0000001_0000003_v0000020",
    "delta_0000001_0000005_v0000030",
    "base_0000005_v0000040",
    "base_0000003",
    "delta_0000001_0000003",
    "delete_delta_0000001_0000003",
    "delta_0000002_0000003",
    "delta_0000003_0000003",
    ".hive-staging",
    "base_x",
    "_tmp",
)
MINOR, MAJOR = VacuumKind.MINOR, VacuumKind.MAJOR


@pytest.mark.parametrize(
    ("kind", "txn", "highest", "expected"),
    [
        pytest.param(MINOR, 20, 3, (NAMES[3], NAMES[4]), id="minor with deletes"),
        pytest.param(MINOR, 30, 5, (NAMES[5],), id="a later minor"),
        pytest.param(MAJOR, 40, 5, (NAMES[6],), id="major"),
        pytest.param(MAJOR, 20, 3, (), id="a major's transaction made no delta"),
        pytest.param(MINOR, 99, 3, (), id="nothing of this transaction"),
        pytest.param(MAJOR, None, 3, (NAMES[7],), id="major of Hive 3"),
        pytest.param(MINOR, None, 3, (NAMES[8], NAMES[9]), id="minor of Hive 3"),
        pytest.param(MINOR, None, 4, (), id="nothing of this range in Hive 3"),
    ],
)
def test_products_are_found_by_the_transaction_in_their_names(
    kind: VacuumKind, txn: int | None, highest: int, expected: tuple[str, ...]
) -> None:
    found = products_of(compaction(kind, txn, highest), NAMES)

    assert tuple(product.name for product in found) == expected
    if found:
        assert write_id_range(found) == (1, highest)


INPUTS = ("delta_0000001_0000001_0000", "delta_0000003_0000003_0000")
STREAMED = "delta_0000008_0000012"


@pytest.mark.parametrize(
    ("kind", "names", "marked", "expected"),
    [
        pytest.param(MINOR, (*INPUTS, NAMES[8]), (), (NAMES[8],), id="minor"),
        pytest.param(
            MINOR, (*INPUTS, *NAMES[8:10]), (), (NAMES[8], NAMES[9]), id="minor with deletes"
        ),
        pytest.param(
            MINOR,
            (*INPUTS, NAMES[8], "delta_0000001_0000005"),
            (),
            ("delta_0000001_0000005",),
            id="the latest of two",
        ),
        pytest.param(MINOR, (NAMES[8],), (), (), id="its inputs are gone"),
        pytest.param(MINOR, (*INPUTS, STREAMED), (), (), id="a streaming writer's batch"),
        pytest.param(
            MINOR, (*INPUTS, NAMES[8], STREAMED), (), (NAMES[8],), id="beside such a batch"
        ),
        pytest.param(MINOR, (*INPUTS, "delta_0000001_0000003_v0000009"), (), (), id="of Hive 4"),
        pytest.param(MAJOR, ("base_0000003",), ("base_0000003",), ("base_0000003",), id="major"),
        pytest.param(
            MAJOR,
            ("base_0000003", "base_0000005"),
            ("base_0000003",),
            ("base_0000003",),
            id="an insert overwrite has no marker",
        ),
        pytest.param(MAJOR, (*INPUTS, NAMES[8]), (), (), id="a delta is not a major's"),
        pytest.param(MINOR, ("base_0000003",), ("base_0000003",), (), id="a base not a minor's"),
    ],
)
def test_products_of_hive_3_are_known_by_what_they_cover_or_by_their_marker(
    kind: VacuumKind, names: tuple[str, ...], marked: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """Its Metastore says neither the transaction nor the write ids of a compaction."""
    found = products_of_hive_3(compaction(kind, None, 0), names, marked)

    assert tuple(product.name for product in found) == expected


def compaction(kind: VacuumKind, txn: int | None, highest: int) -> QueueEntry:
    state = READY_FOR_CLEANING
    return QueueEntry(1, "sales", "orders", None, kind, state, highest, txn, txn)


def test_the_first_compaction_of_a_table_has_a_base_of_write_id_zero() -> None:
    made: tuple[AcidDirectory, ...] = products_of(
        compaction(MAJOR, 5, 0), ["base_0000000_v0000005"]
    )
    assert write_id_range(made) == (0, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(2000, 2000), ("2000", 2000), ("500ms", 500), ("2s", 2000), ("1.5 m", 90_000)],
)
def test_open_lookengs_names_and_durations_are_understood(given: object, expected: int) -> None:
    settings = BridgeSettings.model_validate(
        {
            "uri": "thrift://metastore:9083, thrift://other:9083",
            "hive.compaction-cleanup-interval": given,
            "hive.compaction-cleanup-threads": 3,
        }
    )
    assert (settings.interval_ms, settings.threads) == (expected, 3)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"uri": "metastore"}, id="no port"),
        pytest.param({"uri": "http://metastore:9083"}, id="another protocol"),
        pytest.param({"uri": "thrift://metastore:70000"}, id="no such port"),
        pytest.param({"uri": "thrift://m:1", "interval_ms": "soon"}, id="no duration"),
        pytest.param({"uri": "thrift://m:1", "interval_ms": 10}, id="far too often"),
        pytest.param({"uri": "thrift://m:1", "intervall_ms": 10}, id="no such setting"),
    ],
)
def test_settings_that_cannot_work_are_refused(broken: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BridgeSettings.model_validate(broken)
