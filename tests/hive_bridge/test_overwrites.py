"""What INSERT OVERWRITE and TRUNCATE replaced does not stay for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acid import NOTHING_OPEN, TRUNCATED, build, names_in
from support.metastore import HiveEngine
from support.watched_bridge import Queued, acid_table, compacted, wrote
from tidegate.events import DirectoriesCleaned, VacuumKind
from tidegate.hive import ValidWriteIds
from tidegate.hive_bridge.products import overwrite_of

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


@pytest.mark.parametrize(
    ("names", "ids", "found"),
    [
        pytest.param(["base_2", "base_3"], f"3:{NOTHING_OPEN}::", ["base_0000003"], id="newest"),
        pytest.param(["base_2", "base_3"], f"3:{NOTHING_OPEN}::3", ["base_0000002"], id="aborted"),
        pytest.param(["base_2", "base_3"], "3:3:3:", ["base_0000002"], id="open"),
        pytest.param(["base_2", "base_9"], f"3:{NOTHING_OPEN}::", ["base_0000002"], id="later"),
        pytest.param(["base_2", "base_3_v7"], f"3:{NOTHING_OPEN}::", [], id="a compaction's"),
        pytest.param(["base_2", "base_3"], f"3:{NOTHING_OPEN}::", [], id="of Hive 3"),
        pytest.param(["delta_2_2_0", "_tmp"], f"3:{NOTHING_OPEN}::", [], id="no base"),
    ],
)
def test_the_base_that_counts_is_the_one_that_readers_read(
    names: list[str], ids: str, found: list[str], request: pytest.FixtureRequest
) -> None:
    marked = {"base_3"} if "Hive 3" in request.node.name else set[str]()
    snapshot = ValidWriteIds.parse(f"default.orders:{ids}")

    assert [base.name for base in overwrite_of(names, marked, snapshot)] == found
