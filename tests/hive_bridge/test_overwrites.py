"""What INSERT OVERWRITE and TRUNCATE replaced does not stay for ever."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acid import NOTHING_OPEN, TRUNCATED, build, names_in
from support.hive_engine import HiveEngine, product
from support.watched_bridge import Queued, acid_table, compacted, wrote
from tidegate.events import DirectoriesCleaned, VacuumKind
from tidegate.hive.obsolete import FoundDirectory
from tidegate.hive.write_ids import IdRanges, ValidTxns, ValidWriteIds
from tidegate.hive_bridge.products import present_of
from tidegate.hive_metastore import MetastoreClient

MAJOR = 2


@pytest.fixture
def queued(engine: HiveEngine) -> Iterator[Queued]:
    made = Queued(engine)
    yield made
    made.bridge.close()


def overwrite(engine: HiveEngine, db: str, where: Path, *, truncate: bool = False) -> str:
    """An INSERT OVERWRITE or a TRUNCATE that commits; its base."""
    base = f"base_{engine.write(db, 'orders'):07}"
    build(where, {base: 10})
    if truncate:
        (where / base / "_metadata_acid").write_bytes(TRUNCATED)
        (where / base / "bucket_00000").unlink()
        (where / base / "_orc_acid_version").unlink()
    return base


@pytest.mark.slow
@pytest.mark.parametrize("truncate", [False, True], ids=["insert overwrite", "truncate"])
def test_thirty_overwrites_leave_one_copy_though_no_compaction_makes_anything(
    engine: HiveEngine, queued: Queued, *, truncate: bool
) -> None:
    db, location = acid_table(engine)
    wrote(engine, db, location)
    for _ in range(30):
        base = overwrite(engine, db, location)
    if truncate:
        base = overwrite(engine, db, location, truncate=True)
    engine.compact(db, "orders", int(base[5:]), kind=MAJOR)  # Hive finds nothing to merge

    [event] = queued.vacuums(db)
    outcome = queued.clean(event)
    queued.settle()

    assert (event.kind, event.directories) == (VacuumKind.MAJOR, (base,))
    assert isinstance(outcome, DirectoriesCleaned), outcome
    assert names_in(location) == [base]
    assert queued.state(engine, db) == ["succeeded"]


@pytest.mark.slow
@pytest.mark.full
def test_a_table_that_is_overwritten_and_compacted_daily_has_one_copy_after_thirty_days(
    engine: HiveEngine, queued: Queued
) -> None:
    """No compaction makes anything; a reader of the day before ends after the day's compaction."""
    db, location = acid_table(engine)
    wrote(engine, db, location)
    copies: list[int] = []
    for day in range(30):
        reader = engine.lock(db, "orders")
        base = overwrite(engine, db, location)
        engine.compact(db, "orders", int(base[5:]), kind=MAJOR)
        event = queued.vacuums(db)[-1]
        engine.unlock(reader)

        assert event.directories == (base,)
        assert reader in {lock.lock_id for lock in event.locks}
        assert queued.releases(db)[-1].lock_id == reader
        assert isinstance(queued.clean(event), DirectoriesCleaned)
        queued.settle()
        copies.append(len(names_in(location)))
        assert queued.state(engine, db)[-1] == "succeeded", day

    assert copies == [1] * 30
    assert names_in(location) == [base]


@pytest.mark.slow
def test_a_minor_compaction_after_an_overwrite_leaves_nothing_of_what_was_before(
    engine: HiveEngine, queued: Queued
) -> None:
    db, location = acid_table(engine)
    wrote(engine, db, location)
    base = overwrite(engine, db, location)
    last = wrote(engine, db, location)
    made = compacted(engine, db, location, (last - 2, last))

    [event] = queued.vacuums(db)
    queued.settle()
    assert queued.state(engine, db) == ["ready for cleaning"]
    queued.clean(event)
    queued.settle()

    assert names_in(location) == sorted([base, made])
    assert queued.state(engine, db) == ["succeeded"]


