"""Change local and mounted file systems, without following a link below a root.

Files are created, replaced and removed relative to directory descriptors: see
`tidegate.storage.local`. If a directory is replaced by a link during a call, the call fails and
never reaches the link's target.

Directories on the way are opened once. If one of them is moved or replaced meanwhile, the names
still refer to the directory that was opened. Renames are atomic and replace nothing; the directory
that was checked is the one that is moved: if another one took its name in between, the move is
undone.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Generator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Final

from tidegate.errors import FormatError, TransientError
from tidegate.storage import FileInfo, NotFound
from tidegate.storage.file_info import Version
from tidegate.storage.local import (
    LocalPath,
    LocalStore,
    entry_in,
    hold_directory,
    located,
    naming,
    open_below,
    opened_directory,
    refuse_link,
    walk_below,
    walk_open,
)
from tidegate.storage.store import MAX_DEPTH
from tidegate.tables.warehouse.changes import Changes, MayGo, Move, OpenFolder

_ATTEMPTS: Final = 10
_LAST: Final = _ATTEMPTS - 1
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
            FormatError: directories are nested deeper than MAX_DEPTH.
            OSError: something can't be removed; EXDEV for a mounted file system.
        """
        path = self.path(location)
        with _if_there(), located(path), opened_directory(path.parent) as directory:
            if _is_link(directory, path.name):
                refuse_link(path)
            _remove_entry(directory, path, os.fstat(directory).st_dev)

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
            yield _LocalFolder(directory, path, os.fstat(directory).st_dev)
        finally:
            os.close(directory)

    @contextmanager
    def moving(self, source: str, target: str) -> Generator[Move]:
        """See `Changes`."""
        paths = [self.path(location) for location in (source, target)]
        with ExitStack() as opened:
            try:
                here, there = (opened.enter_context(opened_directory(path)) for path in paths)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFound(str(error)) from error
            if os.fstat(here).st_dev != os.fstat(there).st_dev:  # a rename is impossible
                raise OSError(errno.EXDEV, "another file system is mounted here", target)

            def move(name: str, as_name: str, may_go: MayGo) -> bool | None:
                path = paths[0].child(name)
                try:
                    directory = open_below(here, name, path)
                except (FileNotFoundError, NotADirectoryError):
                    return None
                try:
                    if not may_go(walk_open(directory, path)):
                        return False
                    return _rename(directory, here, path, there, paths[1].child(as_name))
                finally:
                    os.close(directory)

            yield move


def _if_there() -> suppress:
    """Nothing is to be done if the directory is gone: its files are, too."""
    return suppress(FileNotFoundError, NotADirectoryError)


def _remove_file(directory: int, path: LocalPath) -> bool:
    """Remove a file, unless it is a link; return whether it existed."""
    try:
        if stat.S_ISLNK(os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_mode):
            refuse_link(path)
        with located(path):
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


@dataclass(frozen=True, slots=True)
class _LocalFolder:
    """An open local directory. Checks and removals use the same descriptor."""

    descriptor: int
    path: LocalPath
    device: int

    def files_below(self, name: str) -> Sequence[FileInfo] | None:
        """See `OpenFolder`."""
        return walk_below(self.descriptor, self.path.child(name))

    def remove_if(self, name: str, may_go: MayGo) -> bool:
        """See `OpenFolder`. If files appear after the listing, lists and checks again."""
        path = self.path.child(name)
        for attempt in range(_ATTEMPTS):
            try:
                directory = open_below(self.descriptor, name, path)
            except (FileNotFoundError, NotADirectoryError):
                return True
            # closed after its removal: the file system frees a directory with its last descriptor,
            # and then without the parent's lock, which rmdir holds
            try:
                if not self._empty_if(directory, path, may_go, is_repeat=attempt > 0):
                    return False
                if self._is_removed(path, is_last=attempt == _LAST):
                    return True
            finally:
                os.close(directory)
        return False

    def _is_removed(self, path: LocalPath, *, is_last: bool) -> bool:
        """Remove an empty directory; return whether it is gone or needs another attempt."""
        try:
            os.rmdir(path.name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return True
        except OSError as error:
            # not empty: it has directories, or another process writes; or replaced by a link
            if error.errno not in {errno.ENOTEMPTY, errno.ENOTDIR} or is_last:
                raise naming(error, path) from error
            return False
        return True

    def _empty_if(self, directory: int, path: LocalPath, may_go: MayGo, *, is_repeat: bool) -> bool:
        if os.fstat(directory).st_dev != self.device:
            raise OSError(errno.EXDEV, "another file system is mounted here", str(path))
        found = walk_open(directory, path)
        if not may_go(found):
            return False
        try:
            if is_repeat:
                _empty(directory, path, self.device, {file.path for file in found})
            else:
                _unlink(directory, found, len(str(path)) + 1)
        except OSError as error:
            raise naming(error, path) from error
        return True


def _unlink(directory: int, found: Sequence[FileInfo], above: int) -> None:
    """Remove the direct files of a directory; `above` is the length of its path with a slash."""
    for file in found:
        if len(file.path) == above + len(file.name):
            with suppress(FileNotFoundError), located(file.path):
                os.unlink(file.name, dir_fd=directory)


def _rename(
    directory: int, source: int, path: LocalPath, target: int, as_path: LocalPath
) -> bool | None:
    """Rename a directory that is open, from one open directory to another; None if it is gone."""
    name, as_name = path.name, as_path.name
    with suppress(FileNotFoundError):
        os.stat(as_name, dir_fd=target, follow_symlinks=False)
        # rename() would replace an empty directory
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(as_path))
    try:
        os.rename(name, as_name, src_dir_fd=source, dst_dir_fd=target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise naming(error, as_path) from error
    moved = os.stat(as_name, dir_fd=target, follow_symlinks=False)
    if not os.path.samestat(moved, os.fstat(directory)):
        os.rename(as_name, name, src_dir_fd=target, dst_dir_fd=source)
        raise TransientError(f"{path} was exchanged during its move")
    return True


def _remove_entry(
    parent: int, path: LocalPath, device: int, only: AbstractSet[str] | None = None
) -> None:
    """Remove the last name of `path` (file, link or directory) from the open directory `parent`."""
    for attempt in range(_ATTEMPTS):
        try:
            directory = os.open(
                path.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent
            )
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise
            with suppress(FileNotFoundError):  # a file or a link
                os.unlink(path.name, dir_fd=parent)
            return
        try:
            if os.fstat(directory).st_dev != device:
                raise OSError(errno.EXDEV, "another file system is mounted here", str(path))
            _empty(directory, path, device, only)
        finally:
            os.close(directory)
        try:
            os.rmdir(path.name, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            if only is not None and error.errno == errno.ENOTEMPTY:
                return
            # not empty: another process writes into it; not a directory: replaced by a link
            if error.errno not in {errno.ENOTEMPTY, errno.ENOTDIR} or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _empty(
    directory: int, path: LocalPath, device: int, only: AbstractSet[str] | None = None
) -> None:
    """Remove everything in an open directory of a device. Links in it are removed, not followed.

    With `only`, the files at other paths stay, and the directories that contain them.

    Raises:
        FormatError: directories are nested deeper than MAX_DEPTH.
        OSError: something can't be removed; EXDEV for a mounted file system.
    """
    if len(path.names) > MAX_DEPTH:
        raise FormatError(f"{path} is nested deeper than {MAX_DEPTH} directories")
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if is_directory:
            _remove_entry(directory, path.child(name), device, only)
            continue
        if only is not None and f"{path}/{name}" not in only:
            continue
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
