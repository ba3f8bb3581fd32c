"""Which records of a changelog move when a deployment gets more partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.coordinator.store import POSITION_KEY, Position, row_key
from tidegate.events.keys import partition_of
from tidegate.ops.growth.moves import latest, records_to_move, table_of

TABLES = st.integers(0, 400).map(lambda number: f"lake.sales.t{number}")


@given(tables=st.sets(TABLES), before=st.integers(1, 7), added=st.integers(0, 9))
def test_every_record_ends_on_the_partition_of_its_table_and_none_is_lost(
    tables: set[str], before: int, added: int
) -> None:
    logs: dict[int, dict[bytes, bytes]] = {number: {} for number in range(before + added)}
    for table in tables:
        log = logs[partition_of(table, before)]
        log |= {row_key(table, "done", 1): b"[1]", row_key(table, "vacuum", 7): b"[1]"}

    for number in range(before):
        for home, records in records_to_move(logs[number], number, before + added).items():
            for key, value in records:
                logs[home][key] = value
                del logs[number][key]

    found = {key: number for number, log in logs.items() for key in log}
    assert len(found) == 2 * len(tables)
    for key, number in found.items():
        assert number == partition_of(str(table_of(key)), before + added)


def test_a_moved_table_keeps_its_rows_and_loses_its_position_on_the_former_partition() -> None:
    table = "lake.sales.customers"
    number, home = partition_of(table, 2), partition_of(table, 7)
    assert number != home
    records = {
        POSITION_KEY: Position({"tidegate.locks": 9}).record()[1] or b"",
        row_key(table, "ahead"): b'[]\n{"tidegate.locks": 12}',
        row_key(table, "vacuum", 1): b"[1]",
    }

    moved = records_to_move(records, number, 7)

    assert moved == {home: [(row_key(table, "vacuum", 1), b"[1]")]}


def test_a_partitions_own_records_stay() -> None:
    assert records_to_move({POSITION_KEY: b"{}", row_key("", "outbox", 2): b"[]"}, 1, 7) == {}


def test_a_removed_record_is_not_moved() -> None:
    assert latest([(b"a", b"1"), (b"b", b"2"), (b"a", None)]) == {b"b": b"2"}
