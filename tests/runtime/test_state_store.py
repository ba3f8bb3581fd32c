"""A decider's memory of one partition, where a crash left it half written."""

from __future__ import annotations

from support.samples import Count
from tidegate.runtime.decider.state_store import POSITIONS_KEY, StateStore, state_store_for

TABLE = "lake.sales.orders"
KEY = TABLE.encode()


def ahead() -> StateStore[Count]:
    """The table's record was written (locks up to 9, vacuums up to 2), the partition's was not."""
    store = state_store_for(Count, Count())
    table = b'{"applied":{"locks":9,"vacuums":2},"state":{"counted":11}}'
    store.restore([(POSITIONS_KEY, b'{"locks":4,"vacuums":1}'), (KEY, table)])
    return store


def test_a_tables_own_positions_cover_what_the_partitions_do_not() -> None:
    store = ahead()
    assert store.has_applied_to(TABLE, "locks", 8)
    assert not store.has_applied_to(TABLE, "locks", 9)
    assert not store.has_applied_to("lake.sales.customers", "locks", 4)


def test_an_event_of_another_topic_in_between_makes_none_count_twice() -> None:
    store = ahead()
    store.put(TABLE, Count(counted=12))
    store.advance("vacuums", 2)
    assert store.has_applied_to(TABLE, "locks", 8)

    (table, positions) = store.changed_records()
    assert table == (KEY, b'{"applied":{"locks":9,"vacuums":3},"state":{"counted":12}}')
    assert positions == (POSITIONS_KEY, b'{"locks":4,"vacuums":3}')
    assert store.has_applied_to(TABLE, "locks", 8)


def test_an_empty_table_is_kept_while_its_own_positions_are_needed() -> None:
    store = ahead()
    store.put(TABLE, Count())
    assert (KEY, None) not in store.changed_records()

    store.advance("locks", 8)
    store.advance("vacuums", 1)
    store.put(TABLE, Count(counted=1))
    store.put(TABLE, Count())
    assert store.changed_records()[-1] == (KEY, None)
    assert len(store) == 0


def test_a_table_sleeps_as_it_was_read_until_its_next_event() -> None:
    store = state_store_for(Count, Count())
    store.restore([(KEY, b'{"applied":{},"state":{"counted":2}}'), (b"lake.sales.broken", b"{")])
    assert len(store) == 2
    assert store.state(TABLE) == Count(counted=2)
    assert store.changed_records() == [(POSITIONS_KEY, b"{}")]
