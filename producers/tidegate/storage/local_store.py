"""Read local and mounted file systems, without following a link below a root."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.storage.file_info import FileInfo, ListedFile
from tidegate.storage.local import (
    LocalPath,
    entry_of,
    list_directory,
    list_names,
    located,
    opened_directory,
    read_end,
    read_file,
    walk_below,
)
from tidegate.storage.parallel import ParallelMap, batches_of
from tidegate.storage.store import Capabilities, Store


class LocalStore(Store):
    """Opens every directory relative to its parent, from the innermost of `roots` that has it.

    Without roots, links are followed as the operating system does.
    """

    can = Capabilities(renames=True, links=True, checksums=True, is_remote=False)

    def __init__(self, roots: Sequence[str]) -> None:
        """Take the normalised roots."""
        self.roots = tuple(roots)

    def children(self, location: str) -> Sequence[FileInfo]:
        """See `Store`."""
        return list_directory(self.path(location))

    def names(self, location: str) -> Sequence[str]:
        """See `Store`. Needs no stat per child."""
        return list_names(self.path(location))

    def entry(self, location: str) -> FileInfo:
        """See `Store`."""
        return entry_of(self._file(location))

    def trees(
        self, location: str, names: Sequence[str], parallel_map: ParallelMap
    ) -> Sequence[tuple[ListedFile, ...] | None]:
        """See `Store`. The parent is opened once for many directories."""
        done = parallel_map.map(partial(_rows_of, self.path(location)), batches_of(names))
        return [rows for batch in done for rows in batch]

    def read(self, location: str, limit: int) -> bytes:
        """See `Store`."""
        return read_file(self._file(location), limit, follow=not self.roots)

    def read_end(self, location: str, count: int) -> bytes:
        """See `Store`."""
        return read_end(self._file(location), count)

    def path(self, location: str) -> LocalPath:
        """A location as a root and the names below it."""
        return LocalPath.below(location, self.roots or (location,))

    def _file(self, location: str) -> LocalPath:
        folder = location.rsplit("/", 1)[0] or "/"
        return LocalPath.below(location, self.roots or (folder,))


def _rows_of(parent: LocalPath, names: Sequence[str]) -> list[tuple[ListedFile, ...] | None]:
    try:
        with located(parent), opened_directory(parent) as directory:
            found = [walk_below(directory, parent.child(name)) for name in names]
    except (FileNotFoundError, NotADirectoryError):
        return [None] * len(names)
    return [None if files is None else tuple(map(ListedFile.of, files)) for files in found]
