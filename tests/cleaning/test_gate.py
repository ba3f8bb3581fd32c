from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from support.acid import IDS_1_TO_3, MINOR_3, NOON, TABLE
from tidegate.cleaning import GateState, ReaderGate
from tidegate.cleaning.memory import Memory, all_heard
from tidegate.events import CleaningReleased, CommitCompleted, Event, LockReleased, VacuumFinished

GATE = ReaderGate()
STATES = TypeAdapter(GateState)
OTHER_TABLE = "hive.default.other"


def vacuum(
    *locks: int,
    open_transactions: Sequence[int] = (),
    table: str = TABLE,
    made: str = MINOR_3,
    partition: str | None = None,
    lock_partition: str | None = None,
) -> VacuumFinished:
    """A vacuum that saw these locks; the first is its own."""
    return VacuumFinished.model_validate(
        {
            "table": table,
            "location": "/wh/t",
            "occurred_at": NOON,
            "said_by": "compactor",
            "kind": "minor",
            "directories": (made,),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": IDS_1_TO_3,
            "partition": partition,
            "own_lock_id": locks[0],
            "locks": [
                {"lock_id": lock, "owner": f"user-{lock}", "partition": lock_partition}
                for lock in locks
            ],
            "open_transactions": open_transactions,
        }
    )


def released(
    lock: int | None = None,
    txn: int | None = None,
    table: str = TABLE,
    partition: str | None = None,
) -> LockReleased:
    return LockReleased.model_validate(
        {
            "table": table,
            "location": "/wh/t",
            "occurred_at": NOON,
            "said_by": "bridge",
            "lock_id": lock,
            "transaction_id": txn,
            "partition": partition,
        }
    )


class Tables:
    """What the loop does: one state a table, each event given to its own table's."""

    def __init__(self, gate: ReaderGate = GATE) -> None:
        self.gate = gate
        self.states: dict[str, GateState] = defaultdict(gate.initial)

    def hear(self, *events: Event, at: datetime = NOON) -> list[CleaningReleased]:
        said: list[CleaningReleased] = []
        for event in events:
            decision = self.gate.decide(self.states[event.table], event, at)
            reread = STATES.validate_json(STATES.dump_json(decision.state))
            assert reread == decision.state
            self.states[event.table] = reread
            said += [each for each in decision.commands if isinstance(each, CleaningReleased)]
        return said


def causes(commands: Iterable[CleaningReleased]) -> list[str | None]:
    return [command.caused_by for command in commands]


def test_a_vacuum_waits_until_the_last_lock_it_saw_is_released() -> None:
    tables = Tables()
    assert tables.hear(vacuum(1, 2, 3), released(2), released(1)) == []
    assert causes(tables.hear(released(3))) == [vacuum(1, 2, 3).event_id]


def test_a_vacuum_told_again_with_one_more_hold_waits_for_all_of_them() -> None:
    tables = Tables()
    tables.hear(vacuum(1, 2), released(1))
    assert tables.hear(vacuum(1, 3, open_transactions=[70])) == []
    assert tables.hear(released(3), released(txn=70)) == []
    assert causes(tables.hear(released(2))) == [vacuum(1, 2).event_id]


def test_a_vacuum_told_again_after_a_release_does_not_wait_for_it_again() -> None:
    tables = Tables()
    tables.hear(vacuum(1, 2), released(1))
    before = tables.states[TABLE]
    tables.hear(vacuum(1, 2))
    assert tables.states[TABLE] == before


def test_a_vacuum_told_again_does_not_wait_for_what_was_gone_and_is_forgotten() -> None:
    tables = Tables(ReaderGate(remember_most=2))
    tables.hear(released(3), vacuum(1, 2, 3, open_transactions=[70]), released(1), released(txn=70))
    tables.hear(*(released(n, txn=n) for n in range(100, 120)))
    tables.hear(vacuum(1, 2, 3, open_transactions=[70]))
    assert len(tables.hear(released(2))) == 1


def test_the_command_carries_the_vacuums_own_words_and_the_releases_time() -> None:
    later = NOON + timedelta(hours=1)
    tables = Tables()
    tables.hear(vacuum(1))
    assert tables.hear(released(1), at=later) == [
        CleaningReleased.about(
            vacuum(1),
            occurred_at=later,
            said_by="reader-gate",
            kind="minor",
            directories=(MINOR_3,),
            min_write_id=1,
            max_write_id=3,
            valid_write_ids=IDS_1_TO_3,
        )
    ]


def ids(memory: Memory[int]) -> list[int]:
    return [each for _, page in memory for each in page]


