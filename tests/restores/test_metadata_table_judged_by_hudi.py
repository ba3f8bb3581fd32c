"""A metadata table that our restore dropped, and that real Hudi builds again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.indexed_tables import (
    IndexedHistory,
    check_listing,
    check_reads,
    partitions,
    write,
    write_indexed,
)
from support.judged import restore
from support.merge_on_read import CLEANED, COMPACTED
from support.real_hudi import RealTable, Row
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


KINDS = of_kinds((9, True), (8, False))


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


@KINDS
def test_the_next_write_builds_it_again_and_it_is_right_after_every_later_write(
    history: IndexedHistory, lake: Path
) -> None:
    table = history.table.copy(lake / "ours/orders")
    expected = history.moment.rows

    *_, last = restore(table, history.moment.instant, ThreadMap())

    assert isinstance(last, RestoreCompleted), last
    assert (last.metadata_table or "").startswith("dropped"), last.metadata_table
    assert not partitions(table)
    check_reads(table, expected)

    write(table, AFTER)
    expected = after(expected, AFTER)
    assert partitions(table) == ALL
    check_listing(table)
    check_reads(table, expected)

    often = {"hoodie.metadata.compact.max.delta.commits": "1"}
    for ts in range(21, 24):
        more: list[Row] = [(ts % 8, f"p{ts % 2}", ts, "later"), (ts, "p2", ts, "new")]
        write(table, more, often | CLEANED | (COMPACTED if table.merge_on_read else {}))
        expected = after(expected, more)
    check_listing(table)
    check_reads(table, expected)


def is_undeclared(table: RealTable) -> bool:
    return not partitions(table)


def is_moved_away(table: RealTable) -> bool:
    return any((table.path / ".hoodie/.tidegate/restorer").glob("metadata-*"))


DEATHS = pytest.mark.parametrize(
    "died",
    [pytest.param(is_undeclared, id="undeclared"), pytest.param(is_moved_away, id="moved away")],
)


def killed_when(table: RealTable, instant: str, is_then: Callable[[RealTable], bool]) -> None:
    def at_step(_number: int) -> None:
        if is_then(table):
            raise Killed

    with pytest.raises(Killed):
        restore(table, instant, ThreadMap(1), Stepwise(table.path.parent, at_step))


@of_kinds((9, False))
@DEATHS
def test_hudi_finishes_what_we_died_in(
    history: IndexedHistory, lake: Path, died: Callable[[RealTable], bool]
) -> None:
    table = history.table.copy(lake / "killed/orders")
    killed_when(table, history.moment.instant, died)

    # one that is there and not declared stops Hudi's own restore, always
    without = {"hoodie.metadata.enable": "false"} if died is is_undeclared else {}
    table.call("rollback_to_savepoint", without, instant_time=history.moment.instant)

    check_reads(table, history.moment.rows)
    write(table, AFTER)
    check_listing(table)
    check_reads(table, after(history.moment.rows, AFTER))
