"""Change local and mounted file systems, without following a link below a root."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Final

from tidegate.storage import FileInfo, NotFound
from tidegate.storage.file_info import Version
from tidegate.storage.local import hold_directory, opened_directory
from tidegate.storage.local_store import LocalStore
from tidegate.tables.warehouse import local_files
from tidegate.tables.warehouse.changes import Changes, Moves, OpenFolder
from tidegate.tables.warehouse.moves import LocalMoves, remove_if_empty, same_device
from tidegate.tables.warehouse.open_folder import LocalFolder

_WORTH_A_LISTING: Final = 64
"""From this number of files on, one listing is faster than a check of every file."""
_ENTRIES_PER_NAME: Final = 4
"""A listing with more entries per file than this is slower than a check of every file."""


class LocalChanges(LocalStore, Changes):
    """The local file systems below the roots."""

    def create(self, location: str, content: bytes) -> None:
        """See `Changes`."""
        local_files.create_file(self.path(location), content)

    def replace(self, location: str, content: bytes, if_version: Version) -> None:
        """See `Changes`."""
        local_files.replace_file(self.path(location), content, if_version)

    def remove(self, entries: Sequence[FileInfo]) -> int:
        """See `Changes`. No file system removes by version: it is compared right before."""
        folders = groupby(entries, lambda entry: entry.path.rpartition("/")[0])
        return sum(
            local_files.remove_entries(self.path(folder), found) for folder, found in folders
        )

    def remove_names(self, folder: str, names: Sequence[str], *, are_files: bool) -> int:
        """See `Changes`."""
        return local_files.remove_names(self.path(folder), names, are_files=are_files)

    def present(self, folder: str, names: Sequence[str]) -> AbstractSet[str] | None:
        """See `Changes`."""
        if len(names) < _WORTH_A_LISTING:
            return None
        return local_files.present(self.path(folder), names, _ENTRIES_PER_NAME * len(names))

    def remove_tree(self, location: str) -> None:
        """See `Changes`."""
        local_files.remove_tree(self.path(location))

    def remove_if_empty(self, location: str) -> bool:
        """See `Changes`."""
        return remove_if_empty(self.path(location))

    @contextmanager
    def opened(self, location: str) -> Generator[OpenFolder]:
        """See `Changes`."""
        path = self.path(location)
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
        """See `Changes`."""
        paths = [self.path(location) for location in (source, target)]
        with ExitStack() as opened:
            try:
                here, there = (opened.enter_context(opened_directory(path)) for path in paths)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFound(str(error)) from error
            same_device(here, there, paths[1])
            yield LocalMoves(here, paths[0], there, paths[1])
