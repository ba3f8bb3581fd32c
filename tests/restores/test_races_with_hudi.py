"""Our restore and real Hudi at one table at once; real Hudi says what is left.

Real Hudi does its part within one step of our restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from support.gated_writer import writing
from support.hudi_records import RealHudi
from support.judged import restore, savepoint
from support.merge_on_read import Moment, loaded, moment_of
from support.real_hudi import RealTable, rows
from support.stepwise import Stepwise
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import Outcome, RestoreCompleted, SavepointCreated
from tidegate.hudi.instant import InstantState

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow, pytest.mark.full]

SCENES = pytest.mark.parametrize(
    ("version", "merge_on_read", "every"),
    [
        pytest.param(version, merge_on_read, every, id=f"{kind} {version}, {steps}")
        for version, merge_on_read, kind, every, steps in (
            (9, False, "copy-on-write", 7, "some steps"),
            (6, False, "copy-on-write", 7, "some steps"),
            (9, True, "merge-on-read", 7, "some steps"),
            (6, True, "merge-on-read", 7, "some steps"),
            (9, False, "copy-on-write", 1, "every step"),
            (6, True, "merge-on-read", 1, "every step"),
        )
    ],
)
"""Both table types and both layouts of the timeline are there at every step, but not each pair."""
LATE = [(0, "p0", 9, "late"), (70, "p1", 9, "late")]


@dataclass(frozen=True)
class Scene:
    """A table with a savepoint and two bad commits."""

    table: RealTable
    kept: Moment

    def copy(self, root: Path) -> Scene:
        return Scene(self.table.copy(root / "orders"), self.kept)

    def restore(self, at_step: Callable[[int], None] = lambda _: None) -> Outcome | None:
        """The last outcome; None: it is to be tried again."""
        warehouse = Stepwise(self.table.path.parent, at_step)
        try:
            *_, last = restore(self.table, self.kept.instant, ThreadMap(threads=1), warehouse)
        except TransientError:
            return None
        return last

    def check(self, *, late: bool) -> None:
        """Check that it shows the savepoint's rows, and takes a write, a savepoint and a restore.

        Args:
            late: Whether a write after the restore is there.
        """
        expected = {row[0]: row for row in self.kept.rows}
        expected |= {row[0]: row for row in LATE} if late else {}
        assert self.table.read() == sorted(expected.values())
        now = loaded(self.table)
        assert not now.timeline.pending_restores
        row = (1, "p1", 20, "after")
        self.table.write([row])
        expected[1] = row
        assert self.table.read() == sorted(expected.values())


def scene(live_hudi: RealHudi, root: Path, version: int, *, merge_on_read: bool) -> Scene:
    table = RealTable(
        live_hudi, root / "orders", version, metadata_table=False, merge_on_read=merge_on_read
    )
    table.write(rows(range(8), "first", 1), "insert")
    kept = moment_of(table)
    assert isinstance(savepoint(table, kept.instant, ThreadMap()), SavepointCreated)
    table.write([(0, "p0", 2, "bad"), (50, "p2", 2, "bad")])
    table.write([(3, "p1", 3, "bad")])
    return Scene(table, kept)


def at_each_step(original: Scene, root: Path, every: int) -> Iterator[tuple[Scene, int]]:
    """A copy for each step of a restore after its claim, and the number of the step.

    The claim is the first step. A write before it ends is older than the restore, and no race.
    """
    steps = list[int]()
    counted = original.copy(root / "counted")
    assert isinstance(counted.restore(steps.append), RestoreCompleted)
    counted.check(late=False)
    for step in range(2, len(steps) + 1, every):
        yield original.copy(root / f"step-{step}"), step


def once_at(step: int, act: Callable[[], object]) -> Callable[[int], None]:
    def at_step(number: int) -> None:
        if number == step:
            act()

    return at_step


@SCENES
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_a_writer_that_began_before_the_restore_and_ends_during_it(  # noqa: PLR0913 - a matrix
    live_hudi: RealHudi,
    tmp_path: Path,
    version: int,
    every: int,
    operation: str,
    *,
    merge_on_read: bool,
) -> None:
    """Its commit is rolled back too, or Hudi lets it commit no more."""
    original, seen = scene(live_hudi, tmp_path, version, merge_on_read=merge_on_read), set[str]()
    for race, step in at_each_step(original, tmp_path, every):
        with writing(race.table, tmp_path / f"gate-{step}", LATE, operation) as writer:
            last = race.restore(once_at(step, writer.ends))
        if isinstance(last, RestoreCompleted):
            assert writer.error is not None
            assert not writer.is_committed
        else:
            assert writer.is_committed
            assert isinstance(race.restore(), RestoreCompleted)
        race.check(late=False)
        seen.add(type(last).__name__)
    # in layout 1 a pending bulk insert into log files does not name their file groups
    is_refused = operation == "bulk_insert" and merge_on_read and version == 6
    outcomes = {"NoneType", "RestoreFailed", "RestoreCompleted"}
    assert seen == ({"RestoreRejected"} if is_refused else outcomes)


@SCENES
def test_a_writer_that_looked_before_the_restore_was_there_and_ends_after_it(
    live_hudi: RealHudi, tmp_path: Path, version: int, every: int, *, merge_on_read: bool
) -> None:
    """The rows upon which it wrote must not come back with its commit."""
    original, seen = scene(live_hudi, tmp_path, version, merge_on_read=merge_on_read), set[str]()
    for race, step in at_each_step(original, tmp_path, every):
        unseen = Unseen(race.table, tmp_path / f"aside-{step}")
        last = race.restore(once_at(step, unseen.writes))
        unseen.commits()
        if not isinstance(last, RestoreCompleted):
            assert isinstance(race.restore(), RestoreCompleted)
        race.check(late=isinstance(last, RestoreCompleted))
        seen.add(type(last).__name__)
    assert seen == {"NoneType", "RestoreFailed", "RestoreCompleted"}


@SCENES
def test_a_writer_that_begins_during_the_restore(
    live_hudi: RealHudi, tmp_path: Path, version: int, every: int, *, merge_on_read: bool
) -> None:
    """Hudi refuses it; but for one before the restore is on the timeline, or after it ended."""
    original, seen = scene(live_hudi, tmp_path, version, merge_on_read=merge_on_read), set[str]()
    for race, step in at_each_step(original, tmp_path, every):
        said = list[str]()

        def write(table: RealTable = race.table, said: list[str] = said) -> None:
            try:
                table.write(LATE)
            except (Py4JJavaError, PySparkException) as error:
                said.append(str(error))

        last = race.restore(once_at(step, write))
        assert not said or "pending restore" in said[0], said
        if last is None:
            assert not said
            assert isinstance(race.restore(), RestoreCompleted)
        else:
            assert isinstance(last, RestoreCompleted), last
        race.check(late=last is not None and not said)
        seen.add(f"{type(last).__name__}, {'refused' if said else 'written'}")
    assert {"NoneType, written", "RestoreCompleted, refused"} <= seen


@SCENES
def test_hudi_s_own_savepoint_beside_a_restore(
    live_hudi: RealHudi, tmp_path: Path, version: int, every: int, *, merge_on_read: bool
) -> None:
    """Hudi writes it beside a pending restore; none is left of a commit that is gone."""
    original, seen = scene(live_hudi, tmp_path, version, merge_on_read=merge_on_read), set[str]()
    newest = loaded(original.table).timeline.completed_writes[-1].timestamp
    for race, step in at_each_step(original, tmp_path, every):
        said = list[str]()

        def keep(table: RealTable = race.table, said: list[str] = said) -> None:
            try:
                table.call("create_savepoint", commit_time=newest)
            except (Py4JJavaError, PySparkException) as error:
                said.append(str(error))

        last = race.restore(once_at(step, keep))
        if not said:
            assert not isinstance(last, RestoreCompleted)
            assert newest in race.table.savepoints()
            race.table.call("delete_savepoint", instant_time=newest)
            assert isinstance(race.restore(), RestoreCompleted)
        else:
            assert "not found in Commits" in said[0]
            assert isinstance(last, RestoreCompleted)
        assert race.table.savepoints() == [race.kept.instant]
        race.check(late=False)
        seen.add(f"{type(last).__name__}, {'refused' if said else 'written'}")
    assert {"RestoreFailed, written", "RestoreCompleted, refused"} <= seen


@dataclass
class Unseen:
    """A writer of real Hudi whose look at the timeline was over right before a restore was there.

    It has written all of its files when the restore goes on, and commits after it: if Hudi lets it,
    which asks for its inflight file.
    """

    table: RealTable
    aside: Path

    def writes(self) -> None:
        self.aside.mkdir()
        meta = self.table.path / ".hoodie"
        timeline = meta if self.table.version == 6 else meta / "timeline"
        for file in timeline.glob("*.restore.*"):
            file.rename(self.aside / file.name)
        self.table.write(LATE)
        for file in self.aside.iterdir():
            file.rename(timeline / file.name)
        now = loaded(self.table)
        completed = now.timeline.completed_writes[-1]
        pending = replace(completed, state=InstantState.INFLIGHT, completion=None)
        self.done, self.inflight = Path(now.path_of(completed)), Path(now.path_of(pending))
        self.held = self.done.rename(self.aside / self.done.name)

    def commits(self) -> None:
        if self.inflight.exists():
            self.held.rename(self.done)