def test_a_large_memory_holds_what_it_may_but_for_the_page_that_grows() -> None:
    tables = Tables(ReaderGate(remember_most=640))
    tables.hear(*(released(n) for n in range(2000)))
    kept = ids(tables.states[TABLE].released_locks)

    assert 640 - 64 < len(kept) <= 640
    assert kept == list(range(2000 - len(kept), 2000))


def test_releases_that_arrive_before_their_vacuum_are_remembered() -> None:
    tables = Tables()
    assert tables.hear(released(1), released(2), released(txn=9)) == []
    assert len(tables.hear(vacuum(1, 2, open_transactions=(9,)))) == 1


def test_one_early_release_does_not_stand_for_the_others() -> None:
    tables = Tables()
    assert tables.hear(released(1), vacuum(1, 2)) == []
    assert len(tables.hear(released(2))) == 1


def test_a_release_heard_twice_counts_once() -> None:
    tables = Tables()
    assert tables.hear(vacuum(1, 2), released(1), released(1)) == []


def test_a_vacuum_heard_again_while_it_waits_does_not_begin_again() -> None:
    tables = Tables()
    tables.hear(vacuum(1, 2), released(1))
    since = tables.states[TABLE]
    assert tables.hear(vacuum(1, 2), at=NOON + timedelta(hours=1)) == []
    assert tables.states[TABLE] == since
    assert len(tables.hear(released(2))) == 1


def test_a_vacuum_heard_again_after_its_release_says_nothing_new() -> None:
    tables = Tables()
    assert len(tables.hear(vacuum(1), released(1))) == 1
    assert tables.hear(vacuum(1), released(1), vacuum(1)) == []
    assert tables.states[TABLE].waiting == {}


def test_a_lock_taken_after_the_vacuum_holds_nothing() -> None:
    tables = Tables()
    assert tables.hear(vacuum(1, 2), released(7), released(1)) == []
    assert len(tables.hear(released(2))) == 1


def test_a_transaction_that_was_open_holds_though_it_had_no_lock_yet() -> None:
    """A reader takes its snapshot before its lock: it may lock only after the vacuum."""
    tables = Tables()
    assert tables.hear(vacuum(1, open_transactions=(50,)), released(1)) == []
    assert len(tables.hear(released(txn=50))) == 1


def test_the_release_of_a_lock_discharges_the_transaction_it_names() -> None:
    tables = Tables()
    assert tables.hear(vacuum(1, open_transactions=(50,)), released(1)) == []
    assert len(tables.hear(released(8, txn=50))) == 1


def test_the_end_of_a_transaction_discharges_no_lock_of_the_same_number() -> None:
    tables = Tables()
    assert tables.hear(vacuum(1, 50), released(1), released(txn=50)) == []
    assert tables.hear(vacuum(1, open_transactions=(60,)), released(60)) == []


def test_a_release_is_remembered_for_every_vacuum_that_lists_it() -> None:
    """Matched once, it is still needed: the second vacuum's event may be on its way."""
    second = vacuum(2, 9, made="delta_0000004_0000005")
    tables = Tables()
    assert len(tables.hear(vacuum(1, 9), released(9), released(1))) == 1
    assert tables.hear(second) == []
    assert causes(tables.hear(released(2))) == [second.event_id]


def test_one_release_may_set_several_vacuums_free() -> None:
    first, second = vacuum(1, 9), vacuum(2, 9, made="delta_0000004_0000005")
    tables = Tables()
    assert tables.hear(first, second, released(1), released(2)) == []
    assert causes(tables.hear(released(9))) == [first.event_id, second.event_id]


def test_a_lock_on_another_partition_holds_a_vacuum_that_lists_it() -> None:
    tables = Tables()
    assert tables.hear(vacuum(1, 2, partition="p=1", lock_partition="p=2"), released(1)) == []
    assert [each.partition for each in tables.hear(released(2, partition="p=2"))] == ["p=1"]


def test_one_tables_reader_never_holds_back_another_table() -> None:
    tables = Tables()
    tables.hear(vacuum(1, 9), vacuum(1, table=OTHER_TABLE))
    assert [each.table for each in tables.hear(released(1, table=OTHER_TABLE))] == [OTHER_TABLE]
    assert tables.hear(released(1), released(9, table=OTHER_TABLE)) == []
    assert [each.table for each in tables.hear(released(9))] == [TABLE]


def test_what_is_waited_for_can_be_told_with_its_owner_and_since_when() -> None:
    tables = Tables()
    tables.hear(vacuum(1, 2, open_transactions=(50, 51)), released(1), released(txn=51))
    waiting = tables.states[TABLE].waiting[vacuum(1, 2).event_id]
    assert [(lock.lock_id, lock.owner) for lock in waiting.locks] == [(2, "user-2")]
    assert waiting.transactions == (50,)
    assert waiting.since == NOON


