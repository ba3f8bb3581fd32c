"""One interface to read from every place where tables lie.

A place is a scheme and an authority: `s3://lake` is one, and the local and mounted file systems
together are another, named "". Two spellings of a place are one: see `tidegate.storage.locations`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from tidegate.errors import FormatError
from tidegate.storage.file_info import FileInfo, ListedFile
from tidegate.storage.parallel import ParallelMap, batches_of

MAX_DEPTH: Final = 100
"""Directories nested deeper than this below a root are refused: no table format needs them."""
_DIRECTORIES: Final = 100
"""Directories that may be listed before the first of them is used."""
MAX_READ: Final = 256 * 1024 * 1024
"""Maximum size, in bytes, of a file that is read without an explicit limit."""

T = TypeVar("T")
R = TypeVar("R")


class Capabilities(NamedTuple):
    """The properties of a place that decide what its callers do."""

    renames: bool = False
    """A directory is moved in one step, which replaces nothing."""
    links: bool = False
    """A name may be a symbolic link."""
    checksums: bool = False
    """Hadoop writes a checksum (`.name.crc`) next to each file."""
    is_remote: bool = True
    """Every call waits for a server."""
    versions: bool = False
    """A removed file stays behind a delete marker, and can be put back."""
    conditional_writes: bool = False
    """A file is replaced only in the version that was read, in one step."""


class Store(ABC):
    """Reads the files of one place. Locations are normalised, and in this place.

    All methods raise FileNotFoundError or NotADirectoryError if there is nothing at a location,
    PermissionError if the store denies access, TransientError for a fault that may pass, and
    PermanentError for a place that does not exist, such as a bucket.
    """

    @property
    def can(self) -> Capabilities:
        """The properties of this place."""
        return Capabilities()

    @abstractmethod
    def children(self, location: str) -> Sequence[FileInfo]:
        """The direct children of a directory, in no order. Links are listed as links."""

    @abstractmethod
    def entry(self, location: str) -> FileInfo:
        """The file or directory at a location, as its parent's listing shows it.

        Some servers of S3 report its time in whole seconds only.
        """

    @abstractmethod
    def read(self, location: str, limit: int) -> bytes:
        """Read a complete file.

        Raises:
            FormatError: it is larger than `limit` bytes, or not a regular file.
        """

    @abstractmethod
    def read_end(self, location: str, count: int) -> bytes:
        """Read the last `count` bytes of a file, or all of a smaller one."""

    def tree(self, location: str) -> Iterator[FileInfo]:
        """All files below a directory, level by level, sorted by name. Links count as files.

        Raises:
            FormatError: directories are nested deeper than MAX_DEPTH.
        """
        return (entry for entry in self.all_below(location) if not entry.is_dir)

    def all_below(self, location: str) -> Iterator[FileInfo]:
        """Everything below a directory: files as in `tree`, each directory before its content.

        Raises:
            FormatError: as in `tree`.
        """
        return self._below(self.children(location), MAX_DEPTH)

    def names(self, location: str) -> Sequence[str]:
        """The names of the direct children, in no order."""
        return [child.name for child in self.children(location)]

    def call_all(self, act: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results of `act`, which makes calls of this store, for each item."""
        return list(map(act, items))

    def trees(
        self, location: str, names: Sequence[str], parallel_map: ParallelMap
    ) -> Sequence[tuple[ListedFile, ...] | None]:
        """The files below these directories of one parent; None for a missing directory."""
        return parallel_map.map(partial(self._rows, location), names)

    def _rows(self, location: str, name: str) -> tuple[ListedFile, ...] | None:
        try:
            return tuple(map(ListedFile.of, self.tree(f"{location}/{name}")))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _below(self, children: Iterable[FileInfo], depth: int) -> Iterator[FileInfo]:
        for batch in batches_of(sorted(children), _DIRECTORIES):
            folders = [child.path for child in batch if child.is_dir]
            if folders and depth == 1:
                raise FormatError(f"{folders[0]} is nested too deep ({MAX_DEPTH} directories)")
            listed = iter(self._listed(folders))
            for child in batch:
                yield child
                if child.is_dir:
                    yield from self._below(next(listed), depth - 1)

    def _listed(self, folders: Sequence[str]) -> Iterable[Sequence[FileInfo]]:
        """The children of each directory."""
        return map(self.children, folders)
