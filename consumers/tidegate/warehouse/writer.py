"""Write and remove, below the warehouse roots only."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.errors import TidegateError
from tidegate.storage import Storage, join
from tidegate.warehouse.roots import WarehouseRoots


class AlreadyThere(TidegateError):  # noqa: N818 - an expected answer, not a fault
    """Somebody created this file first. The catcher reads what is there and decides."""


class Warehouse(Storage):
    """A storage whose tables may be changed. Every call checks its paths against the roots first.

    What is already gone counts as removed: every call may be repeated.
    """

    def __init__(
        self, roots: WarehouseRoots, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Take the roots to stay below, and fsspec's options by protocol."""
        super().__init__(options)
        self.roots = roots

    def create(self, location: str, content: bytes) -> None:
        """Create a file whole, never over an existing one.

        Raises:
            AlreadyThere: the file exists; it was left as it is.
            ConfinementError: it lies outside the roots.
        """
        fs, path = self._open(self.roots.check(location))
        fs.makedirs(fs._parent(path), exist_ok=True)  # noqa: SLF001 - fsspec's own way to say it
        if "://" in location:
            self._create_remote(fs, path, content)
            return
        draft = _draft(path)
        with open(draft, "xb") as file:  # noqa: PTH123 - fsspec paths are strings
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # atomic, and refuses an existing target
        except FileExistsError as error:
            raise AlreadyThere(location) from error
        finally:
            os.unlink(draft)  # noqa: PTH108 - fsspec paths are strings

    def replace(self, location: str, content: bytes) -> None:
        """Replace or create a file whole: a reader sees the old content or the new, never half.

        A Hadoop checksum beside it (`.name.crc`) would call the new content corrupt: it goes.

        Raises:
            ConfinementError: it lies outside the roots.
        """
        fs, path = self._open(self.roots.check(location))
        if "://" in location:
            fs.pipe_file(path, content)
            return
        draft = _draft(path)
        with open(draft, "xb") as file:  # noqa: PTH123 - fsspec paths are strings
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.remove_files([_checksum(location)])
        os.replace(draft, path)  # noqa: PTH105 - fsspec paths are strings

    def remove_files(self, locations: Iterable[str]) -> int:
        """Remove files; say how many were there.

        Raises:
            ConfinementError: one lies outside the roots; then none was removed.
        """
        removed = 0
        for location in [self.roots.check(location) for location in locations]:
            fs, path = self._open(location)
            try:
                fs.rm_file(path)
                removed += 1
            except FileNotFoundError:
                continue
        return removed

    def remove_tree(self, location: str) -> None:
        """Remove a directory and all below it. Links in it are removed, never followed.

        Raises:
            ConfinementError: it lies outside the roots.
        """
        fs, path = self._open(self.roots.check(location))
        try:
            fs.rm(path, recursive=True)
        except FileNotFoundError:
            return

    @staticmethod
    def _create_remote(fs: Any, path: str, content: bytes) -> None:  # noqa: ANN401 - untyped
        try:
            fs.pipe_file(path, content, mode="create")
        except FileExistsError as error:
            raise AlreadyThere(path) from error


def _draft(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")  # noqa: PTH118


def _checksum(location: str) -> str:
    folder, name = location.rsplit("/", 1)
    return join(folder, f".{name}.crc")
