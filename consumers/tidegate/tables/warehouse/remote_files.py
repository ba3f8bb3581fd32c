"""Create, replace and remove files of remote stores, and verify every removal.

Clients hide faults: s3fs ignores the errors of single keys in a bulk removal, and WebHDFS and
object stores report success for the removal of a missing file. So existence is checked before and
after a removal, without a cache of listings. Remaining files are then removed one by one, which
raises the store's own error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from fsspec.asyn import AsyncFileSystem
from fsspec.core import has_magic

from tidegate.errors import PermanentError, TransientError
from tidegate.storage import NotFound, Storage

_ATOMIC: Final = frozenset({"s3", "gs", "gcs", "memory"})
"""Stores whose writes are atomic, and conditional on request."""
_FEW: Final = 8
_BULK: Final = 1000


class RemoteFiles:
    """The remote files of a storage. Locations are normalised and were checked by the caller."""

    def __init__(self, storage: Storage) -> None:
        """Take the storage, which opens and lists files."""
        self._storage = storage

    def create(self, location: str, content: bytes) -> None:
        """Create a file, never over an existing one.

        Raises:
            FileExistsError: it exists, or exists after a failed attempt, which may have created it.
            PermanentError: this file system can't create files atomically.
        """
        fs, path = self._open_to_write(location)
        try:
            fs.pipe_file(path, content, mode="create")
        except FileExistsError:
            raise
        except OSError as error:  # MinIO's refusal arrives as EINVAL
            if self._is_there(location):
                raise FileExistsError(location) from error
            raise

    def replace(self, location: str, content: bytes) -> None:
        """Replace or create a file.

        Raises:
            PermanentError: this file system can't replace files atomically.
        """
        fs, path = self._open_to_write(location)
        fs.pipe_file(path, content)

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        """Remove files of one directory; return how many existed.

        Raises:
            TransientError: a file is still there.
            OSError: the store refuses a removal.
        """
        existing = left = self._existing(folder, names)
        if len(left) > _FEW:
            self._remove_in_bulk([f"{folder}/{name}" for name in left])
            left = self._existing(folder, left)
        for name in left:
            self._remove_one(f"{folder}/{name}")
        if left and (left := self._existing(folder, left)):
            raise TransientError(f"{folder}/{left[0]} is still there after its removal")
        return len(existing)

    def remove_tree(self, location: str) -> None:
        """Remove a file, or a directory and everything below it.

        Raises:
            TransientError: a file is still there.
            OSError: the store refuses a removal.
        """
        fs, path = self._storage.open(location)
        with suppress(FileNotFoundError):  # another process may remove the same tree
            if has_magic(path):
                self._remove_by_name(location)
            else:
                fs.rm(path, recursive=True)
        left = self._any_left(location)
        if left is not None:
            self._remove_one(left)
            raise TransientError(f"{left} was still there after the removal of {location}")

    def _open_to_write(self, location: str) -> tuple[Any, str]:
        protocol = location.split("://", 1)[0]
        if protocol not in _ATOMIC:
            raise PermanentError(
                f"{location}: files can't be created or replaced atomically on {protocol} through"
                f" fsspec; savepoints and restores need a local, mounted or object store"
            )
        fs, path = self._storage.open(location)
        if not isinstance(fs, AsyncFileSystem):  # on S3 this would create a missing bucket
            fs.makedirs(fs._parent(path), exist_ok=True)  # noqa: SLF001 - fsspec has no public equivalent
        return fs, path

    def _is_there(self, location: str) -> bool:
        fs, path = self._storage.open(location)
        try:  # exists() returns False on every error, even for an unreachable host
            fs.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _existing(self, folder: str, names: Sequence[str]) -> list[str]:
        if len(names) <= _FEW:
            return [name for name in names if self._is_there(f"{folder}/{name}")]
        try:
            found = {info.name for info in self._storage.list(folder)}
        except NotFound:
            return []
        return [name for name in names if name in found]

    def _remove_one(self, location: str) -> None:
        fs, path = self._storage.open(location)
        with suppress(FileNotFoundError, NotADirectoryError):
            fs.rm_file(path)

    def _remove_in_bulk(self, locations: Sequence[str]) -> None:
        """Remove files in requests of many keys, if the store can; errors are not reported."""
        fs, _ = self._storage.open(locations[0])
        if not isinstance(fs, AsyncFileSystem):
            return
        paths = [self._storage.open(location)[1] for location in locations]
        plain = [path for path in paths if not has_magic(path)]
        for start in range(0, len(plain), _BULK):
            with suppress(FileNotFoundError):
                fs.rm(plain[start : start + _BULK])

    def _remove_by_name(self, location: str) -> None:
        """Remove a tree file by file: fsspec would treat `[`, `*` and `?` as a pattern."""
        try:
            entries = self._storage.list(location)
        except NotFound:
            self._remove_one(location)
            return
        for entry in entries:
            if entry.is_dir:
                self._remove_by_name(entry.path)
            else:
                self._remove_one(entry.path)
        fs, path = self._storage.open(location)
        if hasattr(fs, "call_s3"):  # the marker of a directory, which a path can't name
            bucket, key, _ = fs.split_path(path)
            fs.call_s3("delete_object", Bucket=bucket, Key=f"{key}/")
        with suppress(FileNotFoundError):  # object stores have no directories
            fs.rmdir(path)

    def _any_left(self, location: str) -> str | None:
        try:
            for info in self._storage.walk(location):
                return info.path
        except NotFound:
            pass
        return location if self._is_there(location) else None
