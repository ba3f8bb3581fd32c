"""Create, replace and remove local files relative to directory descriptors.

Nothing here follows a symbolic link below the path's root: see `tidegate.storage.local`. If a
directory is replaced by a link during a call, the call fails and never reaches the link's target.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Generator, Iterable
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from typing import IO, Final

from tidegate.errors import TransientError
from tidegate.storage.file_info import FileInfo, Version
from tidegate.storage.local import (
    MAX_DEPTH,
    LocalPath,
    TooDeep,
    entry_in,
    located,
    open_below,
    opened_directory,
    refuse_link,
)

_ATTEMPTS: Final = 10
_CHECKSUM: Final = ".crc"
_DRAFT: Final = re.compile(r"[0-9a-f]{32}\.tmp")


def create_file(path: LocalPath, content: bytes) -> None:
    """Create a file atomically, and its directories.

    Raises:
        FileExistsError: it exists, possibly as a link.
    """
    with located(path), _made_directory(path.parent) as directory:
        if _is_link(directory, path.name):
            refuse_link(path)
        _create(directory, path.name, content)


def replace_file(path: LocalPath, content: bytes, if_version: Version) -> None:
    """Replace a file atomically, or create it; remove its Hadoop checksum (`.name.crc`) first.

    Args:
        path: The file.
        content: Its new content.
        if_version: The version to replace; None: any, or none.

    Raises:
        FileExistsError: it has another version, or is gone. This is checked right before.
        TransientError: other processes keep replacing it.
    """
    with located(path), opened_directory(path.parent) as directory:
        if _is_link(directory, path.name):
            refuse_link(path)
        for _ in range(_ATTEMPTS):
            with _draft(directory, path.name, content) as draft:
                if if_version is not None and _version(directory, path) != if_version:
                    raise FileExistsError(errno.EEXIST, "it was replaced meanwhile", str(path))
                with suppress(FileNotFoundError):
                    os.unlink(f".{path.name}.crc", dir_fd=directory)
                try:
                    os.replace(draft, path.name, src_dir_fd=directory, dst_dir_fd=directory)
                except FileNotFoundError:  # another process removed this draft
                    continue
                return
    raise TransientError(f"{path} is being replaced by other processes; try again")


def present(folder: LocalPath, names: Iterable[str], at_most: int) -> set[str] | None:
    """The names of these files of one directory, and of their checksums, that exist.

    Returns:
        None if the directory has more than `at_most` entries.

    Raises:
        ReachedByLink, ConfinementError: one of the names is a link.
    """
    wanted, found = set(names), set[str]()
    try:
        with located(folder), opened_directory(folder) as directory, os.scandir(directory) as every:
            for number, entry in enumerate(every):
                if number >= at_most:
                    return None
                name = entry.name
                is_checksum = name.startswith(".") and name.endswith(_CHECKSUM)
                if name in wanted or (is_checksum and name[1 : -len(_CHECKSUM)] in wanted):
                    if entry.is_symlink():
                        refuse_link(folder.child(name))
                    found.add(name)
    except (FileNotFoundError, NotADirectoryError):  # then none of them exists
        return set()
    return found


def remove_entries(folder: LocalPath, entries: Iterable[FileInfo]) -> int:
    """Remove files of one directory that still have the listed version; return how many."""
    removed = 0
    missing = suppress(FileNotFoundError, NotADirectoryError)
    with missing, located(folder), opened_directory(folder) as directory:
        for entry in entries:
            if _version(directory, folder.child(entry.name)) == entry.version:
                removed += _remove_file(directory, entry.name, folder)
    return removed


def remove_names(folder: LocalPath, names: Iterable[str], *, are_files: bool = False) -> int:
    """Remove files of one directory, in this order; return how many existed.

    Args:
        folder: The directory.
        names: The files.
        are_files: Whether a listing has just shown that none is a link. If a name has become a link
            since, the link is removed and its target is not: any check before a removal has this
            gap.

    Raises:
        ReachedByLink, ConfinementError: one of the names is a link.
    """
    removed = 0
    try:
        with located(folder), opened_directory(folder) as directory:
            for name in names:
                if not are_files:
                    removed += _remove_file(directory, name, folder)
                    continue
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                    removed += 1
    except (FileNotFoundError, NotADirectoryError):  # then none of them exists
        return removed
    return removed


def _remove_file(directory: int, name: str, folder: LocalPath) -> bool:
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            refuse_link(LocalPath(folder.root, (*folder.names, name)))
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: LocalPath) -> None:
    """Remove a file, or a directory and everything below it. Links in it are removed, not followed.

    Concurrent removals by other processes are not an error. Other file systems that are mounted in
    the tree are not entered.

    Raises:
        TooDeep: directories are nested deeper than MAX_DEPTH.
        OSError: something can't be removed; EXDEV for a mounted file system.
    """
    try:
        with located(path), opened_directory(path.parent) as directory:
            if _is_link(directory, path.name):
                refuse_link(path)
            _remove(directory, path, os.fstat(directory).st_dev)
    except (FileNotFoundError, NotADirectoryError):
        return


def _remove(
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
            empty_directory(directory, path, device, only)
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


def empty_directory(
    directory: int, path: LocalPath, device: int, only: AbstractSet[str] | None = None
) -> None:
    """Remove everything in an open directory of a device. Links in it are removed, not followed.

    With `only`, the files at other paths stay, and the directories that contain them.

    Raises:
        TooDeep: directories are nested deeper than MAX_DEPTH.
        OSError: something can't be removed; EXDEV for a mounted file system.
    """
    if len(path.names) > MAX_DEPTH:
        raise TooDeep(f"{path} is nested deeper than {MAX_DEPTH} directories")
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if is_directory:
            _remove(directory, path.child(name), device, only)
            continue
        if only is not None and f"{path}/{name}" not in only:
            continue
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


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
