"""List and read files: local ones by directory descriptors, all others through fsspec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from tidegate.errors import ConfinementError, FormatError, TidegateError
from tidegate.storage.batches import map_batches
from tidegate.storage.file_info import FileInfo, FileRow, NamedEntry
from tidegate.storage.local import (
    MAX_DEPTH,
    LocalPath,
    TooDeep,
    list_directory,
    list_names,
    read_end,
    read_file,
)
from tidegate.storage.local_listings import file_rows, files_of_each, named_entries
from tidegate.storage.locations import is_below, join, normalise
from tidegate.storage.parallel import ParallelMap
from tidegate.storage.store_errors import store_errors

MAX_READ: Final = 256 * 1024 * 1024
"""Maximum size, in bytes, of a file that is read without an explicit limit."""
_MS: Final = 1000


class NotFound(TidegateError):  # noqa: N818 - an expected result, not a failure
    """Nothing exists at this location. The catcher treats it as absent."""


class Storage:
    """Reads local and remote file systems. Options are fsspec's own, by protocol.

    If it is confined to directories, nothing outside is read, and symbolic links of local or
    mounted file systems are never followed. Object stores have no links. HDFS has links only if an
    administrator enabled them (they are off by default). Then the NameNode resolves paths, and only
    the path's spelling is checked.
    """

    def __init__(
        self,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        confined_to: Sequence[str] = (),
    ) -> None:
        """Take fsspec's options and the directories to stay in.

        Args:
            options: fsspec's options, by protocol: `{"s3": {"endpoint_url": ...}}`.
            confined_to: Normalised directories to which this reader is confined. If empty, it may
                read everything, and follows links as the operating system does.
        """
        self.options = {key: dict(value) for key, value in (options or {}).items()}
        self.confined_to = tuple(confined_to)

    def list(self, location: str) -> list[FileInfo]:
        """List the direct children, sorted by name. Links are listed, not followed.

        Raises:
            NotFound: the directory does not exist.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the directories that this reader is confined to.
            FormatError: an object store has a key with an empty name there (`a//b`).
            PermanentError: the bucket of an object store does not exist.
        """
        location = self._confined(location)
        try:
            if "://" not in location:
                found = list_directory(self._local(location))
            else:
                with store_errors(location):
                    found = _list_remote(*self.open(location), location)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(location) from error
        return sorted(found)  # names come first in the tuples, and are unique

    def names(self, location: str) -> Sequence[str]:
        """The names of the direct children, in no order. Unlike `list`, needs no stat per child.

        Raises: as `list`.
        """
        location = self._confined(location)
        if "://" in location:
            return [info.name for info in self.list(location)]
        try:
            return list_names(self._local(location))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(location) from error

    def kinds(self, location: str) -> Sequence[NamedEntry]:
        """The names and kinds of the direct children, sorted by name.

        In a local directory, this needs no system call per entry.

        Raises: as `list`.
        """
        where = self._confined(location)
        if "://" in where:
            return [
                NamedEntry(child.name, child.is_dir and not child.is_link, child.is_link)
                for child in self.list(where)
            ]
        try:
            return sorted(named_entries(self._local(where)))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(where) from error

    def walk(self, location: str) -> Iterator[FileInfo]:
        """Yield every file below a location; symbolic links are yielded, never followed.

        Raises:
            NotFound: the directory does not exist.
            TooDeep: directories are nested deeper than MAX_DEPTH.
            ReachedByLink, ConfinementError: as in `list`.
        """
        yield from self._walk(location, MAX_DEPTH)

    def walk_each(
        self, location: str, names: Sequence[str], parallel_map: ParallelMap
    ) -> Sequence[tuple[FileRow, ...] | None]:
        """List all files below these directories of one parent; None for a missing directory.

        Local directories are opened relative to their parent, which is opened once for many.

        Raises:
            TooDeep, ReachedByLink, ConfinementError: as in `walk`.
        """
        where = self._confined(location)
        if any("/" in name or name in {"", ".", ".."} for name in names):
            raise ConfinementError(f"some are not names of directories in {location}: {names[:3]}")
        if "://" in where:
            walk = partial(self._walk_or_none, where)
            return parallel_map.map(walk, names)
        return map_batches(partial(files_of_each, self._local(where)), names, parallel_map)

    def _walk_or_none(self, location: str, name: str) -> tuple[FileRow, ...] | None:
        try:
            return file_rows(self.walk(f"{location}/{name}"))
        except NotFound:
            return None

    def _walk(self, location: str, depth: int) -> Iterator[FileInfo]:
        if not depth:
            raise TooDeep(f"{location} is nested too deep ({MAX_DEPTH} directories)")
        for info in self.list(location):
            if info.is_dir and not info.is_link:
                yield from self._walk(info.path, depth - 1)
            else:
                yield info

    def read(self, location: str, limit: int | None = None) -> bytes:
        """Read a complete file.

        Args:
            location: The file.
            limit: The maximum size in bytes; pass a small one for files that should be small. By
                default MAX_READ for local files, and none for remote ones.

        Raises:
            NotFound: the file does not exist.
            FormatError: it is larger than the limit, or not a regular file.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the directories that this reader is confined to.
        """
        location = self._confined(location)
        try:
            if "://" in location:
                return self._read_remote(location, limit)
            path = self._local_file(location)
            limit = MAX_READ if limit is None else limit
            return read_file(path, limit, follow=not self.confined_to)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise NotFound(location) from error

    def read_end(self, location: str, count: int) -> bytes:
        """Read the last bytes of a file, or all of a smaller one; raises as `read`."""
        location = self._confined(location)
        try:
            if "://" not in location:
                return read_end(self._local_file(location), count)
            fs, path = self.open(location)
            return bytes(fs.cat_file(path, start=-count))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise NotFound(location) from error

    def _confined(self, location: str) -> str:
        where = normalise(location)
        roots = self.confined_to
        if roots and not any(where == root or is_below(where, root) for root in roots):
            raise ConfinementError(f"{location} is outside the warehouse roots {roots}")
        return where

    def _local(self, location: str) -> LocalPath:
        return LocalPath.below(location, self.confined_to or (location,))

    def _local_file(self, location: str) -> LocalPath:
        folder = location.rsplit("/", 1)[0] or "/"
        return LocalPath.below(location, self.confined_to or (folder,))

    def _read_remote(self, location: str, limit: int | None) -> bytes:
        fs, path = self.open(location)
        with store_errors(location):
            if limit is not None and int(fs.info(path).get("size") or 0) > limit:
                raise FormatError(f"{location} is larger than the limit of {limit} bytes")
            return bytes(fs.cat_file(path))

    def open(self, location: str) -> tuple[Any, str]:
        """Return fsspec's file system of a location, and the path on it.

        The file system caches no listings, so changes by other processes are visible.
        """
        location = normalise(location)
        protocol = location.split("://", 1)[0] if "://" in location else "file"
        import fsspec  # noqa: PLC0415 - a writer's install does not have it, nor needs it here

        options = {"use_listings_cache": False} | self.options.get(protocol, {})
        fs = fsspec.filesystem(protocol, **options)
        return fs, fs._strip_protocol(location)  # noqa: SLF001 - fsspec has no public equivalent


def _list_remote(fs: Any, path: str, location: str) -> list[FileInfo]:  # noqa: ANN401 - fsspec is untyped
    own = path.rstrip("/")
    inside: list[FileInfo] = []
    for info in fs.ls(path, detail=True, refresh=True):
        # a store lists the path itself if it is a file, or has a marker (`d/`) of the directory
        name = str(info["name"])
        if name.rstrip("/") != own:
            inside.append(_file_info(location, info))
        elif info["type"] == "directory":  # the prefix of a key such as `a//b`
            raise FormatError(f"{location} has a key with an empty name, which no path can name")
        elif not name.endswith("/"):
            raise NotADirectoryError(location)
    return inside


def _file_info(parent: str, info: Mapping[str, Any]) -> FileInfo:
    name = str(info["name"]).rstrip("/").rsplit("/", 1)[-1]
    return FileInfo(
        name=name,
        path=join(parent, name),
        is_dir=info["type"] == "directory",
        size=int(info.get("size") or 0),
        modified_ms=_modified_ms(info),
        is_link=bool(info.get("islink", False)),
    )


def _modified_ms(info: Mapping[str, Any]) -> int:
    """The modification time, whose name depends on the file system's driver."""
    if "modificationTime" in info:  # WebHDFS, in milliseconds
        return int(info["modificationTime"])
    moment = info.get("mtime", info.get("LastModified", info.get("last_modified")))
    if isinstance(moment, datetime):
        return int(moment.timestamp() * _MS)
    return int(moment * _MS) if isinstance(moment, int | float) else 0
