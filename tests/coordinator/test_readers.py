from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.acid import IDS_1_TO_3, IDS_1_TO_4, MINOR_3, NOON, TABLE
from support.acid_events import released, vacuum
from support.rows import Rows, restored
from tidegate.coordinator.memory import Limits
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.subject import Effects
from tidegate.errors import PermanentError
from tidegate.events import (
    CleaningReleased,
    CommitCompleted,
    Event,
    VacuumFinished,
    VacuumFlag,
    VacuumFlagged,
)

GATE = ReaderGate()
OTHER_TABLE = "hive.default.other"


class Tables(Rows):
    """After every event its process may be killed and another take over."""

    def decide(self, *events: Event, at: datetime = NOON) -> list[CleaningReleased]:
        commands = self.handle(*events, at=at)
        return [command for command in commands if isinstance(command, CleaningReleased)]

    @property
    def flags(self) -> list[VacuumFlagged]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, VacuumFlagged)]

    def flagged(self) -> list[str]:
        return [flag.flag for flag in self.flags]

    def ended(self) -> int:
        [count] = self.store.one("select count(*) from ended")
        return int(count)


def causes(commands: Iterable[CleaningReleased]) -> list[str]:
    return [str(command.caused_by) for command in commands]


def test_a_vacuum_waits_until_the_last_lock_it_saw_is_released() -> None:
    tables = Tables()
    assert tables.decide(vacuum(1, 2, 3), released(2), released(1)) == []
    assert causes(tables.decide(released(3))) == [vacuum(1, 2, 3).event_id]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(released(2), id="a hold of the first publication"),
        pytest.param(released(3), id="a lock that only the second one lists"),
        pytest.param(released(txn=70), id="a transaction that only the second one lists"),
    ],
)
def test_a_vacuum_published_again_with_more_holds_waits_for_all_of_them(last: Event) -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2), released(1))
    assert tables.decide(vacuum(1, 3, open_transactions=[70])) == []
    others = [e for e in (released(2), released(3), released(txn=70)) if e != last]
    assert tables.decide(*others) == []
    assert causes(tables.decide(last)) == [vacuum(1, 2).event_id]


def test_the_command_carries_the_vacuums_own_words_and_the_releases_time() -> None:
    later = NOON + timedelta(hours=1)
    tables = Tables()
    tables.decide(vacuum(1))
    assert tables.decide(released(1), at=later) == [
        CleaningReleased.about(
            vacuum(1),
            occurred_at=later,
            source="coordinator",
            kind="minor",
            directories=(MINOR_3,),
            min_write_id=1,
            max_write_id=3,
            valid_write_ids=IDS_1_TO_3,
            last_lock_id=1,
        )
    ]


def test_the_id_of_a_command_does_not_depend_on_when_the_last_hold_ended() -> None:
    ids: set[str] = set()
    for at in (NOON, NOON + timedelta(days=3)):
        tables = Tables()
        tables.decide(vacuum(1), at=at)
        ids |= {item.event_id for item in tables.decide(released(1), at=at)}
    assert len(ids) == 1


def test_releases_that_arrive_before_their_vacuum_are_remembered() -> None:
    tables = Tables()
    assert tables.decide(released(1), released(2), released(txn=9)) == []
    assert len(tables.decide(vacuum(1, 2, open_transactions=(9,)))) == 1


def test_the_end_of_an_id_that_a_restored_metastore_gives_out_again_ends_no_new_reader() -> None:
    """It is remembered, and the reader that has the id now may be reading."""
    before, after = "5a6b", "5a6b/1f2e3d4c"
    tables = Tables()
    old = vacuum(1, open_transactions=(50,), metastore=before)
    ends = [released(1, metastore=before), released(txn=50, metastore=before)]
    assert len(tables.decide(old, *ends)) == 1

    new = vacuum(1, 2, open_transactions=(50,), metastore=after)
    assert tables.decide(new, released(1, metastore=after), released(2, metastore=after)) == []
    assert tables.decide(*ends) == []  # published once more
    assert causes(tables.decide(released(txn=50, metastore=after))) == [new.event_id]


