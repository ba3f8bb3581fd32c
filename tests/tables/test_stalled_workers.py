"""A worker that stalls at any step does nothing more once a later task is on the table."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from support.acid import FIVE_LISTINGS, build, release_of
from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    ticking,
)
from support.quarantined import QUARANTINE, removal_of, undo_of
from support.savepoint_removals import removal
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import CleaningReleased, Command
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.runtime.protocols import Executor
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import FileInfo, ParallelMap
from tidegate.tables import task_numbers
from tidegate.tables.claim import AlreadyDone, Task
from tidegate.tables.task_numbers import Overtaken
from tidegate.tables.warehouse import MayGo, Move, OpenFolder, Warehouse, WarehouseRoots

HIDDEN = ".tidegate/"


class Watched(Warehouse):
    """Calls `before` with the number of each call that changes the table, but for its claims."""

    def __init__(self, root: Path, before: Callable[[int], object]) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.before, self.calls, self.inner = before, list[str](), False

    @contextmanager
    def step(self, what: str) -> Generator[None]:
        if self.inner or HIDDEN in what:  # a part of a step, or not of the table
            yield
            return
        self.calls.append(what)
        self.before(len(self.calls))
        self.inner = True
        try:
            yield
        finally:
            self.inner = False

    def create(self, location: str, content: bytes) -> None:
        with self.step(f"create {location}"):
            super().create(location, content)

    def replace(self, location: str, content: bytes, if_version: str | int | None = None) -> None:
        with self.step(f"replace {location}"):
            super().replace(location, content, if_version)

    def remove_files(self, locations: Iterable[str], *, checksums: bool = False) -> int:
        if not (files := list(locations)):
            return 0
        with self.step(f"remove {files[0]}"):
            return super().remove_files(files, checksums=checksums)

    def remove_with_checksums(
        self, folders: Mapping[str, Sequence[str]], parallel_map: ParallelMap
    ) -> int:
        with self.step(f"remove files in {[*folders]}"):
            return super().remove_with_checksums(folders, parallel_map)

    def remove_tree(self, location: str) -> None:
        with self.step(f"remove {location}"):
            super().remove_tree(location)

    def remove_moved(self, location: str, origin: str) -> None:
        with self.step(f"remove {location}"):
            super().remove_moved(location, origin)

    @contextmanager
    def opened(self, location: str) -> Generator[OpenFolder]:
        with super().opened(location) as folder:
            yield _Opened(self, folder)

    @contextmanager
    def moving(self, source: str, target: str) -> Generator[Move]:
        with super().moving(source, target) as move:

            def watched(name: str, as_name: str, may_go: MayGo) -> bool | None:
                with self.step(f"move {name}"):
                    return move(name, as_name, may_go)

            yield watched

    moving_back = moving  # as on every place that renames


@dataclass
class _Opened:
    warehouse: Watched
    folder: OpenFolder

    def files_below(self, name: str) -> Sequence[FileInfo] | None:
        return self.folder.files_below(name)

    def remove_if(self, name: str, may_go: MayGo) -> bool:
        with self.warehouse.step(f"remove {name}"):
            return self.folder.remove_if(name, may_go)


def cleaner(warehouse: Warehouse) -> Cleaner:
    return Cleaner(warehouse, ThreadMap(1), ticking())


def quarantiner(warehouse: Warehouse) -> Cleaner:
    return Cleaner(warehouse, ThreadMap(1), ticking(), QUARANTINE)


def savepoint_writer(warehouse: Warehouse) -> SavepointWriter:
    return SavepointWriter(warehouse, ThreadMap(1), ticking())


def restorer(warehouse: Warehouse) -> Restorer:
    unwatched = RestoreSettings(watch_seconds=0)
    return Restorer(warehouse, ThreadMap(1), ticking(NOW + timedelta(minutes=1)), unwatched)


def vacuumed(root: Path) -> CleaningReleased:
    return release_of(DELETES, str(build(root / "t", DELETES.directories)))


def quarantined(root: Path) -> CleaningReleased:
    command = vacuumed(root)
    list(quarantiner(Warehouse(WarehouseRoots.of(str(root)))).execute(command))
    return command


def committed(root: Path) -> HandMade:
    root.mkdir(exist_ok=True)
    return four_commits(root / "orders", 9)


def savepointed(root: Path) -> HandMade:
    table = committed(root)
    warehouse = Warehouse(WarehouseRoots.of(str(root)))
    list(savepoint_writer(warehouse).execute(savepoint_request(table, at(2))))
    return table


DELETES = FIVE_LISTINGS[4]
WORK: dict[str, tuple[Callable[[Warehouse], Executor], Callable[[Path], Command]]] = {
    "cleaning": (cleaner, vacuumed),
    "quarantine": (quarantiner, vacuumed),
    "undo": (quarantiner, lambda root: undo_of(quarantined(root))),
    "end of quarantine": (quarantiner, lambda root: removal_of(quarantined(root))),
    "savepoint": (savepoint_writer, lambda root: savepoint_request(committed(root), at(2))),
    "removal of a savepoint": (savepoint_writer, lambda root: removal(savepointed(root), 2)),
    "restore": (restorer, lambda root: restore_request(savepointed(root), at(2))),
}


def task(number: int, command: Command) -> Task:
    return Task(number, f"task-{number}", command.table, "cluster/tidegate")


def work(executor: Executor, command: Command) -> str:
    """Carry task 1 out as the loop does; return how it ended."""
    try:
        claim = executor.claim(command, task(1, command))
        list(executor.execute(command, claim))
        claim.finish([])
    except Overtaken:
        return "overtaken"
    except AlreadyDone:
        return "already done"
    return "done"


@pytest.mark.parametrize("name", WORK)
def test_after_a_later_task_a_stalled_worker_makes_no_further_call(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_numbers, "FRESH_SECONDS", -1.0)  # every call comes after a pause
    make, prepare = WORK[name]
    command = prepare(tmp_path / "0")
    whole = Watched(tmp_path / "0", lambda _: None)
    assert work(make(whole), command) == "done"
    assert whole.calls

    for number in range(1, len(whole.calls) + 1):
        root = tmp_path / str(number)
        command = prepare(root)
        later = make(Warehouse(WarehouseRoots.of(str(root))))

        def pause(
            call: int, number: int = number, later: Executor = later, command: Command = command
        ) -> None:
            if call == number:
                later.claim(command, task(2, command))

        stalled = Watched(root, pause)
        ended = work(make(stalled), command)
        assert (ended, stalled.calls[number:]) == ("overtaken", []), stalled.calls
