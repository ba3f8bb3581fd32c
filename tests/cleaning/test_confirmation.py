"""Which cleanings a Metastore's answers confirm, and which they contradict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.acid import IDS_1_TO_3, INSERTS, NOTHING_OPEN, emptied, listed, release
from tidegate.cleaning.confirmation import Answers, Proof, Removal, judge
from tidegate.cleaning.plan import CleaningPlan
from tidegate.events import AbortedCleaningReleased, VacuumKind
from tidegate.hive.content import content_hash
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.hive_metastore.values import REBALANCE, HeldTables, Lock, QueueEntry, Transactions
from tidegate.tables.refusal import Refused

DB, NAME = "default", "table_txn_001"
PRODUCT = "delta_0000001_0000003_v0000009"
COMMAND = release(
    directories=(PRODUCT,), own_transaction_id=9, last_lock_id=50, last_transaction_id=10
)
PLAN = CleaningPlan(listed(*INSERTS), listed(PRODUCT))
REMOVAL = Removal.of(COMMAND, PLAN)
ROW = QueueEntry(1, DB, NAME, None, VacuumKind.MINOR, "ready for cleaning", 3, 9, 10, 5_000, 1)
IDS = ValidWriteIds.parse(IDS_1_TO_3)
SAID = Answers("/wh/t", None, (ROW,), HeldTables(()), Transactions(20), IDS)


def ids(text: str) -> ValidWriteIds:
    return ValidWriteIds.parse(f"{DB}.{NAME}:{text}")


def locked(*locks: Lock) -> HeldTables:
    return HeldTables(locks)


def contradiction(removal: Removal, said: Answers) -> str:
    with pytest.raises(Refused) as found:
        judge(removal, said)
    return str(found.value)


def test_an_honest_vacuum_is_confirmed() -> None:
    assert judge(REMOVAL, SAID) is Proof.CONFIRMED


def test_a_rebalance_is_not_proven_because_its_row_does_not_bound_its_readers() -> None:
    row = replace(ROW, type=REBALANCE, next_transaction_id=None)
    committed = replace(SAID, compactions=(row.seen_with(Transactions(20)),))
    aborted = replace(SAID, compactions=(row.seen_with(Transactions(20, {}, frozenset({9}))),))

    assert judge(REMOVAL, committed) is Proof.UNPROVEN
    assert "not committed" in contradiction(REMOVAL, aborted)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(replace(SAID, transactions=Transactions(20, {11: 0})), id="a later reader"),
        pytest.param(
            replace(SAID, compactions=(replace(ROW, state="succeeded"),)),
            id="it was marked as cleaned before",
        ),
        pytest.param(replace(SAID, write_ids=ids("9:8:8:")), id="later writes, one of them open"),
        pytest.param(
            replace(SAID, held=locked(Lock(51, DB, NAME, acquired_ms=5_001))),
            id="a lock that was acquired after the commit",
        ),
        pytest.param(
            replace(SAID, held=locked(Lock(3, DB, "other", acquired_ms=1))),
            id="a lock on another table",
        ),
        pytest.param(
            replace(SAID, compactions=(replace(ROW, table="other", transaction_id=8), ROW)),
            id="Hive 3 and some filters answer with other tables too",
        ),
    ],
)
def test_an_honest_answer_raises_no_alarm(said: Answers) -> None:
    assert judge(REMOVAL, said) is Proof.CONFIRMED


@pytest.mark.parametrize(
    ("said", "event_says", "source_says"),
    [
        pytest.param(
            replace(SAID, location=None), "default.table_txn_001 is in /wh/t", "no such table",
            id="the table was renamed or dropped",
        ),
        pytest.param(
            replace(SAID, location="/wh/moved"), "is in /wh/t", "has it in /wh/moved",
            id="the table was moved, or the name is another table's",
        ),
        pytest.param(
            replace(SAID, transactions=Transactions(8)), "transaction 9 committed",
            "has not given that id out", id="a Metastore that was restored from a backup",
        ),
        pytest.param(
            replace(SAID, transactions=Transactions(20, {9: 0})), "transaction 9 committed",
            "has it as open", id="a vacuum that is published too early",
        ),
        pytest.param(
            replace(SAID, transactions=Transactions(20, aborted=frozenset({9}))),
            "transaction 9 committed", "has it as aborted", id="a compaction that aborted",
        ),
        pytest.param(
            replace(SAID, compactions=(replace(ROW, next_transaction_id=None),)),
            "the compaction committed", "'ready for cleaning', and not committed",
            id="its worker died before the commit, and the Metastore forgot the transaction",
        ),
        pytest.param(
            replace(SAID, transactions=Transactions(20, {10: 0})), "every reader has ended",
            "has transaction 10 as open", id="a reader that was declared ended too early",
        ),
        pytest.param(
            replace(SAID, held=locked(Lock(50, DB, NAME, acquired_ms=5_000))),
            "every reader has ended", "has lock 50 as held", id="a lock without a transaction",
        ),
        pytest.param(
            replace(SAID, held=locked(Lock(50, DB, None, acquired_ms=1))),
            "every reader has ended", "has lock 50 as held", id="a lock on the whole database",
        ),
        pytest.param(
            replace(SAID, write_ids=ids(f"2:{NOTHING_OPEN}::")), "v0000009 was written",
            "above 2", id="a table that was created again under the name",
        ),
        pytest.param(
            replace(SAID, write_ids=ids("3:2:2:")), "the writes of", "has one of them as open",
            id="a write that the event calls committed is open",
        ),
        pytest.param(
            replace(SAID, compactions=(replace(ROW, highest_write_id=2),)),
            "is part of the compaction", "has 2 as the compaction's last write id",
            id="the product of another compaction",
        ),
    ],
)  # fmt: skip
def test_a_contradiction_says_what_the_event_says_and_what_the_metastore_says(
    said: Answers, event_says: str, source_says: str
) -> None:
    event, source = contradiction(REMOVAL, said).split("; ")

    assert event_says in event
    assert source_says in source


def test_a_partition_that_was_dropped_or_moved_is_not_cleaned() -> None:
    removal = replace(REMOVAL, partition="day=1")
    of_it = replace(SAID, compactions=(replace(ROW, partition="day=1"),))

    assert judge(removal, replace(of_it, partition_location="/wh/t/day=1")) is Proof.CONFIRMED
    assert contradiction(removal, replace(of_it, partition_location="/b"))
    assert contradiction(removal, of_it)


def test_readers_elsewhere_hold_nothing_back_only_where_all_engines_lock_at_once() -> None:
    reader = Transactions(20, {10: 0})
    elsewhere = replace(
        SAID, transactions=reader, held=locked(Lock(1, DB, "other", transaction_id=10))
    )
    here = replace(SAID, transactions=reader, held=locked(Lock(1, DB, NAME, transaction_id=10)))

    assert contradiction(REMOVAL, elsewhere)
    assert judge(REMOVAL, replace(elsewhere, readers_lock_at_once=True)) is Proof.CONFIRMED
    assert contradiction(REMOVAL, replace(here, readers_lock_at_once=True))


def test_without_its_row_in_the_queue_a_compaction_is_unproven_but_its_readers_are_seen() -> None:
    said = replace(SAID, compactions=())

    assert judge(REMOVAL, said) is Proof.UNPROVEN
    late = replace(said, transactions=Transactions(20, {15: 0}))
    assert judge(REMOVAL, late) is Proof.UNPROVEN
    assert contradiction(replace(REMOVAL, last_transaction=None), late)
    reader = replace(said, transactions=Transactions(20, {10: 0}))
    assert contradiction(REMOVAL, reader)
    lock = replace(said, held=locked(Lock(50, DB, NAME, acquired_ms=1)))
    assert contradiction(REMOVAL, lock)
    assert judge(replace(REMOVAL, last_lock=49), lock) is Proof.UNPROVEN


def test_committed_rows_that_an_event_calls_aborted_do_not_go() -> None:
    aborted = release(valid_write_ids=f"{DB}.{NAME}:3:{NOTHING_OPEN}::2", directories=(PRODUCT,))
    removal = Removal.of(aborted, PLAN)

    assert contradiction(removal, SAID)
    assert judge(removal, replace(SAID, write_ids=ids(f"3:{NOTHING_OPEN}::2"))) is Proof.CONFIRMED
    elsewhere = Removal.of(aborted, CleaningPlan(listed(INSERTS[0], INSERTS[2]), listed(PRODUCT)))
    assert judge(elsewhere, SAID) is Proof.CONFIRMED  # forgotten since: nothing of it is left


def test_aborted_writes_are_confirmed_without_any_compaction_or_wait_for_readers() -> None:
    gone = listed(INSERTS[0])
    command = AbortedCleaningReleased(
        table=COMMAND.table,
        location="/wh/t",
        source="coordinator",
        occurred_at=COMMAND.occurred_at,
        caused_by="aborted-1",
        valid_write_ids=f"{DB}.{NAME}:1:{NOTHING_OPEN}::1",
        content=content_hash({}),
    )
    removal = Removal.of(command, CleaningPlan(gone))
    said = replace(SAID, compactions=(), transactions=Transactions(20, {4: 0}))

    assert contradiction(removal, said)
    known = replace(said, write_ids=ids(f"3:{NOTHING_OPEN}::1"))
    assert judge(removal, known) is Proof.CONFIRMED


def test_the_base_of_an_overwrite_counts_as_long_as_its_write_did_not_abort() -> None:
    base = "base_0000003"
    command = release(kind="major", directories=(base,), own_transaction_id=9)
    removal = Removal.of(command, CleaningPlan(listed(*INSERTS[:2]), (emptied(base),)))

    assert judge(removal, SAID) is Proof.CONFIRMED
    aborted = replace(SAID, write_ids=ids(f"3:{NOTHING_OPEN}::3"))
    assert contradiction(removal, aborted)
    opened = replace(SAID, write_ids=ids("3:3:3:"))
    assert contradiction(removal, opened)
    written_after = replace(SAID, compactions=(replace(ROW, highest_write_id=2),))
    assert contradiction(removal, written_after)


def test_the_row_of_one_compaction_proves_nothing_of_the_products_of_another() -> None:
    later = Removal.of(COMMAND, replace(PLAN, products=listed("delta_0000001_0000003_v0000010")))
    earlier = Removal.of(COMMAND, replace(PLAN, products=listed("delta_0000001_0000003_v0000007")))
    unnamed = Removal.of(COMMAND, replace(PLAN, products=listed("delta_0000001_0000003")))
    made_it = replace(SAID, compactions=(ROW, replace(ROW, transaction_id=7)))
    died = replace(ROW, transaction_id=7, next_transaction_id=None)

    assert contradiction(later, SAID)
    assert judge(unnamed, SAID) is Proof.UNPROVEN
    # one that made nothing found it: proven only by the row of the one that made it
    assert judge(earlier, SAID) is Proof.UNPROVEN
    assert judge(earlier, made_it) is Proof.CONFIRMED
    assert judge(earlier, replace(SAID, compactions=(ROW, died))) is Proof.UNPROVEN
    reader = replace(made_it, transactions=Transactions(20, {10: 0}))
    assert contradiction(earlier, reader)
