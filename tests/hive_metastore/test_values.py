"""What a Metastore says, as values. Pure."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import TransientError
from tidegate.events import VacuumKind
from tidegate.hive.write_ids import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings
from tidegate.hive_metastore.values import (
    READY_FOR_CLEANING,
    QueueEntry,
    Transactions,
    write_ids_of_compaction,
)

MINOR = VacuumKind.MINOR
HIVE_4 = QueueEntry(1, "sales", "orders", None, MINOR, READY_FOR_CLEANING, 3, 20, 25)


@pytest.mark.parametrize(
    ("changed", "is_visible"),
    [
        pytest.param({}, True, id="committed"),
        pytest.param({"next_transaction_id": None}, False, id="ready, but not committed yet"),
        pytest.param(
            {"transaction_id": None, "next_transaction_id": None}, True, id="Hive 3 has renamed it"
        ),
        pytest.param({"state": "working"}, False, id="at work"),
        pytest.param({"state": "succeeded"}, False, id="cleaned by another"),
        pytest.param({"state": "failed"}, False, id="failed"),
    ],
)
def test_a_compaction_is_visible_once_it_is_ready_and_committed(
    changed: dict[str, object], *, is_visible: bool
) -> None:
    assert replace(HIVE_4, **changed).is_visible is is_visible  # type: ignore[arg-type]


def test_transactions_make_the_list_that_a_reader_would_get() -> None:
    found = Transactions(9, {5: 0, 7: 0, 11: 0}, frozenset({3, 4})).valid()

    assert found == ValidTxns(9, 5, IdRanges.of(5, 7), IdRanges.of(3, 4))
    assert Transactions(9).valid() == ValidTxns(9, NOTHING_OPEN)


@given(st.sets(st.integers(1, 30)), st.sets(st.integers(1, 30)), st.integers(0, 35))
def test_the_snapshot_of_a_compaction_says_of_each_id_what_the_metastore_says(
    opened: set[int], aborted: set[int], highest: int
) -> None:
    aborted -= opened
    first_open = min(opened, default=NOTHING_OPEN)
    now = ValidWriteIds("a.b", 35, first_open, IdRanges.of(*opened), IdRanges.of(*aborted))

    cut = write_ids_of_compaction(now, highest)

    assert ValidWriteIds.parse(str(cut)) == cut
    for write_id in range(1, 36):
        assert cut.is_valid(write_id) == (write_id <= highest and now.is_valid(write_id))
        assert cut.is_aborted(write_id) == (write_id <= highest and now.is_aborted(write_id))
    assert cut.min_open == min((txn for txn in opened if txn <= highest), default=NOTHING_OPEN)


def test_transactions_are_listed_by_the_other_call_while_an_id_is_pending() -> None:
    """Then Hive 4.0.1 breaks the call off that lists heartbeats."""

    class Pending(MetastoreClient):
        def call(self, name: str, *arguments: object) -> object:
            assert not arguments
            if name == "get_open_txns_info":
                raise TransientError("the Metastore did not answer get_open_txns_info: EOF")
            return SimpleNamespace(open_txns=[3, 5], abortedBits=b"\x02", txn_high_water_mark=9)

    with Pending(MetastoreSettings(uri="thrift://127.0.0.1:1")) as client:
        assert client.transactions() == Transactions(9, {3: 0}, frozenset({5}))
