"""Create, replace and remove files, below the warehouse roots only."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from tidegate.errors import PermanentError, TidegateError
from tidegate.storage import NotFound, ParallelMap, Storage
from tidegate.storage.local import LocalPath, hold_directory, opened_directory
from tidegate.tables.warehouse import local_files
from tidegate.tables.warehouse.moves import Moves, remove_if_empty, same_device
from tidegate.tables.warehouse.open_folder import LocalFolder, OpenFolder, RemoteFolder
from tidegate.tables.warehouse.remote_files import RemoteFiles
from tidegate.tables.warehouse.roots import WarehouseRoots

FILES_PER_TASK: Final = 1000
"""The largest number of files that one task of a parallel removal removes."""


class AlreadyExists(TidegateError):  # noqa: N818 - an expected result, not a failure
    """Another process created this file first. The catcher reads it and decides."""


class Warehouse(Storage):
    """A storage that can be changed, below its roots only. It reads there only, too.

    On local and mounted file systems every call walks from the root by directory descriptors and
    follows no symbolic link below it: one met on the way is an error, even if it was put there in
    the middle of the call. A link is never changed itself, except inside a removed tree. Object
    stores have no links; for HDFS see `Storage`. Removing what is already gone succeeds, so every
    call may be repeated.
    """

    def __init__(
        self, roots: WarehouseRoots, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Take the roots to stay below, and fsspec's options for each protocol."""
        super().__init__(options, roots.roots)
        self.roots = roots

    def create(self, location: str, content: bytes) -> None:
        """Create a file atomically, never over an existing one.

        Raises:
            AlreadyExists: the file exists; it was not changed.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        where = self.roots.below(location)
        try:
            if "://" in where:
                RemoteFiles(self).create(where, content)
            else:
                local_files.create_file(self._local(where), content)
        except FileExistsError as error:
            raise AlreadyExists(location) from error

    def replace(self, location: str, content: bytes) -> None:
        """Replace or create a file atomically: a reader sees the old content or the new.

        Hadoop's checksum beside it (`.name.crc`) is removed: it would declare the new content
        corrupt.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        where = self.roots.below(location)
        if "://" not in where:
            local_files.replace_file(self._local(where), content)
            return
        RemoteFiles(self).replace(where, content)

    def remove_files(self, locations: Iterable[str]) -> int:
        """Remove files; return how many existed.

        Local files are removed directory by directory, each opened once, in the given order within
        a directory.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: one is outside the roots; then none was removed.
        """
        folders = self._by_folder(locations)
        return sum(self._remove_names(folder, names) for folder, names in folders.items())

    def remove_files_in_parallel(self, locations: Iterable[str], parallel_map: ParallelMap) -> int:
        """Remove files as `remove_files` does, in tasks of up to FILES_PER_TASK of one directory.

        Small directories share a task. Within a directory of more files the order is not kept.
        """
        tasks: list[list[str]] = []
        for folder, names in self._by_folder(locations).items():
            for start in range(0, len(names), FILES_PER_TASK):
                batch = names[start : start + FILES_PER_TASK]
                paths = [f"{folder}/{name}" for name in batch]
                if tasks and len(tasks[-1]) + len(paths) <= FILES_PER_TASK:
                    tasks[-1] += paths
                else:
                    tasks.append(paths)
        return sum(parallel_map.map(self.remove_files, tasks))

    def remove_tree(self, location: str) -> None:
        """Remove a directory and everything below it. Links in it are removed, never followed.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        where = self.roots.below(location)
        if "://" not in where:
            local_files.remove_tree(self._local(where))
            return
        RemoteFiles(self).remove_tree(where)

    @contextmanager
    def opened(self, location: str) -> Generator[OpenFolder]:
        """Open a directory, to remove directories in it.

        Raises:
            NotFound: it does not exist.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        where = self.roots.below(location)
        if "://" in where:
            yield RemoteFolder(self, where)
            return
        path = self._local(where)
        try:
            directory = hold_directory(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(location) from error
        try:
            yield LocalFolder(directory, path, os.fstat(directory).st_dev)
        finally:
            os.close(directory)

    @contextmanager
    def moving(self, source: str, target: str) -> Generator[Moves]:
        """Open two local directories, to move directories from the first to the second.

        Raises:
            NotFound: one of them does not exist.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: one is outside the roots.
            PermanentError: they are on an object store, which can't rename.
            OSError: EXDEV: they are on different file systems.
        """
        paths = [self._to_rename(each) for each in (source, target)]
        with ExitStack() as opened:
            try:
                here, there = (opened.enter_context(opened_directory(each)) for each in paths)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFound(str(error)) from error
            same_device(here, there, paths[1])
            yield Moves(here, paths[0], there, paths[1])

    def remove_if_empty(self, location: str) -> bool:
        """Remove a local directory that holds nothing; return whether it is gone.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
            PermanentError: it is on an object store, which has no directories.
        """
        return remove_if_empty(self._to_rename(location))

    def _to_rename(self, location: str) -> LocalPath:
        where = self.roots.below(location)
        if "://" in where:
            raise PermanentError(f"{location} is on an object store, which has no atomic rename")
        return self._local(where)

    def _by_folder(self, locations: Iterable[str]) -> dict[str, list[str]]:
        """Check every location by name; give the names in each normalised directory.

        Files come by the thousand from few directories, so that each directory is normalised and
        checked only once.
        """
        folders: dict[str, list[str]] = {}
        normalised: dict[str, str] = {}
        for location in locations:
            given, _, name = location.rpartition("/")
            folder = normalised.get(given)
            if folder is None or name in {"", ".", ".."} or "\0" in name:
                folder, _, last = self.roots.below(location).rpartition("/")
                if last == name:
                    normalised[given] = folder
                name = last
            folders.setdefault(folder, []).append(name)
        return folders

    def _remove_names(self, folder: str, names: Sequence[str]) -> int:
        if "://" not in folder:
            return local_files.remove_names(self._local(folder), names)
        return RemoteFiles(self).remove_names(folder, names)
