"""A writer that leaves neither heartbeat nor lock file is seen by what it has begun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    end_of,
    four_commits,
    merge_on_read,
    restore_request,
    savepoint_request,
    snapshot,
    ticking,
    timeline_names,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, RestoreRejected
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.rollback import InstantInfo, RestorePlanFile
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter

PENDING = at(7)


@dataclass
class Meanwhile:
    """What a writer does while it is watched; remembers for how long that was, in seconds."""

    act: Callable[[], object] = list
    waited: list[float] = field(default_factory=list[float])

    def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.act()


def savepointed(root: Path, version: int = 9) -> HandMade:
    table = four_commits(root / "orders", version)
    writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))
    return table


def writing(root: Path, version: int = 9) -> HandMade:
    """With a write that has begun: a marker and half a data file of it are there."""
    table = savepointed(root, version)
    table.begin(PENDING)
    table.data(PENDING, "g0", "p0")
    markers = table.path / f".hoodie/.temp/{PENDING}/p0"
    markers.mkdir(parents=True)
    (markers / "MARKERS0").write_text("one")
    return table


def restore(
    table: HandMade, wait: Meanwhile, settings: RestoreSettings | None = None
) -> tuple[type[object], str]:
    clock = ticking(NOW + timedelta(minutes=1))
    restorer = Restorer(warehouse_over(table.path.parent), ThreadMap(), clock, settings)
    restorer.context = replace(restorer.context, wait=wait)
    *_, last = restorer.execute(restore_request(table, at(2)))
    message = f"{last.reason}: {last.message}" if isinstance(last, RestoreRejected) else ""
    return type(last), message


def more_in_the_marker_file(table: HandMade) -> None:
    (table.path / f".hoodie/.temp/{PENDING}/p0/MARKERS0").write_text("one, two")


def another_marker(table: HandMade) -> None:
    (table.path / f".hoodie/.temp/{PENDING}/p0/g0.parquet.marker.CREATE").touch()


def another_data_file(table: HandMade) -> None:
    table.data(PENDING, "g1", "p1")


def more_in_a_data_file(table: HandMade) -> None:
    (table.path / f"p0/g0_0-1-2_{PENDING}.parquet").write_text("more rows than there were before")


def the_commit(table: HandMade) -> None:
    done = Instant(PENDING, Action.COMMIT, InstantState.COMPLETED, end_of(PENDING))
    table.put(done, b"{}")


def another_write(table: HandMade) -> None:
    table.begin(at(8))


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize(
    "act",
    [
        more_in_the_marker_file,
        another_marker,
        another_data_file,
        more_in_a_data_file,
        the_commit,
        another_write,
    ],
    ids=lambda act: act.__name__.replace("_", " "),
)
def test_a_restore_is_refused_while_a_pending_write_moves(
    tmp_path: Path, version: int, act: Callable[[HandMade], None]
) -> None:
    table = writing(tmp_path, version)
    seen: list[object] = []

    def write() -> None:
        act(table)
        seen.append(snapshot(tmp_path))

    kind, message = restore(table, Meanwhile(write))

    assert kind is RestoreRejected
    assert message.startswith("writer-alive: a write is in progress: ")
    assert message.endswith(" appeared or grew within 5 s")
    assert seen == [snapshot(tmp_path)]


@pytest.mark.parametrize("version", [9, 6])
def test_a_restore_is_refused_while_log_files_appear(tmp_path: Path, version: int) -> None:
    table = merge_on_read(tmp_path / "orders", version)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))

    kind, message = restore(table, Meanwhile(lambda: table.log(at(8), "g2", "p2", at(1))))

    assert kind is RestoreRejected
    assert ".log." in message


def test_a_dead_write_is_rolled_back_after_it_was_watched(tmp_path: Path) -> None:
    wait = Meanwhile()

    kind, _ = restore(writing(tmp_path), wait, RestoreSettings(watch_seconds=3))

    assert kind is RestoreCompleted
    assert wait.waited == [3.0]


def test_no_time_is_lost_where_nothing_is_pending(tmp_path: Path) -> None:
    wait = Meanwhile()

    kind, _ = restore(savepointed(tmp_path), wait)

    assert kind is RestoreCompleted
    assert wait.waited == []


def test_without_a_watch_nothing_is_watched(tmp_path: Path) -> None:
    table = writing(tmp_path)
    wait = Meanwhile(lambda: another_marker(table))

    kind, _ = restore(table, wait, RestoreSettings(watch_seconds=0))

    assert kind is RestoreCompleted
    assert wait.waited == []


def half_done(root: Path) -> HandMade:
    """A restore that another process began and died in, above a write that had begun."""
    table = writing(root)
    targets = tuple(InstantInfo(at(minute), "commit") for minute in (7, 4, 3))
    plan = RestorePlanFile(targets, at(2))
    table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED), plan.encode())
    return table


def test_a_restore_is_not_resumed_either_while_a_pending_write_moves(tmp_path: Path) -> None:
    table = half_done(tmp_path)

    kind, message = restore(table, Meanwhile(lambda: another_marker(table)))

    assert kind is RestoreRejected
    assert message.startswith("writer-alive")


def test_another_process_at_the_same_restore_is_not_a_writer(tmp_path: Path) -> None:
    table = half_done(tmp_path)

    def roll_back() -> None:
        table.put(Instant("20260301100930000", Action.ROLLBACK, InstantState.REQUESTED))
        (table.path / f"p0/g0_0-1-2_{PENDING}.parquet").unlink()

    wait = Meanwhile(roll_back)
    clock = ticking(NOW + timedelta(minutes=1))
    restorer = Restorer(warehouse_over(tmp_path), ThreadMap(), clock)
    restorer.context = replace(restorer.context, wait=wait)

    started = next(restorer.execute(restore_request(table, at(2))))

    assert type(started).__name__ == "RestoreStarted"
    assert f"{at(9)}.restore.requested" in timeline_names(table)
    assert wait.waited == [5.0]