@pytest.mark.parametrize(
    ("waits", "ends"), [(None, "5a6b"), ("5a6b", None)], ids=["its vacuum", "its release"]
)
def test_who_does_not_know_the_metastore_means_every_state_of_it(
    waits: str | None, ends: str | None
) -> None:
    tables = Tables()
    assert len(tables.decide(vacuum(1, metastore=waits), released(1, metastore=ends))) == 1


def test_one_early_release_does_not_stand_for_the_others() -> None:
    tables = Tables()
    assert tables.decide(released(1), vacuum(1, 2)) == []
    assert len(tables.decide(released(2))) == 1


def test_a_release_published_twice_counts_once() -> None:
    tables = Tables()
    assert tables.decide(vacuum(1, 2), released(1), released(1)) == []


def test_a_lock_taken_after_the_vacuum_holds_nothing() -> None:
    tables = Tables()
    assert tables.decide(vacuum(1, 2), released(7), released(1)) == []
    assert len(tables.decide(released(2))) == 1


def test_a_transaction_that_was_open_holds_though_it_had_no_lock_yet() -> None:
    """A reader takes its snapshot before its lock: it may lock only after the vacuum."""
    tables = Tables()
    assert tables.decide(vacuum(1, open_transactions=(50,)), released(1)) == []
    assert len(tables.decide(released(txn=50))) == 1


def test_the_release_of_a_lock_discharges_the_transaction_it_names() -> None:
    tables = Tables()
    assert tables.decide(vacuum(1, open_transactions=(50,)), released(1)) == []
    assert len(tables.decide(released(8, txn=50))) == 1


def test_the_end_of_a_transaction_discharges_no_lock_of_the_same_number() -> None:
    tables = Tables()
    assert tables.decide(vacuum(1, 50), released(1), released(txn=50)) == []
    assert tables.decide(vacuum(1, open_transactions=(60,)), released(60)) == []


def test_a_release_is_remembered_for_every_vacuum_that_lists_it() -> None:
    """Matched once, it is still needed: the second vacuum's event may be on its way."""
    second = vacuum(2, 9, made="delta_0000004_0000005")
    tables = Tables()
    assert len(tables.decide(vacuum(1, 9), released(9), released(1))) == 1
    assert tables.decide(second) == []
    assert causes(tables.decide(released(2))) == [second.event_id]


def test_one_release_may_set_several_vacuums_free() -> None:
    first, second = vacuum(1, 9), vacuum(2, 9, made="delta_0000004_0000005")
    tables = Tables()
    assert tables.decide(first, second, released(1), released(2)) == []
    assert sorted(causes(tables.decide(released(9)))) == sorted([first.event_id, second.event_id])


def test_a_lock_on_another_partition_holds_a_vacuum_that_lists_it() -> None:
    tables = Tables()
    assert tables.decide(vacuum(1, 2, partition="p=1", lock_partition="p=2"), released(1)) == []
    assert [item.partition for item in tables.decide(released(2, partition="p=2"))] == ["p=1"]


def test_one_tables_reader_never_holds_back_another_table() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 9), vacuum(1, table=OTHER_TABLE))
    assert [item.table for item in tables.decide(released(1, table=OTHER_TABLE))] == [OTHER_TABLE]
    assert tables.decide(released(1), released(9, table=OTHER_TABLE)) == []
    assert [item.table for item in tables.decide(released(9))] == [TABLE]


def test_a_release_is_remembered_for_all_of_its_time() -> None:
    tables = Tables(ReaderGate(remembers=Limits(timedelta(days=1))))
    tables.decide(released(1), released(txn=5))
    hold = vacuum(1, open_transactions=(5,))
    assert len(tables.decide(hold, at=NOON + timedelta(days=1))) == 1


