"""A warehouse in which something happens before and after each removal of a directory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.storage import FileInfo
from tidegate.tables.warehouse import MayGo, OpenFolder, Warehouse, WarehouseRoots


class Interfering(Warehouse):
    """Calls `before` and `after` with the name of each directory that is removed from a folder."""

    def __init__(
        self,
        root: Path,
        before: Callable[[str], object] = str,
        after: Callable[[str], object] = str,
    ) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.before, self.after = before, after
        self.removed: list[str] = []

    @contextmanager
    def opened(self, location: str) -> Generator[OpenFolder]:
        with super().opened(location) as folder:
            yield _Interfering(self, folder)


@dataclass
class _Interfering:
    warehouse: Interfering
    folder: OpenFolder

    def files_below(self, name: str) -> Sequence[FileInfo] | None:
        return self.folder.files_below(name)

    def remove_if(self, name: str, may_go: MayGo) -> bool:
        self.warehouse.before(name)
        is_gone = self.folder.remove_if(name, may_go)
        if is_gone:
            self.warehouse.removed.append(name)
            self.warehouse.after(name)
        return is_gone


class Forgetful(Warehouse):
    """Says of one directory that it was removed, and leaves it."""

    def __init__(self, root: Path, kept: str) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.kept = kept

    @contextmanager
    def opened(self, location: str) -> Generator[OpenFolder]:
        with super().opened(location) as folder:
            yield _Forgetful(self.kept, folder)


@dataclass
class _Forgetful:
    kept: str
    folder: OpenFolder

    def files_below(self, name: str) -> Sequence[FileInfo] | None:
        return self.folder.files_below(name)

    def remove_if(self, name: str, may_go: MayGo) -> bool:
        return name == self.kept or self.folder.remove_if(name, may_go)
