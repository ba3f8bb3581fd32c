"""Which locks and transactions hold a place."""

from __future__ import annotations

import pytest

from support.metastore_model import lock, snapshot
from tidegate.hive_metastore.values import MANY_LOCKS, HeldTables, Holds, Lock, Snapshot, holds_of


def holds(shown: Snapshot, partition: str | None = None, next_txn: int | None = None) -> Holds:
    place = ("sales", "orders", partition)
    return holds_of(HeldTables(shown.locks), shown.transactions, place, next_txn)


def lock_ids(found: Holds) -> list[int]:
    return [hold.lock_id for hold in found[0]]


@pytest.mark.parametrize(
    ("held", "partition", "is_held"),
    [
        pytest.param(lock(1), None, True, id="table"),
        pytest.param(lock(1, table=None), None, True, id="its database"),
        pytest.param(lock(1, "SALES", "Orders"), None, True, id="names in another case"),
        pytest.param(lock(1, "hr"), None, False, id="a table of this name elsewhere"),
        pytest.param(lock(1, "hr", table=None), None, False, id="another database"),
        pytest.param(lock(1, table="stock"), None, False, id="another table"),
        pytest.param(lock(1, partition="day=1"), None, True, id="a partition of the table"),
        pytest.param(lock(1), "day=1", True, id="the table of the partition"),
        pytest.param(lock(1, table=None), "day=1", True, id="the database of the partition"),
        pytest.param(lock(1, partition="day=1"), "day=1", True, id="the partition"),
        pytest.param(lock(1, partition="DAY=1"), "day=1", True, id="the partition, capitals"),
        pytest.param(lock(1, partition="t=a%3Ab"), "t=a:b", True, id="the partition, escaped"),
        pytest.param(lock(1, partition="day=2"), "day=1", False, id="another partition"),
    ],
)
def test_a_lock_on_the_database_the_table_or_the_partition_holds(
    held: Lock, partition: str | None, *, is_held: bool
) -> None:
    assert lock_ids(holds(snapshot(held), partition)) == ([1] if is_held else [])


def test_every_open_transaction_up_to_the_commit_holds_whatever_it_has_locked() -> None:
    """A reader takes its snapshot when it compiles, and its lock later."""
    shown = snapshot(
        lock(1, transaction_id=5),
        lock(2, table="stock", transaction_id=6),
        lock(3, transaction_id=9),
        lock(4),
        open_txns=[5, 6, 7, 8, 9],
    )

    assert holds(shown, next_txn=7)[1] == (5, 6, 7)
    assert lock_ids(holds(shown, next_txn=7)) == [1, 4]
    assert holds(shown)[1] == (5, 6, 7, 8, 9)
    assert lock_ids(holds(shown)) == [1, 3, 4]


def test_a_lock_is_listed_without_its_transaction() -> None:
    """For this table the transaction may have been released before it locked it."""
    [found], _ = holds(snapshot(lock(1, transaction_id=5, owner="ana"), open_txns=[5]))

    assert (found.transaction_id, found.owner) == (None, "ana")


def test_more_locks_than_an_event_can_have_are_held_by_their_transactions() -> None:
    many = [lock(number, transaction_id=7) for number in range(1, MANY_LOCKS + 1)]
    alone = lock(MANY_LOCKS + 1)

    found = holds(snapshot(*many, alone, open_txns=[7]))

    assert lock_ids(found) == [MANY_LOCKS + 1]
    assert found[1] == (7,)
