"""The records of the gate's changelog: what they may expand to."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cleaning.gate_columns import MAX_ROWS, Row, from_columns, to_columns
from tidegate.cleaning.gate_commands import command, command_of_event
from tidegate.cleaning.gate_decision import index_vacuum
from tidegate.cleaning.gate_index import GateIndex, RememberedIds
from tidegate.cleaning.gate_state import (
    MAX_UNPACKED,
    HeldLock,
    Vacuum,
    VacuumRecord,
    WaitingVacuum,
    dump_piece,
    parse_piece,
)
from tidegate.errors import PermanentError
from tidegate.events import VacuumKind
from tidegate.events.codec import encode

NAME: Final = "v0000000000000001"


def waiting(owners: int, owner: str) -> WaitingVacuum:
    vacuum = Vacuum("/w/t", VacuumKind.MINOR, None, ("delta_1_2",), 1, 2, "a.b:2::", None)
    locks = tuple(HeldLock(number, owner=owner.format(number)) for number in range(owners))
    return WaitingVacuum("id", datetime(2026, 11, 22, tzinfo=UTC), 1, locks, (), vacuum)


def wide(count: int) -> WaitingVacuum:
    """With what a Metastore says of each lock."""
    locks = tuple(
        HeldLock(
            40_000_000 + 47 * number + number % 13,
            90_000_000 + 101 * number + number % 17,
            f"day=2026-11-{number % 30:02}",
            "shared_read",
            f"user{number * 7 % 500}@worker-{number * 3 % 50}.cluster.example.com",
        )
        for number in range(count)
    )
    return replace(waiting(0, ""), locks=locks)


@given(text=st.text(st.characters(), min_size=1), many=st.integers(0, 2**63 - 1))
def test_a_record_has_the_bytes_of_the_json_module(text: str, many: int) -> None:
    vacuum = Vacuum(text, VacuumKind.MAJOR, text, (text,), many, many, text, None)
    locks = (HeldLock(many, None, None, "shared_read", text), HeldLock(1, many))
    made = WaitingVacuum(text, datetime(2026, 11, 22, tzinfo=UTC), many, locks, (many,), vacuum)

    assert VacuumRecord(dump_piece(made)).whole() == made
    holds, details = dump_piece(made).split(b"\n", 1)

    assert holds == as_json(made.holds)
    assert details == as_json(
        {
            "event_id": text,
            "since": "2026-11-22T00:00:00+00:00",
            "content": many,
            "locks": locks,
            "transactions": [many],
            "vacuum": vacuum._asdict(),
        }
    )


def as_json(value: object) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def test_a_record_that_expands_without_end_is_refused_in_little_memory() -> None:
    bomb = zlib.compress(b"[" + b" " * 4 * MAX_UNPACKED)
    tracemalloc.start()
    with pytest.raises(ValueError, match="limit"):
        parse_piece(NAME, bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.5 * MAX_UNPACKED


@pytest.mark.parametrize("cut", [1, 100])
def test_a_packed_record_that_was_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="cut off"):
        parse_piece(NAME, dump_piece(waiting(10_000, "{}@host"))[:-cut])


def test_what_could_not_be_read_again_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    # many publications of one vacuum, each with other holds, whose owners compress to nothing
    with pytest.raises(PermanentError, match="limit"):
        dump_piece(waiting(MAX_UNPACKED // 1_000, "a" * 1_000 + "{}"))
    monkeypatch.setattr("tidegate.cleaning.gate_state.MAX_ROWS", 1_000)
    with pytest.raises(PermanentError, match="limit"):
        dump_piece(waiting(1_001, "ana"))


def test_of_the_largest_that_is_written_it_can_be_said_that_it_waits_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time alone has it said: a refusal would stop the gate, at every start."""
    made = waiting(5_000, "{}@host")
    size = len(zlib.decompress(dump_piece(made)))
    accepted = 0
    for more in range(0, 200, 10):
        monkeypatch.setattr("tidegate.cleaning.gate_state.MAX_UNPACKED", size + more)
        with suppress(PermanentError):
            dump_piece(made)
            accepted += 1
        if accepted:
            said = dump_piece(replace(made, overdue_since=made.since))
            assert VacuumRecord(said).whole().overdue_since == made.since
    assert 0 < accepted < 20


def test_a_record_of_very_many_locks_is_smaller_than_a_message_and_read_whole() -> None:
    made = wide(80_000)
    record = dump_piece(made)

    assert len(record) < 1_000_000
    read = VacuumRecord(record)
    assert read.holds == made.holds
    assert read.whole() == made


rows = st.tuples(
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
    *[st.none() | st.sampled_from(["", "a", "day=1"])] * 3,
)


@given(st.lists(rows, max_size=20))
def test_columns_give_the_rows_that_they_were_made_of(locks: list[Row]) -> None:
    assert list(from_columns(json.loads(json.dumps(to_columns(locks))))) == locks


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param([[1], [2]], id="two of five"),
        pytest.param([[1, 2], [2], *[[["a"], []]] * 3], id="of different lengths"),
        pytest.param([[1], [2], [["a"], [7]], *[[["a"], []]] * 2], id="a text that is not there"),
        pytest.param([[0] * (MAX_ROWS + 1), [], *[[["a"], []]] * 3], id="too many"),
        pytest.param({"a": 1}, id="no columns"),
    ],
)
def test_columns_that_were_damaged_are_refused(columns: object) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        list(from_columns(columns))


@pytest.mark.parametrize("order", ["oldest first", "youngest first", "any"])
def test_a_vacuum_looks_at_few_of_its_very_many_holds_in_whatever_order_they_end(
    order: str,
) -> None:
    """Each look reads the whole record: one for each doubling of the holds, not one for each."""
    made = wide(20_000)
    ends = [2 * lock.lock_id for lock in made.locks]
    if order == "youngest first":
        ends.reverse()
    if order == "any":
        Random(1).shuffle(ends)  # noqa: S311 - the same order in each run
    index = GateIndex(None, RememberedIds([], []), RememberedIds([], []))  # type: ignore[arg-type]
    index_vacuum(index, NAME, made.holds)
    looks = 0
    for end in ends:
        index.released.add((end,))
        if index.watching((end,)):
            looks += 1
            hold = index.next_hold(made.holds)
            if hold is not None:
                index.watch(NAME, hold)

    assert index.next_hold(made.holds) is None
    assert 1 <= looks <= 4 * 15


@given(
    partition=st.none() | st.text("abc=1", min_size=1),
    directories=st.lists(st.sampled_from(["base_7", "delta_0000001_0000003_v12", "ü"]), min_size=1),
    kind=st.sampled_from(VacuumKind),
    ids=st.tuples(*[st.integers(0, 2**63 - 1)] * 3),
)
def test_the_command_of_an_event_is_the_one_that_is_checked_again(
    partition: str | None, directories: list[str], kind: VacuumKind, ids: tuple[int, int, int]
) -> None:
    first, last, txn = ids
    vacuum = Vacuum("/w/t", kind, partition, tuple(directories), first, last, "a.b:2::", txn)
    at = datetime(2026, 11, 22, tzinfo=UTC)

    made, checked = (make("c.a.b", "an-id", vacuum, at) for make in (command_of_event, command))

    assert made == checked
    assert repr(made) == repr(checked)
    assert encode(made) == encode(checked)
