"""When a hold has ended, and when that can't be concluded. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.metastore_model import NOON, lock, snapshot, vacuum
from tidegate.events import LockHold, LockReleased, VacuumFlag, VacuumFlagged
from tidegate.hive_bridge.waiting import Ended, WaitingHolds
from tidegate.hive_metastore.values import HeldTables, Lock, Snapshot

ORDERS = "hive.sales.orders"


def waiting(*, free_elsewhere: bool = True) -> WaitingHolds:
    made = WaitingHolds("hive")
    made.free_elsewhere = free_elsewhere
    return made


def look(holds: WaitingHolds, shown: Snapshot, number: int | None = None) -> list[Ended]:
    number = holds.begin() if number is None else number
    return holds.ended(number, HeldTables(shown.locks), shown.transactions)


def ids(ended: Sequence[Ended]) -> set[tuple[str, int | None, int | None]]:
    return {(event.table, event.lock_id, event.transaction_id) for event in ended}


def test_a_lock_that_is_not_listed_any_more_has_ended_and_the_others_have_not() -> None:
    holds = waiting()
    holds.vacuum(vacuum(locks=[5, 6]))

    assert ids(look(holds, snapshot(lock(0), lock(6)))) == {(ORDERS, 5, None)}


def test_a_look_that_began_before_the_vacuum_was_known_says_nothing_of_its_holds() -> None:
    """The lock may have been taken after the Metastore had answered that look."""
    holds = waiting()
    number = holds.begin()
    answered = snapshot()  # lock 5 and transaction 7 begin only now
    holds.vacuum(vacuum(locks=[5], open_txns=[7]))

    assert look(holds, answered, number) == []
    assert ids(look(holds, snapshot(lock(5), open_txns=[7]))) == {(ORDERS, 0, None)}


def test_a_second_component_of_a_lock_keeps_it() -> None:
    holds = waiting()
    holds.vacuum(vacuum(locks=[5]))
    elsewhere = lock(5, table="customers")

    assert (ORDERS, 5, None) not in ids(look(holds, snapshot(elsewhere)))


def test_the_lock_of_a_transaction_ends_with_it_and_not_before() -> None:
    holds = waiting()
    holds.vacuum(vacuum(locks=[LockHold(lock_id=5, transaction_id=7)], open_txns=[7]))

    assert (ORDERS, 5, 7) not in ids(look(holds, snapshot(open_txns=[7])))
    assert {(ORDERS, 5, 7), (ORDERS, None, 7)} <= ids(look(holds, snapshot()))


def test_a_transaction_that_the_metastore_has_not_given_out_yet_has_not_ended() -> None:
    """A Metastore that lost its database counts from the beginning again."""
    holds = waiting()
    holds.vacuum(vacuum(locks=[5], open_txns=[70], own_transaction_id=None))

    assert look(holds, snapshot(mark=69)) == []
    assert (ORDERS, None, 70) in ids(look(holds, snapshot(mark=70)))
    assert (ORDERS, 5, None) in ids(look(holds, snapshot(mark=70)))


def test_one_release_for_each_table_that_waits() -> None:
    holds = waiting()
    holds.vacuum(vacuum(open_txns=[7]))
    holds.vacuum(vacuum(open_txns=[7], table="hive.sales.customers"))
    holds.vacuum(vacuum(open_txns=[8], table="hive.sales.stock"))

    ended = look(holds, snapshot(lock(0), open_txns=[8]))

    assert ids(ended) == {(ORDERS, None, 7), ("hive.sales.customers", None, 7)}


def test_the_vacuums_of_another_catalog_are_another_metastores() -> None:
    holds = waiting()
    holds.vacuum(vacuum(locks=[5], open_txns=[7], table="other.sales.orders"))

    assert look(holds, snapshot()) == []
    assert len(holds) == 0


def test_what_was_released_is_not_waited_for_any_more() -> None:
    holds = waiting()
    holds.vacuum(vacuum(locks=[5], open_txns=[7]))
    for event in look(holds, snapshot()):
        holds.release(released(event))

    assert look(holds, snapshot()) == []
    assert len(holds) == 0


def test_what_was_released_before_a_metastore_was_restored_is_waited_for_again() -> None:
    """The ids are of another reader now, which has not ended."""
    holds = waiting()
    holds.vacuum(vacuum(locks=[5], open_txns=[7], metastore="5a6b/1f2e"))
    for before in ("5a6b", "5a6b/1f2e"):
        for end in ({"lock_id": 0}, {"lock_id": 5}, {"transaction_id": 7}):
            if before == "5a6b" or end == {"lock_id": 0}:
                fields = {"location": "/wh/orders", "occurred_at": NOON, "source": "test"}
                holds.release(LockReleased(table=ORDERS, metastore=before, **fields, **end))

    assert look(holds, snapshot(lock(5), open_txns=[7])) == []
    ended = look(holds, snapshot())
    assert ids(ended) == {(ORDERS, 5, None), (ORDERS, None, 7)}
    assert {end.metastore for end in ended} == {"5a6b/1f2e"}


@pytest.mark.parametrize(
    ("locks", "is_free"),
    [
        pytest.param([], False, id="it has locked nothing yet: it may still compile"),
        pytest.param(
            [lock(1, table="stock", transaction_id=7)], True, id="it locked another table"
        ),
        pytest.param(
            [lock(1, "hr", table=None, transaction_id=7)], True, id="it locked another database"
        ),
        pytest.param(
            [lock(1, table="stock", transaction_id=7), lock(2, transaction_id=7)],
            False,
            id="it locked this table too",
        ),
        pytest.param([lock(1, table=None, transaction_id=7)], False, id="it locked our database"),
        pytest.param(
            [lock(1, partition="day=2", transaction_id=7)], False, id="it locked some partition"
        ),
        pytest.param([lock(1, table="stock", transaction_id=8)], False, id="another one did"),
    ],
)
def test_an_open_transaction_that_locked_other_tables_only_holds_no_cleaning_back(
    locks: list[Lock], *, is_free: bool
) -> None:
    holds = waiting()
    holds.vacuum(vacuum(locks=[], open_txns=[7]))
    shown = snapshot(lock(0), *locks, open_txns=[7, 8])

    assert ids(look(holds, shown)) == ({(ORDERS, None, 7)} if is_free else set())


def test_where_readers_may_lock_one_by_one_a_transaction_holds_until_its_end() -> None:
    holds = waiting(free_elsewhere=False)
    holds.vacuum(vacuum(open_txns=[7]))
    elsewhere = lock(1, table="stock", transaction_id=7)

    assert look(holds, snapshot(lock(0), elsewhere, open_txns=[7])) == []
    assert ids(look(holds, snapshot(lock(0)))) == {(ORDERS, None, 7)}


TABLES = ("hive.sales.orders", "hive.sales.stock", "hive.hr.people")


@given(st.data())
def test_nothing_is_released_while_it_is_listed_and_everything_is_in_the_end(
    data: st.DataObject,
) -> None:
    """Vacuums, looks, endings and redelivered events in any order."""
    holds = waiting()
    live_locks = set(range(1, 7))
    live_txns = set(range(20, 26))
    expected: set[tuple[str, int | None, int | None]] = set()
    published: set[tuple[str, int | None, int | None]] = set()

    def shown() -> Snapshot:
        return snapshot(
            *(lock(live_lock, table=None) for live_lock in live_locks), open_txns=sorted(live_txns)
        )

    def publish(ended: list[Ended]) -> None:
        for event in ended:
            assert event.lock_id not in live_locks
            assert event.transaction_id not in live_txns
            published.add((event.table, event.lock_id, event.transaction_id))
            holds.release(released(event))

    for step in data.draw(
        st.lists(st.sampled_from(["vacuum", "end", "look", "again"]), max_size=25)
    ):
        if step == "vacuum" or (step == "again" and expected):
            table = data.draw(st.sampled_from(TABLES))
            locks = data.draw(st.sets(st.sampled_from(sorted(live_locks) or [1])))
            txns = data.draw(st.sets(st.sampled_from(sorted(live_txns) or [20])))
            holds.vacuum(vacuum(sorted(locks), sorted(txns), table))
            expected |= {(table, 0, None)}
            expected |= {(table, lock_id, None) for lock_id in locks}
            expected |= {(table, None, txn) for txn in txns}
        elif step == "end":
            ended = data.draw(st.sets(st.sampled_from([*range(1, 7), *range(20, 26)])))
            live_locks -= ended
            live_txns -= ended
        elif step == "look":
            publish(look(holds, shown()))
    live_locks.clear()
    live_txns.clear()
    publish(look(holds, shown()))

    assert published == expected
    assert len(holds) == 0


def released(ended: Ended) -> LockReleased:
    return LockReleased(
        table=ended.table,
        location=ended.location,
        occurred_at=NOON,
        source="test",
        lock_id=ended.lock_id,
        transaction_id=ended.transaction_id,
    )


def test_a_release_that_the_gate_may_have_forgotten_is_looked_for_again() -> None:
    """The bridge was away so long that the gate forgot what it had published."""
    holds = waiting()
    event = vacuum(locks=[5, 6], open_txns=[8])
    holds.vacuum(event)
    for lock_id in (0, 5):
        holds.release(LockReleased.about(event, source="x", occurred_at=NOON, lock_id=lock_id))
    shown = snapshot(lock(6), open_txns=[8])
    assert look(holds, shown) == []
    number = holds.begin()
    fields = {"source": "coordinator", "occurred_at": NOON, "message": "m"}
    flag = VacuumFlag.RELEASE_MAY_BE_FORGOTTEN
    flagged = VacuumFlagged.about(event, **fields, flag=flag, locks=(0, 5, 6), transactions=(8,))

    holds.forgotten(flagged)

    # a look that began before it was known says nothing of it
    assert ids(look(holds, snapshot(), number)) == {(ORDERS, 6, None), (ORDERS, None, 8)}
    assert ids(look(holds, shown)) == {(ORDERS, 0, None), (ORDERS, 5, None)}
    others = waiting()
    others.forgotten(flagged.model_copy(update={"table": "lake.sales.orders"}))
    assert len(others) == 0