def test_a_vacuum_published_again_while_it_waits_does_not_begin_again() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2), released(1))
    before = tables.waiting()
    assert tables.decide(vacuum(1, 2), at=NOON + timedelta(hours=1)) == []
    assert tables.waiting() == before
    assert len(tables.decide(released(2))) == 1


def test_a_vacuum_published_again_after_its_release_is_not_released_again() -> None:
    tables = Tables()
    assert len(tables.decide(vacuum(1), released(1))) == 1
    assert tables.decide(vacuum(1), released(1), vacuum(1)) == []
    assert (tables.waiting(), tables.flagged()) == ([], [])


def test_what_a_vacuum_waits_for_is_stored_with_its_owner_and_since_when() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2, open_transactions=(50, 51)), released(1), released(txn=51))
    [waiting] = tables.waiting()
    left = [str(reader) for reader in waiting.outstanding_readers(tables.store)]
    assert left == ["lock 2 of user-2", "transaction 50"]
    assert [(lock.lock_id, lock.owner) for lock in waiting.locks] == [(1, "user-1"), (2, "user-2")]
    assert waiting.since == NOON.timestamp() * 1000


def test_a_lock_ends_with_its_transaction() -> None:
    waiting = vacuum(1, transactions_of={1: 9})
    tables = Tables()
    tables.decide(waiting)
    assert causes(tables.decide(released(txn=9))) == [waiting.event_id]
    early = Tables()
    early.decide(released(txn=9))
    assert causes(early.decide(waiting)) == [waiting.event_id]


def test_the_end_of_another_transaction_ends_no_lock() -> None:
    tables = Tables()
    assert tables.decide(vacuum(1, transactions_of={1: 9}), released(txn=8)) == []


def test_a_vacuum_s_own_lock_ends_with_its_own_transaction() -> None:
    tables = Tables()
    tables.decide(vacuum(1, own_transaction_id=9))
    assert len(tables.decide(released(txn=9))) == 1


def test_a_correction_after_the_release_counts_and_is_flagged() -> None:
    tables = Tables()
    assert len(tables.decide(vacuum(1), released(1))) == 1
    corrected = vacuum(1, snapshot=IDS_1_TO_4)
    [command] = tables.decide(corrected)
    assert (command.caused_by, command.valid_write_ids) == (corrected.event_id, IDS_1_TO_4)
    assert tables.flagged() == [VacuumFlag.CONTENT_CHANGED]


def test_both_contents_of_a_released_vacuum_may_be_published_again() -> None:
    tables = Tables()
    first, corrected = vacuum(1), vacuum(1, snapshot=IDS_1_TO_4)
    assert len(tables.decide(first, released(1))) == 1
    assert len(tables.decide(corrected)) == 1
    assert tables.decide(first, corrected, first) == []
    assert tables.flagged() == [VacuumFlag.CONTENT_CHANGED]


def test_a_correction_while_it_waits_counts_keeps_the_holds_of_both_and_is_flagged() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2))
    assert tables.decide(vacuum(1, 3, snapshot=IDS_1_TO_4), released(1), released(3)) == []
    [command] = tables.decide(released(2))
    assert command.valid_write_ids == IDS_1_TO_4
    assert tables.flagged() == [VacuumFlag.CONTENT_CHANGED]


def test_holds_that_come_after_the_release_are_flagged() -> None:
    tables = Tables()
    assert len(tables.decide(vacuum(1), released(1))) == 1
    assert tables.decide(vacuum(1, 2)) == []
    assert tables.flagged() == [VacuumFlag.HOLDS_AFTER_RELEASE]


FORGETFUL = ReaderGate(remembers=Limits(timedelta(days=1)))
LATER = NOON + timedelta(days=1, seconds=1)


