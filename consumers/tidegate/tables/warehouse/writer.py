"""Create, replace and remove files, only below the warehouse roots."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from tidegate.errors import ConfinementError, PermanentError, TidegateError
from tidegate.storage import NotFound, ParallelMap, Storage
from tidegate.storage.local import LocalPath, hold_directory, opened_directory
from tidegate.tables.warehouse import local_files
from tidegate.tables.warehouse.moves import Moves, remove_if_empty, same_device
from tidegate.tables.warehouse.open_folder import LocalFolder, OpenFolder, RemoteFolder
from tidegate.tables.warehouse.remote_files import RemoteFiles
from tidegate.tables.warehouse.roots import WarehouseRoots

FILES_PER_TASK: Final = 1000
"""Maximum of files that one task of a parallel removal removes."""
_WORTH_A_LISTING: Final = 64
"""From this number of files on, one listing is faster than a check of every file."""
_ENTRIES_PER_NAME: Final = 4
"""A listing with more entries per file than this is slower than a check of every file."""


class _Removal(NamedTuple):
    """Files to remove from a directory; if listed, with their existing checksums."""

    folder: str
    names: Sequence[str]
    is_listed: bool


class AlreadyExists(TidegateError):  # noqa: N818 - an expected result, not a failure
    """Another process created this file first. The catcher reads it and decides."""


class Warehouse(Storage):
    """A storage that can be changed. It reads and writes only below its roots.

    On local and mounted file systems, every call walks from the root by directory descriptors and
    follows no symbolic link below it. A link on the way is an error, even if it appears during the
    call. Links themselves are never changed, except inside a removed tree. Object stores have no
    links; for HDFS see `Storage`. Removing a missing file succeeds, so every call may be repeated.
    """

    def __init__(
        self, roots: WarehouseRoots, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Take the roots, and fsspec's options by protocol."""
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
        """Replace or create a file atomically: a reader sees either the old or the new content.

        Removes Hadoop's checksum next to it (`.name.crc`), which would not match the new content.

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
            ConfinementError: a file is outside the roots; nothing was removed.
        """
        folders = self._by_folder(locations)
        return sum(self.remove_names(folder, names) for folder, names in folders.items())

    def remove_with_checksums(
        self, folders: Mapping[str, Sequence[str]], parallel_map: ParallelMap
    ) -> int:
        """Remove files in parallel, each after Hadoop's local checksum next to it (`.name.crc`).

        A task has up to FILES_PER_TASK files; small directories share a task. A file goes after its
        checksum, so a repeated removal after an interruption still finds both.

        Args:
            folders: The names of the files to remove, by directory.
            parallel_map: Runs the tasks.

        Returns:
            The number of files that existed, checksums included.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: a file is outside the roots; nothing was removed.
        """
        checked = {self._folder_of(folder, names): names for folder, names in folders.items()}
        tasks: list[list[_Removal]] = []
        left = 0
        for folder, names in checked.items():
            # a directory with several tasks is listed once for all of them
            present = self._present(folder, names) if len(names) > FILES_PER_TASK else None
            for start in range(0, len(names), FILES_PER_TASK):
                batch = names[start : start + FILES_PER_TASK]
                if len(batch) > left:
                    tasks.append([])
                    left = FILES_PER_TASK
                is_listed = present is not None
                batch = batch if present is None else _with_checksums(batch, present)
                tasks[-1].append(_Removal(folder, batch, is_listed))
                left -= len(batch)
        return sum(parallel_map.map(self._remove_all, tasks))

    def remove_names(self, folder: str, names: Sequence[str], *, are_files: bool = False) -> int:
        """Remove files of one directory, in this order; return how many existed.

        Args:
            folder: The directory, normalised and below a root.
            names: The names of the files.
            are_files: Whether a listing has just shown that none is a link.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: a name is a link to a location outside.
        """
        if "://" in folder:
            return RemoteFiles(self).remove_names(folder, names)
        return local_files.remove_names(self._local(folder), names, are_files=are_files)

    def _remove_all(self, removals: Iterable[_Removal]) -> int:
        removed = 0
        for folder, names, is_listed in removals:
            present = None if is_listed else self._present(folder, names)
            if not is_listed and "://" not in folder:
                names = _with_checksums(names, present)  # noqa: PLW2901
            are_files = is_listed or present is not None
            removed += self.remove_names(folder, names, are_files=are_files)
        return removed

    def _present(self, folder: str, names: Sequence[str]) -> AbstractSet[str] | None:
        """The existing ones of many local files and checksums; None: check every file instead."""
        if "://" in folder or len(names) < _WORTH_A_LISTING:
            return None
        return local_files.present(self._local(folder), names, _ENTRIES_PER_NAME * len(names))

    def _folder_of(self, folder: str, names: Iterable[str]) -> str:
        """The normalised directory of files, after a check that all names are plain file names."""
        where = self.roots.below(folder)
        for name in names:
            if "/" in name or "\0" in name or name in {"", ".", ".."}:
                raise ConfinementError(f"{name!r} is not the name of a file in {folder}")
        return where

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
            ConfinementError: a directory is outside the roots.
            PermanentError: a directory is on an object store, which can't rename.
            OSError: EXDEV: they are on different file systems.
        """
        paths = [self._to_rename(location) for location in (source, target)]
        with ExitStack() as opened:
            try:
                here, there = (opened.enter_context(opened_directory(path)) for path in paths)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFound(str(error)) from error
            same_device(here, there, paths[1])
            yield Moves(here, paths[0], there, paths[1])

    def remove_if_empty(self, location: str) -> bool:
        """Remove a local directory if it is empty; return whether it is gone.

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
        """Check every location by name; return the names by normalised directory.

        Thousands of files come from few directories, so every directory is normalised and checked
        only once.
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


def _with_checksums(names: Iterable[str], present: AbstractSet[str] | None) -> list[str]:
    """Every file after its checksum; with `present`, only the existing ones."""
    pairs = (file for name in names for file in (f".{name}.crc", name))
    return list(pairs) if present is None else [pair for pair in pairs if pair in present]
