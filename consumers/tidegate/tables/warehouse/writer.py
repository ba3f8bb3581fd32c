"""Create, replace and remove files, only below the warehouse roots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pkgutil import resolve_name
from typing import Any, Final, TypeVar, cast

from tidegate.errors import ConfigError, ConfinementError, TidegateError
from tidegate.storage import FileInfo, ParallelMap, Storage
from tidegate.storage.file_info import Version
from tidegate.storage.locations import normalise, place_of
from tidegate.storage.reader import missing_at
from tidegate.tables.warehouse.changes import Changes, Move, Moved, OpenFolder
from tidegate.tables.warehouse.local_changes import LocalChanges
from tidegate.tables.warehouse.roots import WarehouseRoots

FILES_PER_TASK: Final = 1000
"""Maximum of files that one task of a parallel removal removes."""
_STORES: Final = {
    "abfss": "azure_files:AzureChanges",
    "gs": "gcs_files:GcsChanges",
    "hdfs": "hdfs_files:HdfsChanges",
    "s3": "s3_versions:VersionedS3",
}
"""By scheme the module and the class; their clients are extras."""

T = TypeVar("T")
R = TypeVar("R")


class AlreadyExists(TidegateError):  # noqa: N818 - an expected result, not a failure
    """Another process created or replaced this file first. The catcher reads it and decides."""


class Warehouse(Storage):
    """A storage that can be changed. It reads and writes only below its roots.

    On local and mounted file systems, every call walks from the root by directory descriptors and
    follows no symbolic link below it. A link on the way is an error, even if it appears during the
    call. Links themselves are never changed, except inside a removed tree. Object stores have no
    links. Removing a missing file succeeds, so every call may be repeated.
    """

    def __init__(
        self, roots: WarehouseRoots, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Take the roots, and the options of their stores as `Storage` does."""
        super().__init__(options, roots.roots)
        self.roots = roots

    def create(self, location: str, content: bytes) -> None:
        """Create a file atomically, never over an existing one.

        Raises:
            AlreadyExists: the file exists; it was not changed.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        store, where = self._below(location)
        try:
            store.create(where, content)
        except FileExistsError as error:
            raise AlreadyExists(location) from error

    def replace(self, location: str, content: bytes, if_version: Version = None) -> None:
        """Replace or create a file atomically: a reader sees either the old or the new content.

        Removes Hadoop's checksum next to it (`.name.crc`), which would not match the new content.

        Args:
            location: The file.
            content: Its new content.
            if_version: The version to replace; None: any, or none.

        Raises:
            AlreadyExists: it has another version than `if_version`, or is gone.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        store, where = self._below(location)
        try:
            store.replace(where, content, if_version)
        except FileExistsError as error:
            raise AlreadyExists(location) from error

    def remove_entries(self, entries: Sequence[FileInfo]) -> int:
        """Remove files of one directory that a listing showed; return how many.

        A file whose name another file took meanwhile stays, unless the store can't tell: see
        `Changes.remove`.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: a file is outside the roots; nothing was removed.
        """
        stores = {self._below(entry.path)[0] for entry in entries}
        return sum(store.remove(entries) for store in stores)

    def remove_files(self, locations: Iterable[str], *, checksums: bool = False) -> int:
        """Remove files; return how many existed.

        Local files are removed directory by directory, each opened once, in the given order within
        a directory.

        Args:
            locations: The files.
            checksums: Whether to remove Hadoop's checksum (`.name.crc`) before each of them, so
                that a repeated removal after an interruption still finds both.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: a file is outside the roots; nothing was removed.
        """
        folders: dict[str, list[str]] = {}
        for location in locations:
            folder, _, name = self.roots.below(location).rpartition("/")
            folders.setdefault(folder, []).append(name)
        return sum(
            self.remove_names(folder, self._with_checksums(folder, names) if checksums else names)
            for folder, names in folders.items()
        )

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
        tasks: list[list[tuple[str, Sequence[str]]]] = []
        left = 0
        for folder, names in checked.items():
            for start in range(0, len(names), FILES_PER_TASK):
                batch = names[start : start + FILES_PER_TASK]
                if len(batch) > left:
                    tasks.append([])
                    left = FILES_PER_TASK
                tasks[-1].append((folder, batch))
                left -= len(batch)
        return sum(parallel_map.map(self._remove_all, tasks))

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        """Remove files of one directory, in this order; return how many existed.

        Args:
            folder: The directory, normalised and below a root.
            names: The names of the files.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: a name is a link to a location outside.
        """
        return self._changes(folder).remove_names(folder, names)

    def _remove_all(self, removals: Iterable[tuple[str, Sequence[str]]]) -> int:
        return sum(
            self.remove_names(folder, self._with_checksums(folder, names))
            for folder, names in removals
        )

    def _with_checksums(self, folder: str, names: Sequence[str]) -> Sequence[str]:
        """Every file after its checksum, if there are any."""
        if not self._changes(folder).can.checksums:
            return names
        return [file for name in names for file in (f".{name}.crc", name)]

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
        store, where = self._below(location)
        store.remove_tree(where)

    def opened(self, location: str) -> AbstractContextManager[OpenFolder]:
        """Open a directory, to remove directories in it.

        Raises:
            NotFound: it does not exist.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        store, where = self._below(location)
        return store.opened(where)

    def call_all(self, location: str, act: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results of `act`, which uses a location, for each item. It saves time on HDFS."""
        return self._below(location)[0].call_all(act, items)

    def moving(self, source: str, target: str) -> AbstractContextManager[Move]:
        """Open two directories of one place, to move directories from the first to the second.

        What it yields is described at `Changes.moving`.

        Raises:
            NotFound: one of them does not exist.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: a directory is outside the roots.
            PermanentError: they are on an object store without versions.
            OSError: EXDEV: they are on different file systems.
        """
        store, where = self._below(source)
        return store.moving(where, self.roots.below(target))

    def moving_back(self, source: str, target: str) -> AbstractContextManager[Move]:
        """Open two directories, to move directories back that `moving` moved to the first.

        Raises: as `moving`.
        """
        store, where = self._below(source)
        return store.moving_back(where, self.roots.below(target))

    def moved_names(self, location: str) -> Sequence[str]:
        """The names of the directories that were moved into a directory; raises as `list`."""
        with missing_at(location):
            store, where = self._below(location)
            return store.moved_names(where)

    def moved(
        self, location: str, names: Sequence[str], origin: str, parallel_map: ParallelMap
    ) -> Sequence[Moved | None]:
        """What of directories that were moved from `origin` can be moved back; None: nothing.

        Raises: as `walk`.
        """
        with missing_at(location):
            store, where = self._below(location)
            return store.moved(where, names, self.roots.below(origin), parallel_map)

    def remove_moved(self, location: str, origin: str) -> None:
        """Remove a directory that was moved from `origin` for good; raises as `remove_tree`."""
        store, where = self._below(location)
        store.remove_moved(where, self.roots.below(origin))

    def shortened(self, location: str, keep: timedelta) -> Sequence[str]:
        """The rules of a location's place that remove what was moved before `keep` has passed.

        Raises:
            PermissionError: the place denies access to its rules.
        """
        where = normalise(location)
        return self._changes(where).shortened(where, keep)

    def remove_if_empty(self, location: str) -> bool:
        """Remove a directory if it is empty; return whether it is gone.

        Raises:
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the roots.
        """
        store, where = self._below(location)
        return store.remove_if_empty(where)

    def limits(self, location: str) -> Sequence[str]:
        """What the place of a location can't do, found out by trying; sentences for people."""
        return self._below(location)[0].limits()

    def _below(self, location: str) -> tuple[Changes, str]:
        """The store of a location below a root, and the normalised location."""
        where = self.roots.below(location)
        return self._changes(where), where

    def _changes(self, where: str) -> Changes:
        return cast("Changes", self._at(where))

    def _open(self, place: str) -> Changes:
        """A store of a place, which `_at` keeps.

        Raises:
            ConfigError: no table is changed there.
        """
        if not place:
            return LocalChanges(self.confined_to)
        scheme, _, authority = place.partition("://")
        if scheme not in _STORES:
            raise ConfigError(f"{place}: no table is changed on such a store")
        options = dict(self.options.get(place, {}))
        if scheme == "s3":  # conditions are tried in a root
            options["root"] = next(root for root in self.confined_to if place_of(root) == place)
        kind = resolve_name(f"tidegate.tables.warehouse.{_STORES[scheme]}")
        changes: Changes = kind(authority, **options)
        return changes
