"""Create, replace and remove files of remote stores, and verify every removal.

Clients hide faults: s3fs ignores the errors of single keys in a bulk removal, and WebHDFS and
object stores report success for the removal of a missing file. So existence is checked before and
after a removal, without a cache of listings. Remaining files are then removed one by one, which
raises the store's own error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.storage import FileInfo, NotFound, Storage
from tidegate.storage.store_errors import error_of, store_errors

_ATOMIC: Final = frozenset({"s3", "gs", "gcs", "memory"})
"""Stores whose writes are atomic, and conditional on request."""
_FEW: Final = 8
_BULK: Final = 1000


class Tree(NamedTuple):
    """A listed directory."""

    files: list[FileInfo]
    """All files below, sorted by path."""
    entries: tuple[str, ...]
    """What its removal has to remove, in this order: keys on S3, otherwise paths of the client."""


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
            with store_errors(location):
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
        with store_errors(location):
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

    def tree(self, location: str) -> Tree | None:
        """List everything below a directory; None if it does not exist.

        Raises:
            FormatError: an object store has a key with an empty name there.
            TooDeep: directories are nested deeper than MAX_DEPTH.
        """
        fs, path = self._storage.open(location)
        if hasattr(fs, "call_s3"):
            return self._tree_of_keys(fs, path, location)
        try:
            files = sorted(self._storage.walk(location), key=lambda file: file.path)
        except NotFound:
            return None
        return Tree(files, tuple(self._storage.open(file.path)[1] for file in files))

    def remove(self, location: str, tree: Tree) -> list[str]:
        """Remove the listed entries of a directory; return the entries that are there afterwards.

        Other processes wrote these: they are left.

        Raises:
            TransientError: a listed entry is still there.
            OSError: the store refuses a removal.
        """
        fs, path = self._storage.open(location)
        with store_errors(location):
            if hasattr(fs, "call_s3"):
                _remove_keys(fs, fs.split_path(path)[0], tree.entries)
            else:
                _remove_paths(fs, path, tree.entries)
        left = self.tree(location)
        if left is None:
            return []
        if both := set(left.entries) & set(tree.entries):
            raise TransientError(f"{min(both)} is still there after its removal")
        return list(left.entries)

    def remove_tree(self, location: str) -> None:
        """Remove a file, or a directory and everything below it.

        Raises:
            TransientError: a file is still there, or another process wrote one.
            OSError: the store refuses a removal.
        """
        found = self.tree(location)
        if found is not None and (left := self.remove(location, found)):
            raise TransientError(f"{left[0]} was written during the removal of {location}")
        folder, _, name = location.rpartition("/")
        self.remove_names(folder, [name])

    def _tree_of_keys(self, fs: Any, path: str, location: str) -> Tree | None:  # noqa: ANN401 - fsspec is untyped
        bucket, folder, _ = fs.split_path(path)
        with store_errors(location):
            listed = sorted(_keys(fs, bucket, f"{folder}/"), key=lambda entry: str(entry["Key"]))
        if not listed:
            return None
        files: list[FileInfo] = []
        for entry in listed:
            key = str(entry["Key"])
            below = key[len(folder) + 1 :]
            if below.startswith("/") or "//" in below:
                raise FormatError(
                    f"{location} has a key with an empty name, which no path can name: {key!r}"
                )
            if not key.endswith("/"):  # the marker of a directory is not a file
                name, ms = below.rpartition("/")[2], int(entry["LastModified"].timestamp() * 1000)
                file = FileInfo(name, f"{location}/{below}", False, int(entry["Size"]), ms)  # noqa: FBT003
                files.append(file)
        return Tree(files, tuple(str(entry["Key"]) for entry in listed))

    def _open_to_write(self, location: str) -> tuple[Any, str]:
        protocol = location.split("://", 1)[0]
        if protocol not in _ATOMIC:
            raise PermanentError(
                f"{location}: files can't be created or replaced atomically on {protocol} through"
                f" fsspec; savepoints and restores need a local, mounted or object store"
            )
        fs, path = self._storage.open(location)
        if not fs.async_impl:  # on S3 this would create a missing bucket
            fs.makedirs(fs._parent(path), exist_ok=True)  # noqa: SLF001 - fsspec has no public equivalent
        return fs, path

    def _is_there(self, location: str) -> bool:
        fs, path = self._storage.open(location)
        try:  # exists() returns False on every error, even for an unreachable host
            with store_errors(location):
                # an object store may have the keys `d` and `d/a`: only the first is a file
                return bool(fs.info(path)["type"] != "directory")
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _existing(self, folder: str, names: Sequence[str]) -> list[str]:
        if len(names) <= _FEW:
            return [name for name in names if self._is_there(f"{folder}/{name}")]
        try:
            found = {info.name for info in self._storage.list(folder) if not info.is_dir}
        except NotFound:
            return []
        return [name for name in names if name in found]

    def _remove_one(self, location: str) -> None:
        fs, path = self._storage.open(location)
        with suppress(FileNotFoundError, NotADirectoryError), store_errors(location):
            fs.rm_file(path)

    def _remove_in_bulk(self, locations: Sequence[str]) -> None:
        """Remove files in requests of many keys, if the store can; errors are not reported."""
        # Spark's executors import this module without it
        from fsspec.core import has_magic  # noqa: PLC0415

        fs, _ = self._storage.open(locations[0])
        if not fs.async_impl:
            return
        paths = [self._storage.open(location)[1] for location in locations]
        plain = [path for path in paths if not has_magic(path)]
        for start in range(0, len(plain), _BULK):
            with suppress(FileNotFoundError), store_errors(locations[0]):
                fs.rm(plain[start : start + _BULK])


def _keys(fs: Any, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - fsspec is untyped
    """All entries of a bucket with a prefix, page by page. Unlike a path, a key has any name."""
    page: dict[str, Any] = {"IsTruncated": True}
    more: dict[str, str] = {}
    while page["IsTruncated"]:
        page = fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **more)
        yield from page.get("Contents", ())
        more = {"ContinuationToken": page.get("NextContinuationToken", "")}


def _remove_keys(fs: Any, bucket: str, keys: Sequence[str]) -> None:  # noqa: ANN401 - fsspec is untyped
    for start in range(0, len(keys), _BULK):
        named = [{"Key": key} for key in keys[start : start + _BULK]]
        answer = fs.call_s3(
            "delete_objects", Bucket=bucket, Delete={"Objects": named, "Quiet": True}
        )
        for error in answer.get("Errors", ()):
            code, seen = str(error.get("Code")), f"{error.get('Key')}: {error.get('Message')}"
            raise error_of(code, seen) or OSError(f"{seen} ({code})")


def _remove_paths(fs: Any, root: str, paths: Sequence[str]) -> None:  # noqa: ANN401 - fsspec is untyped
    """Remove files, and the directories that are empty then."""
    for path in paths:
        with suppress(FileNotFoundError):
            fs.rm_file(path)
    below = {path for path, _, _ in fs.walk(root)} | {root}
    for folder in sorted(below, key=len, reverse=True):
        with suppress(OSError):  # another process wrote into it; or a store without directories
            fs.rmdir(folder)