@pytest.mark.slow
def test_what_an_earlier_compaction_replaced_goes_with_one_that_made_nothing(
    engine: HiveEngine, queued: Queued
) -> None:
    """The earlier one was marked as cleaned though nothing had gone."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    txn = engine.compact(db, "orders", last, kind=MAJOR)
    base = product(f"base_{last:07}", txn)
    build(location, {base: 30})
    with MetastoreClient(engine.settings) as client:
        [entry] = [entry for entry in client.compactions() if entry.transaction_id == txn]
        client.mark_cleaned(entry)
    engine.compact(db, "orders", last, kind=MAJOR)

    event = queued.vacuums(db)[-1]
    queued.clean(event)
    queued.settle()

    assert event.directories == (base,)
    assert names_in(location) == [base]
    assert queued.state(engine, db) == ["succeeded", "succeeded"]


@pytest.mark.slow
def test_one_that_made_nothing_does_not_name_what_a_later_one_made(
    engine: HiveEngine, queued: Queued
) -> None:
    """Its vacuum would take the later one's place, and the Metastore would contradict it."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    engine.compact(db, "orders", last)
    engine.write(db, "orders")  # otherwise the Metastore refuses another compaction
    txn = engine.compact(db, "orders", last, kind=MAJOR)
    base = product(f"base_{last:07}", txn)
    build(location, {base: 30})

    [event] = queued.vacuums(db)
    queued.clean(event)
    again = Queued(engine, queued.bridge.baseline)  # this one does not wait for its next try
    again.bridge.take(queued.events)
    assert again.vacuums(db) == []
    again.settle()
    again.bridge.close()

    assert (event.directories, event.own_transaction_id) == ((base,), txn)
    assert names_in(location) == [base]
    assert queued.state(engine, db) == ["succeeded", "succeeded"]


@pytest.mark.slow
def test_an_entry_with_nothing_obsolete_leaves_the_queue_once_no_aborted_row_is_left(
    engine: HiveEngine, queued: Queued
) -> None:
    """Otherwise no further compaction of the table would be accepted."""
    db, location = acid_table(engine)
    bad = engine.aborted_write(db, "orders")
    last = wrote(engine, db, location, 1)
    aborted = f"delta_{bad:07}_{bad:07}_0000"
    build(location, {aborted: 10})
    engine.compact(db, "orders", last, kind=MAJOR)

    assert queued.vacuums(db) == []
    queued.settle()
    assert queued.state(engine, db) == ["ready for cleaning"]

    shutil.rmtree(location / aborted)
    later = Queued(engine)
    assert later.vacuums(db) == []
    later.settle()
    later.bridge.close()
    assert later.state(engine, db) == ["succeeded"]


FAILED = ValidTxns(20, aborted=IdRanges.of(8))
"""Transaction 8, of a compaction, aborted."""


@pytest.mark.parametrize(
    ("names", "ids", "expected"),
    [
        pytest.param(["base_2", "base_3"], f"3:{NOTHING_OPEN}::", ["base_0000003"], id="newest"),
        pytest.param(["base_2", "base_3"], f"3:{NOTHING_OPEN}::3", [], id="aborted"),
        pytest.param(["base_2", "base_3"], "3:3:3:", [], id="open"),
        pytest.param(["base_2", "base_9"], f"3:{NOTHING_OPEN}::", [], id="later"),
        pytest.param(
            ["base_2", "base_3_v7"], f"3:{NOTHING_OPEN}::", ["base_0000003_v0000007"],
            id="a compaction's",
        ),
        pytest.param(["delta_2_2_0", "delta_3_3_0"], f"3:{NOTHING_OPEN}::", [], id="no base"),
        pytest.param(
            ["delta_1_3_v7", "delete_delta_1_3_v7", "delta_2_2_0", "delta_4_4_0"],
            f"4:{NOTHING_OPEN}::",
            ["delta_0000001_0000003_v0000007", "delete_delta_0000001_0000003_v0000007"],
            id="a minor compaction's",
        ),
        pytest.param(["base_1", "delta_1_3_v7"], f"3:{NOTHING_OPEN}::", [], id="both are read"),
        pytest.param(
            ["base_4", "delta_1_3_v7", "delta_2_2_0"], f"4:{NOTHING_OPEN}::", ["base_0000004"],
            id="an overwrite after a compaction",
        ),
        pytest.param(
            ["base_2_v7", "base_3_v8", "delta_1_1_0"], f"3:{NOTHING_OPEN}::",
            ["base_0000002_v0000007"], id="a compaction's that aborted",
        ),
    ],
)  # fmt: skip
def test_what_readers_read_in_place_of_others_is_named(
    names: list[str], ids: str, expected: list[str]
) -> None:
    snapshot = ValidWriteIds.parse(f"default.orders:{ids}")
    found = [FoundDirectory.named(name) for name in names]

    assert [directory.name for directory in present_of(found, snapshot, FAILED)] == expected
