"""What aborted writes left is removed, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.acid import COMPACTED, TRUNCATED, build, listed, names_in
from support.rows import Rows
from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.plan import content_of, plan_aborted_cleaning
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.readers import aborted_command
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningMode,
    CleaningRefused,
    CleaningStarted,
    DirectoriesCleaned,
    WritesAborted,
)
from tidegate.events.reasons import Reason
from tidegate.storage import Storage
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOTHING_OPEN = 2**63 - 1


def fact(location: object = "/wh/t", ids: str = "", **fields: object) -> WritesAborted:
    given = {"table": "lake.sales.t", "location": str(location), "source": "test"}
    snapshot = ids or f"sales.t:9:{NOTHING_OPEN}::4,6,7"
    seen = {"valid_write_ids": snapshot, "content": content_of([])}
    return WritesAborted.model_validate(given | {"occurred_at": NOON} | seen | fields)


def seen_in(directory: Path, *names: str) -> str:
    """What the bridge sees in directories of a table's or a partition's directory."""
    found = read_acid_directories(Storage(), str(directory), ThreadMap(1)) or ()
    return content_of(directory_ for directory_ in found if directory_.name in names)


@pytest.mark.parametrize(("data_format", "gone"), [(TRUNCATED, True), (COMPACTED, False)])
def test_what_an_aborted_truncate_left_goes_and_a_compactions_base_stays(
    tmp_path: Path, data_format: bytes, *, gone: bool
) -> None:
    location = build(tmp_path / "t", {"base_0000004": 9, "delta_0000001_0000001_0000": 9})
    (location / "base_0000004" / "_metadata_acid").write_bytes(data_format)
    its = fact(location, content=seen_in(location, "base_0000004"))
    cleaner = Cleaner(Warehouse(WarehouseRoots.of(str(tmp_path))), ThreadMap(1), lambda: NOON)

    *_, outcome = cleaner.execute(aborted_command(its, NOON))

    assert isinstance(outcome, DirectoriesCleaned)
    assert ("base_0000004" not in names_in(location)) == gone


def removed(*names: str, ids: str = "", gone: Collection[str] = ()) -> list[str]:
    seen = content_of(item for item in listed(*names) if item.name in gone)
    its = fact(ids=ids, content=seen)
    return list(plan_aborted_cleaning(listed(*names), aborted_command(its, NOON)).directories)


def test_only_directories_with_nothing_but_aborted_writes_go() -> None:
    aborted = [
        "base_0000004",
        "delete_delta_0000007_0000007_0000",
        "delta_0000004_0000004_0000",
        "delta_0000006_0000007",
    ]
    kept = [
        "base_0000003",
        "base_0000004_v0000009",  # a compaction's
        "delta_0000003_0000003_0000",
        "delta_0000003_0000004",  # a committed write beside an aborted one
        "delta_0000004_0000007_v0000009",
        "delta_0000010_0000010_0000",  # above the snapshot: nothing is known of it
    ]
    assert removed(*aborted, *kept, gone=aborted) == aborted


def test_what_another_directory_replaces_stays() -> None:
    """A base makes the deltas below it obsolete; that is not this command's to decide."""
    aborted = ["delta_0000004_0000004"]
    names = ("base_0000008_v0000020", "delta_0000001_0000001", *aborted)
    assert removed(*names, gone=aborted) == aborted


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ("sales.t:9:5:5:4", Reason.BAD_SNAPSHOT),
        ("sales.other:9:9223372036854775807::4", Reason.BAD_SNAPSHOT),
        ("nonsense", Reason.BAD_SNAPSHOT),
    ],
)
def test_a_snapshot_that_is_not_final_or_of_another_table_removes_nothing(
    ids: str, reason: Reason
) -> None:
    with pytest.raises(Refused) as refused:
        removed("delta_0000004_0000004", ids=ids)
    assert refused.value.reason is reason


def test_a_directory_that_is_not_there_is_said() -> None:
    with pytest.raises(Refused, match="no directory"):
        plan_aborted_cleaning(None, aborted_command(fact(), NOON))


def test_the_gate_waits_for_no_reader_and_the_same_fact_makes_the_same_command() -> None:
    rows = Rows(restarts=False)
    [command], [repeated] = (rows.handle(fact(), at=NOON) for _ in range(2))
    assert isinstance(command, AbortedCleaningReleased)
    assert (command.event_id, command.caused_by) == (repeated.event_id, fact().event_id)
    assert len(rows.write()) == 1, "the position, and no row"
    assert fact(partition="p=1").event_id != fact().event_id


def test_a_table_that_was_created_again_keeps_what_committed_there(tmp_path: Path) -> None:
    """Its write ids begin anew: what aborted in the table before has committed in this one."""
    name = "delta_0000004_0000004_0000"
    table = build(tmp_path / "t", {name: 10})
    command = aborted_command(fact(table, content=seen_in(table, name)), NOON)
    shutil.rmtree(table)
    build(table, {name: 11})
    cleaner = Cleaner(Warehouse(WarehouseRoots.of(str(tmp_path))), ThreadMap(2), lambda: NOON)

    [refused] = cleaner.execute(command)

    assert isinstance(refused, CleaningRefused)
    assert refused.reason == Reason.OTHER_CONTENT
    assert names_in(table) == [name]


def test_the_cleaner_removes_them_for_good_and_twice_is_once(tmp_path: Path) -> None:
    table = build(
        tmp_path / "t" / "p=1",
        dict.fromkeys(["delta_0000003_0000003_0000", "delta_0000004_0000004_0000"], 10),
    )
    cleaner = Cleaner(
        Warehouse(WarehouseRoots.of(str(tmp_path))), ThreadMap(2), lambda: datetime.now(UTC)
    )
    seen = seen_in(table, "delta_0000004_0000004_0000")
    command = aborted_command(fact(tmp_path / "t", partition="p=1", content=seen), NOON)

    started, cleaned = cleaner.execute(command)
    [again] = cleaner.execute(command)

    assert isinstance(started, CleaningStarted)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert cleaned.directories == ("delta_0000004_0000004_0000",)
    assert cleaned.mode == CleaningMode.DELETE
    assert cleaned.caused_by == command.event_id
    assert isinstance(again, DirectoriesCleaned)
    assert again.directories == ()
    assert names_in(table) == ["delta_0000003_0000003_0000"]