def test_a_vacuum_that_may_wait_for_a_forgotten_release_is_flagged_and_can_be_healed() -> None:
    tables = Tables(FORGETFUL)
    tables.decide(released(5), released(txn=70))
    tables.decide(released(100), at=LATER)
    tables.tick(LATER)
    late = vacuum(5, 200, open_transactions=(70, 300))
    assert tables.decide(late, at=LATER) == []
    [flag] = tables.flags
    assert (flag.flag, flag.locks, flag.transactions) == (
        VacuumFlag.RELEASE_MAY_BE_FORGOTTEN,
        (5,),
        (70,),
    )
    assert flag.caused_by == late.event_id
    for again in (released(5), released(txn=70), released(200)):
        assert tables.decide(again, at=LATER) == []
    assert causes(tables.decide(released(txn=300), at=LATER)) == [late.event_id]


@pytest.mark.parametrize("snapshot", [IDS_1_TO_3, IDS_1_TO_4], ids=["the same", "a correction"])
def test_a_waiting_vacuum_published_again_with_a_forgotten_reader_is_flagged(snapshot: str) -> None:
    """Overdue or not, it would wait in silence for a release that came already."""
    tables = Tables(FORGETFUL)
    tables.decide(released(5), vacuum(6, 200))
    tables.decide(released(100), at=LATER)
    tables.tick(LATER)
    again = vacuum(6, 5, 200, snapshot=snapshot)
    tables.decide(again, again, at=LATER)
    [flag] = [it for it in tables.flags if it.flag == VacuumFlag.RELEASE_MAY_BE_FORGOTTEN]
    assert (flag.locks, flag.caused_by) == ((5,), again.event_id)


def test_the_reader_of_a_restored_metastore_is_not_taken_for_a_forgotten_one() -> None:
    """The ids begin anew: what was forgotten is of the readers from before the restore."""
    tables = Tables(FORGETFUL)
    tables.decide(released(5000, 600, metastore="ms@1"))
    tables.decide(released(6000, metastore="ms@2"), at=LATER)
    tables.tick(LATER)
    tables.decide(vacuum(12, open_transactions=(70,), metastore="ms@2"), at=LATER)
    assert tables.flagged() == []
    for older, name in ((13, "ms@1"), (14, None)):
        tables.decide(vacuum(older, made=f"base_{older}", metastore=name), at=LATER)
    assert [flag.locks for flag in tables.flags] == [(13,), (14,)]


def test_where_nothing_is_forgotten_no_mark_is_written() -> None:
    tables = Tables(FORGETFUL, restarts=False)
    tables.decide(vacuum(5, 6), released(5))
    tables.write()
    tables.decide(released(6000), at=LATER)
    tables.tick(LATER)  # the old release is needed
    kinds = [key.split(b"\x00")[1] for key, _ in tables.write()]
    assert (kinds.count(b"ended"), kinds.count(b"forgotten")) == (2, 0)


def test_a_vacuum_with_younger_holds_than_any_forgotten_one_is_not_flagged() -> None:
    tables = Tables(FORGETFUL)
    tables.decide(released(5))
    tables.tick(LATER)
    tables.decide(released(100), vacuum(6, 7), at=LATER)
    assert tables.flagged() == []


def test_a_release_that_a_waiting_vacuum_lists_is_never_forgotten() -> None:
    tables = Tables(ReaderGate(remembers=Limits(timedelta(days=1), 10)), restarts=False)
    tables.decide(vacuum(1, 2, 3), released(3), released(1))
    for day in range(1, 9):
        at = NOON + timedelta(days=day)
        tables.decide(*(released(day * 1000 + n) for n in range(300)), at=at)
        tables.restart()
        tables.tick(at)
    assert tables.ended() == 10 + 2
    assert len(tables.decide(released(2), at=NOON + timedelta(days=500))) == 1


