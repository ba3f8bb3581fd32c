"""Read a bucket by the keys of its objects; the client of each store is in a module of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Final

from tidegate.errors import FormatError
from tidegate.storage.file_info import FileInfo
from tidegate.storage.parallel import slots_of
from tidegate.storage.store import MAX_DEPTH, Capabilities, Store
from tidegate.storage.store_errors import store_errors

TIMEOUT: Final = 60.0
"""Seconds for a request and its answer, by default."""
_MS: Final = 1000
_STRAY: Final = frozenset({"", ".", ".."})

Row = tuple[str, int, datetime | None, str | None]
"""Key, size in bytes, modification time, version. The last two are None for a prefix."""


class ObjectStore(Store):
    """Reads one bucket, which has no directories: only their markers, empty objects `d/`."""

    def __init__(self, place: str, max_concurrency: int | None) -> None:
        """Take the bucket's location; nothing connects until the first call.

        Args:
            place: The location.
            max_concurrency: The limit of requests that this process has under way; None: no limit.
        """
        self._place, self.max_concurrency = f"{place}/", max_concurrency

    @property
    def can(self) -> Capabilities:
        """See `Store`."""
        return Capabilities(conditional_writes=True)

    @abstractmethod
    def rows(self, prefix: str, delimiter: str = "") -> Sequence[Row]:
        """All keys that start with a prefix; with a delimiter, prefixes in place of longer keys."""

    @abstractmethod
    def head(self, key: str) -> Row:
        """One object.

        Raises:
            FileNotFoundError: it does not exist.
        """

    @contextmanager
    def request(self, location: str) -> Generator[None]:
        """Make requests, one after the other. Wait first, if enough are under way.

        Never inside another one of the same store: a thread would wait for itself.

        Raises:
            Exception: as in `store_errors`.
        """
        most = self.max_concurrency
        with slots_of(self._place, most) if most else nullcontext(), store_errors(location):
            yield

    def children(self, location: str) -> Sequence[FileInfo]:
        """See `Store`. A prefix with no key below does not exist.

        Raises:
            FormatError: a key has an empty name there (`a//b`).
        """
        prefix = self.prefix(location)
        with self.request(location):
            found = self.rows(prefix, "/")
        own = prefix.removesuffix("/")
        children = [self._info(prefix, *row) for row in found if row[0].removesuffix("/") != own]
        if not found:
            raise FileNotFoundError(location)
        return children

    def entry(self, location: str) -> FileInfo:
        """See `Store`. Sees files only: an object store has no directories."""
        with self.request(location):
            return self._info("", *self.head(self.key(location)))

    def tree(self, location: str) -> Iterator[FileInfo]:
        """See `Store`, but sorted by path: a bucket is listed flat, which takes few requests."""
        return (entry for entry in self.entries(location) if not entry.is_dir)

    def entries(self, location: str) -> list[FileInfo]:
        """Everything below a directory, sorted by path: files, and the markers of directories.

        The path of a marker ends in a slash.

        Raises:
            FormatError: a key has an empty name there (`a//b`).
            FormatError: directories are nested deeper than MAX_DEPTH.
        """
        prefix = self.prefix(location)
        with self.request(location):
            found = self.rows(prefix)
        if not found:
            raise FileNotFoundError(location)
        return sorted((self._info(prefix, *row) for row in found), key=lambda entry: entry.path)

    def key(self, location: str) -> str:
        """The key of a location."""
        return location[len(self._place) :]

    def prefix(self, location: str) -> str:
        """What the keys below a directory start with."""
        key = self.key(location)
        return key and f"{key}/"

    def _info(
        self, prefix: str, key: str, size: int, modified: datetime | None, version: str | None
    ) -> FileInfo:
        below = key[len(prefix) :]
        names = below.removesuffix("/").split("/")
        if below and _STRAY.intersection(names):
            raise FormatError(
                f"{self._place}{prefix} has a key with an empty name, or one of dots, which no"
                f" path can name: {key!r}"
            )
        if len(names) > MAX_DEPTH:
            raise FormatError(f"{self._place}{key} is nested deeper than {MAX_DEPTH} directories")
        ms = int(modified.timestamp() * _MS) if modified else 0
        is_dir = key.endswith("/")
        # the prefix of a listing is a directory like all others; a marker's key keeps its slash
        path = self._place + (key if modified or not is_dir else key.removesuffix("/"))
        return FileInfo(names[-1], path, is_dir, size, ms, version=version)


class CloudStore(ObjectStore):
    """Reads one bucket through the cloud's own client, which reads a given version only."""

    @abstractmethod
    def content(self, row: Row, start: int) -> bytes:
        """The content of an object from a byte on; an error if it was replaced since its `head`."""

    def read(self, location: str, limit: int) -> bytes:
        """See `Store`."""
        with self.request(location):
            row = self.head(self.key(location))
            if row[1] > limit:
                raise FormatError(f"{location} is larger than the limit of {limit} bytes")
            return self.content(row, 0) if row[1] else b""

    def read_end(self, location: str, count: int) -> bytes:
        """See `Store`."""
        with self.request(location):
            row = self.head(self.key(location))
            return self.content(row, max(row[1] - count, 0)) if row[1] else b""
