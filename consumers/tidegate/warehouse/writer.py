"""Write and remove, below the warehouse roots only."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

from fsspec.core import has_magic

from tidegate.errors import TidegateError, TransientError
from tidegate.storage import NotFound, Storage, join
from tidegate.warehouse.roots import WarehouseRoots

_ATTEMPTS: Final = 10
_DRAFT: Final = re.compile(r"[0-9a-f]{32}\.tmp")


class AlreadyThere(TidegateError):  # noqa: N818 - an expected answer, not a fault
    """Somebody created this file first. The catcher reads what is there and decides."""


class Warehouse(Storage):
    """A storage whose tables may be changed. Every call checks its paths against the roots first.

    Nothing below a root is reached through a link, and no link there is changed itself.
    What is already gone counts as removed: every call may be repeated.
    """

    def __init__(
        self, roots: WarehouseRoots, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Take the roots to stay below, and fsspec's options by protocol."""
        super().__init__(options)
        self.roots = roots

    def create(self, location: str, content: bytes) -> None:
        """Create a file whole, never over an existing one.

        Raises:
            AlreadyThere: the file exists; it was left as it is.
            ConfinementError: it lies outside the roots.
        """
        where = self.roots.check(location)
        fs, path = self._open(where)
        fs.makedirs(fs._parent(path), exist_ok=True)  # noqa: SLF001 - fsspec's own way to say it
        try:
            if "://" in where:
                fs.pipe_file(path, content, mode="create")
            else:
                _create_local(path, content)
        except FileExistsError as error:
            raise AlreadyThere(location) from error

    def replace(self, location: str, content: bytes) -> None:
        """Replace or create a file whole: a reader sees the old content or the new, never half.

        A Hadoop checksum beside it (`.name.crc`) would call the new content corrupt: it goes.

        Raises:
            ConfinementError: it lies outside the roots.
        """
        where = self.roots.check(location)
        fs, path = self._open(where)
        if "://" in where:
            fs.pipe_file(path, content)
            return
        for _ in range(_ATTEMPTS):
            with _draft(path, content) as draft:
                self.remove_files([_checksum(where)])
                with suppress(FileNotFoundError):  # another process swept our draft
                    os.replace(draft, path)  # noqa: PTH105 - fsspec paths are strings
                    return
        raise TransientError(f"{location} is replaced by others at the same time")

    def remove_files(self, locations: Iterable[str]) -> int:
        """Remove files; say how many were there.

        Raises:
            ConfinementError: one lies outside the roots; then none was removed.
        """
        removed = 0
        for location in [self.roots.check(location) for location in locations]:
            fs, path = self._open(location)
            try:
                fs.rm_file(path)
                removed += 1
            except (FileNotFoundError, NotADirectoryError):
                continue
        return removed

    def remove_tree(self, location: str) -> None:
        """Remove a directory and all below it. Links in it are removed, never followed.

        Raises:
            ConfinementError: it lies outside the roots.
        """
        where = self.roots.check(location)
        fs, path = self._open(where)
        if "://" in where and has_magic(path):
            self._remove_by_name(where)
            return
        while fs.lexists(path):
            # where two processes remove one tree, each stumbles over what the other took first
            with suppress(FileNotFoundError):
                fs.rm(path, recursive=True)
                return

    def _remove_by_name(self, where: str) -> None:
        """Remove a remote tree file by file: fsspec would take `[`, `*` and `?` for a pattern."""
        try:
            entries = self.list(where)
        except NotFound:
            self.remove_files([where])
            return
        for entry in entries:
            if entry.is_dir:
                self._remove_by_name(entry.path)
            else:
                self.remove_files([entry.path])
        fs, path = self._open(where)
        with suppress(FileNotFoundError):  # an object store has no directories
            fs.rmdir(path)


def _create_local(path: str, content: bytes) -> None:
    """Write a file that has no name yet, then give it its name: who dies in between leaves nothing.

    Linux; elsewhere a hidden draft is linked, which a death at the wrong moment leaves behind.
    """
    folder = os.path.dirname(path)  # noqa: PTH120 - fsspec paths are strings
    try:
        nameless = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except (AttributeError, OSError):
        with _draft(path, content) as draft:
            os.link(draft, path)  # atomic, and refuses an existing target
        return
    with open(nameless, "wb") as file:  # noqa: PTH123 - a descriptor has no path
        _write_through(file, content)
        # with a folder's descriptor, link() follows the link in /proc to the nameless file
        here = os.open(folder, os.O_RDONLY)
        try:
            source = f"/proc/self/fd/{nameless}"
            os.link(source, path, src_dir_fd=here, follow_symlinks=True)
        finally:
            os.close(here)


@contextmanager
def _draft(path: str, content: bytes) -> Generator[str]:
    """A hidden file beside `path` with the whole content on the disk; gone afterwards.

    Drafts of the same file that the dead left are swept. Should one be another process's, its
    rename fails, and it writes another.
    """
    folder, name = os.path.split(path)
    stem = f".{name[:100]}."
    draft = os.path.join(folder, f"{stem}{uuid.uuid4().hex}.tmp")  # noqa: PTH118
    for left in os.scandir(folder):
        if left.name.startswith(stem) and _DRAFT.fullmatch(left.name[len(stem) :]):
            with suppress(FileNotFoundError):
                os.unlink(left.path)  # noqa: PTH108
    try:
        with open(draft, "xb") as file:  # noqa: PTH123 - fsspec paths are strings
            _write_through(file, content)
        yield draft
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)  # noqa: PTH108 - fsspec paths are strings


def _write_through(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _checksum(location: str) -> str:
    folder, name = location.rsplit("/", 1)
    return join(folder, f".{name}.crc")