def test_a_process_killed_within_a_write_forgets_no_release_that_a_vacuum_waits_for() -> None:
    """Half a batch does not count: records without an end mark are put aside."""
    gate = ReaderGate(remembers=Limits(timedelta(days=1)))
    tables = Tables(gate, restarts=False)
    tables.decide(vacuum(1, 2), *(released(n) for n in (2, *range(100, 200))))
    tables.restart()
    before, later = [*tables.log], NOON + timedelta(days=2)
    forgets = released(5000)
    tables.decide(forgets, at=later)
    tables.tick(later)
    written = tables.write()
    assert any(value is None for _, value in written)
    for count in range(len(written) + 1):
        killed = Tables(gate)
        killed.log = [*before, *written[:count]]
        killed.restart()
        killed.decide(forgets, at=later)
        killed.tick(later)
        commands = killed.decide(released(1), at=later)
        assert causes(commands) == [vacuum(1, 2).event_id]


def test_forgetting_that_was_rolled_back_stays_due() -> None:
    tables = Tables(FORGETFUL, restarts=False)
    tables.decide(released(5))
    tables.store.begin()
    tables.subject.due(tables.store, LATER)
    tables.store.rollback()
    assert tables.ended() == 1
    tables.tick(LATER)
    assert tables.decide(vacuum(5), at=LATER) == []
    assert tables.flagged() == [VacuumFlag.RELEASE_MAY_BE_FORGOTTEN]


def test_a_waiting_vacuum_is_never_forgotten() -> None:
    tables = Tables(ReaderGate(remembers=Limits(timedelta(days=1), 2)))
    tables.decide(vacuum(1))
    tables.decide(*(released(n) for n in range(10, 20)), at=NOON + timedelta(days=400))
    tables.tick(NOON + timedelta(days=450))
    assert tables.ended() == 0
    assert len(tables.decide(released(1), at=NOON + timedelta(days=500))) == 1


def test_a_release_far_back_in_a_backlog_is_found() -> None:
    tables = Tables(restarts=False)
    tables.decide(released(1), *(released(n) for n in range(100, 10_000)))
    tables.restart()
    assert len(tables.decide(vacuum(1))) == 1


def test_a_release_published_again_is_remembered_from_then() -> None:
    tables = Tables(FORGETFUL, restarts=False)
    tables.decide(*(released(n) for n in range(100)))
    tables.decide(released(1), at=NOON + timedelta(hours=20))
    tables.decide(released(9999), at=LATER)
    tables.tick(LATER)
    tables.restart()
    assert len(tables.decide(vacuum(1), at=LATER)) == 1
    assert tables.decide(vacuum(2), at=LATER) == []


def test_memory_is_bounded_by_number_and_what_is_forgotten_leaves_a_mark() -> None:
    tables = Tables(ReaderGate(remembers=Limits(number=1000)), restarts=False)
    for start in range(0, 5000, 100):
        tables.decide(*(released(n) for n in range(start, start + 100)))
        tables.tick(NOON)
        assert tables.ended() < 4200
    assert tables.ended() < 2000
    assert len(tables.live()) == tables.ended() + 2
    tables.restart()
    tables.tick(NOON)
    assert tables.ended() == 1000
    assert tables.decide(vacuum(3)) == []
    assert tables.flagged() == [VacuumFlag.RELEASE_MAY_BE_FORGOTTEN]


def test_what_an_event_writes_does_not_depend_on_how_many_vacuums_wait() -> None:
    few, many = Tables(restarts=False), Tables(restarts=False)
    for tables, count in ((few, 10), (many, 2000)):
        tables.decide(*(vacuum(n * 10, n * 10 + 1, made=f"delta_{n}_{n}") for n in range(count)))
        tables.write()
    written: list[int] = []
    for tables in (few, many):
        tables.decide(released(40), vacuum(7, made="base_7"), released(41))
        written.append(sum(len(key) + len(value or b"") for key, value in tables.write()))
    assert written[1] <= written[0]
    assert len(many.waiting()) == 2000


