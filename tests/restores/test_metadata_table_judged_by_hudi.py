"""A metadata table that our restore kept, with real Hudi as the judge of what is in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.indexed_tables import (
    IndexedHistory,
    built,
    check_listing,
    check_reads,
    partitions,
    write,
    write_indexed,
)
from support.judged import restore, savepoint
from support.merge_on_read import CLEANED, COMPACTED, moment_of
from support.real_hudi import RealTable, Row, rows
from support.stepwise import Killed, Stepwise
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted

ALL = {"files", "column_stats", "partition_stats", "record_index"}
AFTER: list[Row] = [(1, "p1", 20, "after"), (7, "p1", 20, "after"), (20, "p0", 20, "after")]


def of_kinds(*kinds: tuple[int, bool]) -> pytest.MarkDecorator:
    """Tables of a version, merge-on-read or not."""
    params = [
        pytest.param(
            (version, merge), id=f"{'merge-on-read' if merge else 'copy-on-write'} {version}"
        )
        for version, merge in kinds
    ]
    return pytest.mark.parametrize("history", params, indirect=True)


EVERY_KIND = of_kinds((9, False), (9, True), (8, False), (8, True))


@pytest.fixture
def history(request: pytest.FixtureRequest, hudi: RealHudi) -> IndexedHistory:
    version, merge_on_read = request.param

    def made() -> IndexedHistory:
        path = hudi.root / "lake/orders"
        return write_indexed(hudi, path, version, merge_on_read=merge_on_read)

    history = hudi.shared(f"history of {version}{' merge-on-read' * merge_on_read}", made)
    assert partitions(history.table) == ALL
    return history


def after(before: list[Row], written: list[Row]) -> list[Row]:
    found = {row[0]: row for row in before}
    return sorted((found | {row[0]: row for row in written}).values())


def check_kept(table: RealTable, history: IndexedHistory) -> None:
    """Check what it lists and finds, then again after writes, cleans, and compactions of it."""
    expected = history.moment.rows
    check_listing(table)
    check_reads(table, expected)

    write(table, AFTER)
    expected = after(expected, AFTER)
    check_listing(table)
    check_reads(table, expected)

    often = {"hoodie.metadata.compact.max.delta.commits": "1"}
    for ts in range(21, 24):
        more: list[Row] = [(ts % 8, f"p{ts % 2}", ts, "later"), (ts, "p2", ts, "new")]
        write(table, more, often | CLEANED | (COMPACTED if table.merge_on_read else {}))
        expected = after(expected, more)
    check_listing(table)
    check_reads(table, expected)


@EVERY_KIND
def test_what_is_kept_lists_and_finds_what_is_there_now_and_after_every_later_write(
    history: IndexedHistory, lake: Path
) -> None:
    table = history.table.copy(lake / "ours/orders")
    before = built(table)

    *_, last = restore(table, history.moment.instant, ThreadMap())

    assert isinstance(last, RestoreCompleted), last
    assert last.metadata_table is not None
    assert last.metadata_table.startswith("kept: the rolled-back"), last.metadata_table
    assert partitions(table) == ALL
    check_kept(table, history)
    assert built(table) >= before
    assert partitions(table) == ALL


def folders(table: RealTable) -> list[Path]:
    hidden = table.path / ".hoodie/.tidegate/restorer"
    return [p for p in hidden.glob("metadata-*") if p.is_dir()]


def is_undeclared(table: RealTable) -> bool:
    return not partitions(table)


def is_aside(table: RealTable) -> bool:
    return bool(folders(table))


def is_half_undone(table: RealTable) -> bool:
    names = {p.name for folder in folders(table) for p in folder.rglob("files-*.hfile")}
    logs = {p.name for folder in folders(table) for p in folder.rglob(".files-*.log.*")}
    return bool(names) and len([name for name in logs if not name.endswith(".crc")]) < FEW


def is_put_back(table: RealTable) -> bool:
    return any((table.path / ".hoodie/metadata/.hoodie").glob(".tidegate-undone-*"))


def is_declared_again(table: RealTable) -> bool:
    return is_put_back(table) and bool(partitions(table))


FEW = 7
DEATHS = pytest.mark.parametrize(
    "died",
    [
        pytest.param(is_undeclared, id="undeclared"),
        pytest.param(is_aside, id="set aside"),
        pytest.param(is_half_undone, id="half undone"),
        pytest.param(is_put_back, id="put back"),
        pytest.param(is_declared_again, id="declared again"),
    ],
)


def killed_when(table: RealTable, instant: str, is_then: Callable[[RealTable], bool]) -> None:
    def at_step(_number: int) -> None:
        if is_then(table):
            raise Killed

    with pytest.raises(Killed):
        restore(table, instant, ThreadMap(1), Stepwise(table.path.parent, at_step))


@EVERY_KIND
@DEATHS
def test_hudi_finishes_what_we_died_in(
    history: IndexedHistory, lake: Path, died: Callable[[RealTable], bool]
) -> None:
    table = history.table.copy(lake / "killed/orders")
    killed_when(table, history.moment.instant, died)
    if died in {is_put_back, is_declared_again}:  # then the data are those of the savepoint
        check_reads(table, history.moment.rows)

    # one that is there and not declared stops Hudi's own restore, always
    without = {"hoodie.metadata.enable": "false"} if died in {is_undeclared, is_put_back} else {}
    table.call("rollback_to_savepoint", without, instant_time=history.moment.instant)

    check_reads(table, history.moment.rows)
    write(table, AFTER)
    check_listing(table)
    check_reads(table, after(history.moment.rows, AFTER))


@EVERY_KIND
@DEATHS
def test_what_we_died_in_we_finish_and_it_is_kept(
    history: IndexedHistory, lake: Path, died: Callable[[RealTable], bool]
) -> None:
    table = history.table.copy(lake / "killed/orders")
    before = built(table)
    killed_when(table, history.moment.instant, died)

    *_, last = restore(table, history.moment.instant, ThreadMap())

    assert isinstance(last, RestoreCompleted)
    assert partitions(table) == ALL
    check_listing(table)
    check_reads(table, history.moment.rows)
    assert built(table) == before


def test_an_index_that_was_built_after_the_savepoint_is_built_again_alone(hudi: RealHudi) -> None:
    late = {"hoodie.metadata.record.index.enable": "false", "hoodie.index.type": "SIMPLE"}
    table = RealTable(hudi, hudi.root / "lake/orders", 9, metadata_table=True)
    for ts in (1, 2):
        write(table, rows(range(6), f"of {ts}", ts), late)
    moment = moment_of(table)
    savepoint(table, moment.instant, ThreadMap())
    write(table, rows(range(3), "third", 3))
    write(table, [(20, "p2", 4, "fourth")])
    assert "record_index" in partitions(table)
    before = built(table)

    *_, last = restore(table, moment.instant, ThreadMap())

    assert isinstance(last, RestoreCompleted)
    assert last.metadata_table is not None
    assert last.metadata_table.endswith(": record_index")
    assert partitions(table) == ALL - {"record_index"}
    check_reads(table, moment.rows)
    write(table, AFTER)
    assert partitions(table) == ALL
    assert built(table) > before
    check_listing(table)
    check_reads(table, after(moment.rows, AFTER))


@pytest.mark.parametrize("often", [3, 5])
def test_with_compactions_of_it_before_and_since_it_is_kept_and_right(
    hudi: RealHudi, often: int
) -> None:
    more = {"hoodie.metadata.compact.max.delta.commits": str(often)}
    path = hudi.root / "lake/orders"
    history = write_indexed(hudi, path, 9, merge_on_read=False, more=more)

    *_, last = restore(history.table, history.moment.instant, ThreadMap())

    assert isinstance(last, RestoreCompleted)
    assert (last.metadata_table or "").startswith("kept: the rolled-back"), last.metadata_table
    assert partitions(history.table) == ALL
    check_kept(history.table, history)
