"""A warehouse whose every step on the disk can be stopped at: to die there, or to let others in."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate.storage import FileInfo
from tidegate.storage.file_info import Version
from tidegate.tables.warehouse import Move, Warehouse, WarehouseRoots


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class Stepwise(Warehouse):
    """Calls `at_step` with the number of each step, before it is taken."""

    def __init__(
        self,
        root: Path | str,
        at_step: Callable[[int], None],
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(WarehouseRoots.of(str(root)), options)
        self.steps = 0
        self.at_step = at_step

    def _step(self) -> None:
        self.steps += 1
        self.at_step(self.steps)

    def create(self, location: str, content: bytes) -> None:
        self._step()
        super().create(location, content)

    def replace(self, location: str, content: bytes, if_version: Version = None) -> None:
        self._step()
        super().replace(location, content, if_version)

    def remove_entries(self, entries: Sequence[FileInfo]) -> int:
        self._step()
        return super().remove_entries(entries)

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        removed = 0
        for name in names:
            self._step()
            removed += super().remove_names(folder, [name])
        return removed

    @contextmanager
    def moving(self, source: str, target: str) -> Generator[Move]:
        self._step()
        with super().moving(source, target) as move:
            yield move

    def remove_moved(self, location: str, origin: str) -> None:
        self._step()
        super().remove_moved(location, origin)

    def remove_tree(self, location: str) -> None:
        self._step()
        super().remove_tree(location)


def killed_at(step: int) -> Callable[[int], None]:
    def at_step(number: int) -> None:
        # once dead it stays dead, also for threads that had more to do
        if number >= step:
            raise Killed

    return at_step