MAX_RECORD = 1_000_000
WIDE = "\u6f6e"
LONG_NAMES = tuple(f"delta_{n}_{WIDE * 230}" for n in range(1000))


def largest_vacuum(snapshot: str) -> VacuumFinished:
    fields = vacuum(1).model_dump(exclude={"event_id"}) | {
        "directories": LONG_NAMES,
        "valid_write_ids": snapshot,
    }
    return VacuumFinished.model_validate(fields)


def test_a_vacuum_whose_command_no_topic_takes_is_refused_at_once_and_changes_nothing() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2))
    before = tables.live()
    with pytest.raises(PermanentError, match="at most 900000 can be published"):
        tables.decide(largest_vacuum(WIDE * 250_000))
    assert tables.live() == before
    assert tables.decide(released(1)) == []
    assert len(tables.decide(released(2))) == 1


def test_a_large_vacuum_waits_in_a_small_record_and_is_released_as_it_was() -> None:
    tables = Tables()
    large = largest_vacuum("t:9:9::")
    holds = {
        "locks": [{"lock_id": n, "owner": f"user-{n % 7}@host-{n}"} for n in range(10_000)],
        "open_transactions": range(100_000),
    }
    large = VacuumFinished.model_validate(large.model_dump(exclude={"event_id"}) | holds)
    tables.decide(large)
    assert max(map(len, tables.live().values())) <= MAX_RECORD
    tables.decide(*(released(n) for n in range(5)))
    [waiting] = tables.waiting()
    assert (waiting.fields.directories, len(waiting.locks)) == (LONG_NAMES, 10_000)


def test_no_record_is_large_however_many_vacuums_one_release_frees() -> None:
    tables = Tables(restarts=False)
    tables.decide(*(vacuum(n, 9, made=f"delta_{n}_{n}") for n in range(10, 10_010)))
    tables.decide(*(released(n) for n in range(10, 10_010)))
    assert len(tables.decide(released(9))) == 10_000
    sizes = [len(value) for value in tables.live().values()]
    assert max(sizes) < MAX_RECORD // 10
    tables.restart()
    assert tables.decide(vacuum(10_009, 9, made="delta_10009_10009")) == []


def test_a_vacuum_that_can_t_be_read_is_not_passed_over() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2))
    tables.write()
    tables.log = [
        (key, value.partition(b"\n")[0] + b"\n{" if value and b"\n" in value else value)
        for key, value in tables.log
    ]
    with pytest.raises(ValueError, match=r"EOF|Expecting"):  # partitions.py stops the service
        tables.restart()


def test_an_event_of_another_kind_changes_nothing() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2), released(1))
    before = tables.live()
    assert tables.decide(_commit()) == []
    assert tables.live() == before


def test_the_same_records_and_event_always_give_the_same_decision() -> None:
    tables = Tables()
    tables.decide(vacuum(1, 2), vacuum(2, made="delta_0000004_0000005"), released(1))
    decisions: list[Effects] = []
    for _ in range(2):
        store = restored(GATE, tables.log)
        store.begin()
        decisions.append(GATE.handle(released(2), store, NOON))
    assert decisions[0] == decisions[1]
    assert len(decisions[0].commands) == 2


def _commit() -> CommitCompleted:
    return CommitCompleted.model_validate(
        {
            "table": TABLE,
            "location": "/wh/t",
            "occurred_at": NOON,
            "source": "writer",
            "instant": "20260301100000001",
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
    handled: set[str] = set()
    holds = {released(lock.lock_id).event_id for lock in the_vacuum.locks}
    holds |= {released(txn=txn).event_id for txn in the_vacuum.open_transactions}
    said: list[CleaningReleased] = []
    for event in events:
        handled.add(event.event_id)
        said += tables.decide(event)
        complete = holds | {the_vacuum.event_id} <= handled
        assert causes(said) == ([the_vacuum.event_id] if complete else [])
