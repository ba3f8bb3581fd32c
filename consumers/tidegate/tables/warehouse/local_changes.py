"""Change local and mounted file systems, without following a link below a root.

Files are created, replaced and removed relative to directory descriptors: see
`tidegate.storage.local`. If a directory is replaced by a link during a call, the call fails and
never reaches the link's target.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import IO, Final

from tidegate.errors import TransientError
from tidegate.storage import FileInfo, NotFound
from tidegate.storage.file_info import Version
from tidegate.storage.local import (
    LocalPath,
    LocalStore,
    entry_in,
    hold_directory,
    located,
    open_below,
    opened_directory,
    refuse_link,
)
from tidegate.tables.warehouse.changes import Changes, Moves, OpenFolder
from tidegate.tables.warehouse.local_directories import LocalFolder, LocalMoves, remove_entry

_ATTEMPTS: Final = 10
_DRAFT: Final = re.compile(r"[0-9a-f]{32}\.tmp")


class LocalChanges(LocalStore, Changes):
    """The local file systems below the roots."""

    def create(self, location: str, content: bytes) -> None:
        """See `Changes`. Its directories are created, too."""
        path = self.path(location)
        with located(path), _made_directory(path.parent) as directory:
            if _is_link(directory, path.name):
                refuse_link(path)
            _create(directory, path.name, content)

    def replace(self, location: str, content: bytes, if_version: Version) -> None:
        """See `Changes`. The version is checked right before.

        Raises:
            TransientError: other processes keep replacing the file.
        """
        path = self.path(location)
        with located(path), opened_directory(path.parent) as directory:
            if _is_link(directory, path.name):
                refuse_link(path)
            for _ in range(_ATTEMPTS):
                with _draft(directory, path.name, content) as draft:
                    if if_version is not None and _version(directory, path) != if_version:
                        raise FileExistsError(errno.EEXIST, "it was replaced meanwhile", location)
                    with suppress(FileNotFoundError):
                        os.unlink(f".{path.name}.crc", dir_fd=directory)
                    try:
                        os.replace(draft, path.name, src_dir_fd=directory, dst_dir_fd=directory)
                    except FileNotFoundError:  # another process removed this draft
                        continue
                    return
        raise TransientError(f"{path} is being replaced by other processes; try again")

    def remove(self, entries: Sequence[FileInfo]) -> int:
        """See `Changes`. No file system removes by version: it is compared right before."""
        removed = 0
        for folder, found in groupby(entries, lambda entry: entry.path.rpartition("/")[0]):
            path = self.path(folder)
            with _if_there(), located(path), opened_directory(path) as directory:
                for entry in found:
                    if _version(directory, path.child(entry.name)) == entry.version:
                        removed += _remove_file(directory, path.child(entry.name))
        return removed

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        """See `Changes`.

        Raises:
            ReachedByLink, ConfinementError: one of the names is a link.
        """
        path, removed = self.path(folder), 0
        with _if_there(), located(path), opened_directory(path) as directory:
            for name in names:
                removed += _remove_file(directory, path.child(name))
        return removed

    def remove_tree(self, location: str) -> None:
        """See `Changes`. Links in it are removed, not followed.

        Concurrent removals by other processes are not an error. Other file systems that are mounted
        in the tree are not entered.

        Raises:
            TooDeep: directories are nested deeper than MAX_DEPTH.
            OSError: something can't be removed; EXDEV for a mounted file system.
        """
        path = self.path(location)
        with _if_there(), located(path), opened_directory(path.parent) as directory:
            if _is_link(directory, path.name):
                refuse_link(path)
            remove_entry(directory, path, os.fstat(directory).st_dev)

    def remove_if_empty(self, location: str) -> bool:
        """See `Changes`."""
        path = self.path(location)
        with _if_there(), located(path), opened_directory(path.parent) as directory:
            try:
                os.rmdir(path.name, dir_fd=directory)
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    return False
                raise
        return True

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
            if os.fstat(here).st_dev != os.fstat(there).st_dev:  # a rename is impossible
                raise OSError(errno.EXDEV, "another file system is mounted here", target)
            yield LocalMoves(here, paths[0], there, paths[1])


def _if_there() -> suppress:
    """Nothing is to be done if the directory is gone: its files are, too."""
    return suppress(FileNotFoundError, NotADirectoryError)


def _remove_file(directory: int, path: LocalPath) -> bool:
    """Remove a file, unless it is a link; return whether it existed."""
    try:
        if stat.S_ISLNK(os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_mode):
            refuse_link(path)
        os.unlink(path.name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _made_directory(path: LocalPath) -> Generator[int]:
    """Open a directory below a root, creating missing directories; the root itself must exist."""
    here = os.open(path.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in path.names:
            try:
                below = open_below(here, name, path)
            except FileNotFoundError:
                with suppress(FileExistsError):  # another process made it meanwhile
                    os.mkdir(name, dir_fd=here)
                below = open_below(here, name, path)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _version(directory: int, path: LocalPath) -> Version:
    try:
        return entry_in(directory, path).version
    except FileNotFoundError:
        return None


def _is_link(directory: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _create(directory: int, name: str, content: bytes) -> None:
    """Write an unnamed file, then link it to its name: a crash in between leaves nothing behind.

    Unnamed files exist only on Linux and some file systems. Elsewhere a hidden draft is linked,
    which a crash may leave behind.
    """
    try:
        unnamed = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o666, dir_fd=directory)
    except (AttributeError, OSError):
        with _draft(directory, name, content) as draft:
            # atomic, and refuses an existing target
            os.link(draft, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        return
    with open(unnamed, "wb") as file:  # noqa: PTH123 - opens a descriptor, not a path
        _write_and_sync(file, content)
        # given a directory descriptor, link() follows the link in /proc to the unnamed file
        source = f"/proc/self/fd/{unnamed}"
        os.link(source, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=True)


@contextmanager
def _draft(directory: int, name: str, content: bytes) -> Generator[str]:
    """Write a hidden file next to `name`, synced to disk, and remove it at the end.

    First removes drafts of the same file that crashed processes left behind. If a draft belongs to
    a live process, that process's rename fails and it writes another draft.
    """
    stem = f".{name[:100]}."
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    for left in names:
        if left.startswith(stem) and _DRAFT.fullmatch(left[len(stem) :]):
            with suppress(FileNotFoundError):
                os.unlink(left, dir_fd=directory)
    draft = f"{stem}{uuid.uuid4().hex}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(draft, flags, 0o666, dir_fd=directory), "wb") as file:  # noqa: PTH123 - a descriptor
            _write_and_sync(file, content)
        yield draft
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=directory)


def _write_and_sync(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