def test_a_release_is_forgotten_after_its_time_and_then_the_vacuum_waits() -> None:
    tables = Tables(ReaderGate(remember_for=timedelta(days=1)))
    tables.hear(released(1))
    assert tables.hear(vacuum(1), at=NOON + timedelta(days=1, seconds=1)) == []
    assert len(tables.hear(released(1), at=NOON + timedelta(days=2))) == 1


def test_a_release_is_remembered_for_all_of_its_time() -> None:
    tables = Tables(ReaderGate(remember_for=timedelta(days=1)))
    tables.hear(released(1), released(txn=5))
    hold = vacuum(1, open_transactions=(5,))
    assert len(tables.hear(hold, at=NOON + timedelta(days=1))) == 1


def test_a_waiting_vacuum_is_never_forgotten() -> None:
    tables = Tables(ReaderGate(remember_for=timedelta(days=1), remember_most=2))
    tables.hear(vacuum(1))
    tables.hear(*(released(n) for n in range(10, 20)), at=NOON + timedelta(days=400))
    assert len(tables.hear(released(1), at=NOON + timedelta(days=500))) == 1


def test_the_oldest_releases_are_forgotten_first_when_there_are_too_many() -> None:
    tables = Tables(ReaderGate(remember_most=3))
    tables.hear(*(released(n, txn=100 + n) for n in range(1, 6)))
    state = tables.states[TABLE]
    assert ids(state.released_locks) == [3, 4, 5]
    assert ids(state.ended_transactions) == [103, 104, 105]
    tables.hear(*(vacuum(5, made=f"delta_1_{n}") for n in range(1, 4)), vacuum(5, made="delta_2_2"))
    assert len(all_heard(tables.states[TABLE].released_vacuums)) == 3


def test_a_release_heard_again_is_remembered_from_then() -> None:
    tables = Tables(ReaderGate(remember_most=3))
    tables.hear(*(released(n) for n in (1, 2, 1, 3, 4)))
    assert ids(tables.states[TABLE].released_locks) == [1, 3, 4]


def test_a_table_of_which_nothing_is_left_to_know_is_as_never_heard_of() -> None:
    tables = Tables(ReaderGate(remember_for=timedelta(days=1)))
    tables.hear(vacuum(1), released(1, txn=5))
    decision = tables.gate.decide(
        tables.states[TABLE], _commit(), NOON + timedelta(days=1, seconds=1)
    )
    assert decision.state == tables.gate.initial()


def test_an_event_it_does_not_know_changes_nothing() -> None:
    tables = Tables()
    tables.hear(vacuum(1, 2), released(1))
    before = tables.states[TABLE]
    assert tables.hear(_commit()) == []
    assert tables.states[TABLE] == before


def test_deciding_changes_no_state_but_gives_a_new_one() -> None:
    state = GATE.decide(GATE.initial(), vacuum(1, 2), NOON).state
    before = STATES.dump_json(state)
    once = GATE.decide(state, released(1), NOON)
    assert once == GATE.decide(state, released(1), NOON)
    assert STATES.dump_json(state) == before


def _commit() -> CommitCompleted:
    return CommitCompleted.model_validate(
        {
            "table": TABLE,
            "location": "/wh/t",
            "occurred_at": NOON,
            "said_by": "writer",
            "instant": "1",
            "action": "commit",
        }
    )


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[VacuumFinished, list[Event]]:
    """A vacuum, its releases and strangers', each once or more, in any order."""
    locks = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True))
    txns = draw(st.lists(st.integers(1, 6), max_size=3, unique=True))
    the_vacuum = vacuum(*locks, open_transactions=txns)
    needed: list[Event] = [the_vacuum]
    needed += [released(lock) for lock in locks] + [released(txn=txn) for txn in txns]
    strangers: list[Event] = [released(20), released(21, txn=22)]
    again = draw(st.lists(st.sampled_from(needed + strangers), max_size=6))
    return the_vacuum, draw(st.permutations(needed + again))


@given(interleavings())
def test_in_any_order_with_repeats_a_vacuum_is_released_once_and_only_when_all_holds_are_gone(
    interleaving: tuple[VacuumFinished, list[Event]],
) -> None:
    the_vacuum, events = interleaving
    tables = Tables()
    heard: set[str] = set()
    holds = {released(lock.lock_id).event_id for lock in the_vacuum.locks}
    holds |= {released(txn=txn).event_id for txn in the_vacuum.open_transactions}
    said: list[CleaningReleased] = []
    for event in events:
        heard.add(event.event_id)
        said += tables.hear(event)
        complete = holds | {the_vacuum.event_id} <= heard
        assert causes(said) == ([the_vacuum.event_id] if complete else [])
