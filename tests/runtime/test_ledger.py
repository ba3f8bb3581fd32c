"""A decider's memory of one partition, where a crash left it half written."""

from __future__ import annotations

from support.samples import Count
from tidegate.runtime.ledger import POSITIONS_KEY, Ledger, ledger_for

TABLE = "lake.sales.orders"
KEY = TABLE.encode()


def ahead() -> Ledger[Count]:
    """The table's record was written (locks up to 9, vacuums up to 2), the partition's was not."""
    ledger = ledger_for(Count, Count())
    table = b'{"applied":{"locks":9,"vacuums":2},"state":{"heard":11}}'
    ledger.restore([(POSITIONS_KEY, b'{"locks":4,"vacuums":1}'), (KEY, table)])
    return ledger


def test_a_tables_own_positions_cover_what_the_partitions_do_not() -> None:
    ledger = ahead()
    assert ledger.has_applied_to(TABLE, "locks", 8)
    assert not ledger.has_applied_to(TABLE, "locks", 9)
    assert not ledger.has_applied_to("lake.sales.customers", "locks", 4)


def test_an_event_of_another_topic_in_between_makes_none_count_twice() -> None:
    ledger = ahead()
    ledger.stage(TABLE, Count(heard=12))
    ledger.advance("vacuums", 2)
    assert ledger.has_applied_to(TABLE, "locks", 8)

    (table, positions) = ledger.entries()
    assert table == (KEY, b'{"applied":{"locks":9,"vacuums":3},"state":{"heard":12}}')
    assert positions == (POSITIONS_KEY, b'{"locks":4,"vacuums":3}')
    assert ledger.has_applied_to(TABLE, "locks", 8)


def test_an_empty_table_is_kept_while_its_own_positions_are_needed() -> None:
    ledger = ahead()
    ledger.stage(TABLE, Count())
    assert (KEY, None) not in ledger.entries()

    ledger.advance("locks", 8)
    ledger.advance("vacuums", 1)
    ledger.stage(TABLE, Count(heard=1))
    ledger.stage(TABLE, Count())
    assert ledger.entries()[-1] == (KEY, None)
    assert len(ledger) == 0


def test_a_table_sleeps_as_it_was_read_until_it_is_heard_of() -> None:
    ledger = ledger_for(Count, Count())
    ledger.restore([(KEY, b'{"applied":{},"state":{"heard":2}}'), (b"lake.sales.broken", b"{")])
    assert len(ledger) == 2
    assert ledger.state(TABLE) == Count(heard=2)
    assert ledger.entries() == [(POSITIONS_KEY, b"{}")]
