"""Read local files by directory descriptors: below a root, no symbolic link is ever followed.

A path that is checked first and opened afterwards can be replaced by a link in between. So every
directory on the way is opened relative to its parent with O_NOFOLLOW, and all calls are relative to
the last descriptor: the directory that was checked is the one that is used. A link is reported, not
followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NoReturn, Self

from tidegate.errors import ConfinementError, FormatError, ReachedByLink
from tidegate.storage.file_info import FileInfo
from tidegate.storage.locations import is_below, join

_IS_DIR: Final = attrgetter("is_dir")
MAX_DEPTH: Final = 100
"""Directories nested deeper than this below a root are refused: no table format needs them."""
_NANOSECONDS_PER_MS: Final = 1_000_000
_TIME_BITS: Final = 64


class TooDeep(FormatError):  # noqa: N818 - states a finding
    """Directories are nested deeper than MAX_DEPTH. The catcher refuses the table."""


@dataclass(frozen=True, slots=True)
class LocalPath:
    """A root, which may be reached through links, and the names below it, which may not."""

    root: str
    names: tuple[str, ...] = ()

    @classmethod
    def below(cls, location: str, roots: Sequence[str]) -> Self:
        """Split a normalised local location at the innermost of the roots that contain it.

        Raises:
            ConfinementError: it is outside all of them.
            TooDeep: it has too many names.
        """
        containing = [root for root in roots if location == root or is_below(location, root)]
        if not containing:
            raise ConfinementError(f"{location} is outside the warehouse roots {tuple(roots)}")
        root = max(containing, key=len)
        names = tuple(name for name in location[len(root) :].split("/") if name)
        if len(names) > MAX_DEPTH:
            raise TooDeep(f"{location} is nested deeper than {MAX_DEPTH} directories")
        return cls(root, names)

    @property
    def parent(self) -> LocalPath:
        """The directory that contains it."""
        return LocalPath(self.root, self.names[:-1])

    @property
    def name(self) -> str:
        """The last name. A root itself has none."""
        return self.names[-1]

    def child(self, name: str) -> LocalPath:
        """A name directly below it."""
        return LocalPath(self.root, (*self.names, name))

    def __str__(self) -> str:
        """The location."""
        return "/".join((self.root.rstrip("/"), *self.names))


@contextmanager
def located(location: object) -> Generator[None]:
    """Make OSErrors of calls relative to a descriptor name the full location."""
    try:
        yield
    except OSError as error:
        raise naming(error, location) from error


def naming(error: OSError, location: object) -> OSError:
    """The same error with the full location, if it names only a part relative to a descriptor."""
    if error.errno is None or str(error.filename).startswith("/"):
        return error
    return OSError(error.errno, error.strerror, str(location))


@contextmanager
def opened_directory(path: LocalPath) -> Generator[int]:
    """Open a directory; yield its descriptor, which is closed at the end.

    Raises:
        FileNotFoundError, NotADirectoryError: it does not exist.
        ReachedByLink, ConfinementError: a name on the way is a link.
        OSError: it can't be opened.
    """
    directory = hold_directory(path)
    try:
        yield directory
    finally:
        os.close(directory)


def hold_directory(path: LocalPath) -> int:
    """Open a directory; the caller closes the descriptor.

    Raises: as `opened_directory`.
    """
    here = os.open(path.root, os.O_RDONLY | os.O_DIRECTORY)
    for name in path.names:
        try:
            below = open_below(here, name, path)
        finally:
            os.close(here)
        here = below
    return here


def open_below(parent: int, name: str, path: LocalPath) -> int:
    """Open the directory `name` of an open directory; errors name `path`.

    Raises:
        ReachedByLink, ConfinementError: it is a link.
        NotADirectoryError: it is a file.
    """
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            raise
        # a link, or one a moment ago that was replaced by a directory since
        refuse_link(path)


def refuse_link(path: LocalPath) -> NoReturn:
    """Raise the error for a path with a link.

    Raises:
        ReachedByLink: it leads to another location below the root, or changed meanwhile.
        ConfinementError: it leads outside the root.
    """
    real, root = os.path.realpath(str(path)), os.path.realpath(path.root)
    if is_below(real, root):
        raise ReachedByLink(f"{path} contains a symbolic link; its real path is {real}")
    raise ConfinementError(
        f"{path} leads outside the warehouse root {path.root} through a symbolic link"
    )


def check_no_link(path: LocalPath) -> None:
    """Check that the path has no links below the root, as far as it exists.

    This refuses a command early and clearly. It does not protect by itself: the path may change at
    any time, so all reads and writes use descriptors anyway.

    Raises:
        ReachedByLink, ConfinementError: the path contains a link.
    """
    here = path.root
    for name in path.names:
        here = join(here, name)
        try:
            found = os.lstat(here)
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(found.st_mode):
            refuse_link(path)


def list_directory(path: LocalPath) -> list[FileInfo]:
    """List the direct children, in no order. Links are listed as links.

    Raises: as `opened_directory`.
    """
    with located(path), opened_directory(path) as directory, os.scandir(directory) as entries:
        return _file_infos(str(path), entries)


def list_names(path: LocalPath) -> list[str]:
    """The names of the direct children, in no order, without a stat of any of them.

    Raises: as `opened_directory`.
    """
    with located(path), opened_directory(path) as directory:
        return os.listdir(directory)  # noqa: PTH208 - of a descriptor


def walk_below(parent: int, path: LocalPath) -> list[FileInfo] | None:
    """List all files below the directory `path`, whose parent is open; None if it does not exist.

    The files are sorted by name, level by level. Links are listed as links.

    Raises:
        TooDeep: directories are nested deeper than MAX_DEPTH.
        ReachedByLink, ConfinementError: the directory is a link.
        OSError: a directory can't be read.
    """
    try:
        here = open_below(parent, path.name, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise naming(error, path) from error
    try:
        return walk_open(here, path)
    finally:
        os.close(here)


def walk_open(directory: int, path: LocalPath) -> list[FileInfo]:
    """List all files below an open directory, as `walk_below` does."""
    if len(path.names) > MAX_DEPTH:
        raise TooDeep(f"{path} is nested deeper than {MAX_DEPTH} directories")
    try:
        with os.scandir(directory) as entries:
            found = _file_infos(str(path), entries)
    except OSError as error:
        raise naming(error, path) from error
    found.sort()
    if not any(map(_IS_DIR, found)):
        return found
    files: list[FileInfo] = []
    for entry in found:
        if entry.is_dir:
            files += walk_below(directory, path.child(entry.name)) or ()
        else:
            files.append(entry)
    return files


def _file_infos(parent: str, entries: Iterable[os.DirEntry[str]]) -> list[FileInfo]:
    found: list[FileInfo] = []
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        # inline: a call for every entry costs a tenth of the listing
        mode, name = status.st_mode, entry.name
        modified_ms = status.st_mtime_ns // _NANOSECONDS_PER_MS
        is_dir, is_link = stat.S_ISDIR(mode), stat.S_ISLNK(mode)
        version = status.st_ino << _TIME_BITS | status.st_ctime_ns
        path = f"{parent}/{name}"
        found.append(FileInfo(name, path, is_dir, status.st_size, modified_ms, is_link, version))
    return found


def entry_of(path: LocalPath) -> FileInfo:
    """A file or directory as its parent's listing shows it. Raises as `opened_directory`."""
    with located(path), opened_directory(path.parent) as directory:
        return entry_in(directory, path)


def entry_in(directory: int, path: LocalPath) -> FileInfo:
    """The same, in the open directory of its parent.

    Raises:
        FileNotFoundError: it does not exist.
    """
    found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    return FileInfo(
        path.name,
        str(path),
        stat.S_ISDIR(found.st_mode),
        found.st_size,
        found.st_mtime_ns // _NANOSECONDS_PER_MS,
        stat.S_ISLNK(found.st_mode),
        found.st_ino << _TIME_BITS | found.st_ctime_ns,
    )


def read_file(path: LocalPath, limit: int, *, follow: bool = False) -> bytes:
    """Read a complete regular file; a pipe or a device is refused without waiting for it.

    Args:
        path: The file.
        limit: The largest size to read, in bytes.
        follow: Whether the file itself may be a link.

    Raises:
        FileNotFoundError, NotADirectoryError, IsADirectoryError: there is no such file.
        ReachedByLink, ConfinementError: a name on the way is a link.
        FormatError: it is larger than the limit, or not a regular file.
    """
    if not path.names:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with located(path), opened_directory(path.parent) as directory:
        file = _open_file(directory, path, follow=follow)
        try:
            return _read_regular(file, path, limit)
        finally:
            os.close(file)


def read_end(path: LocalPath, count: int) -> bytes:
    """Read the last bytes of a regular file; raises as `read_file`."""
    with located(path), opened_directory(path.parent) as directory:
        file = _open_file(directory, path, follow=False)
        try:
            return os.pread(file, count, max(0, _regular(file, path).st_size - count))
        finally:
            os.close(file)


def _regular(file: int, path: LocalPath) -> os.stat_result:
    found = os.fstat(file)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise FormatError(f"{path} is not a regular file")
    return found


def _read_regular(file: int, path: LocalPath, limit: int) -> bytes:
    found = _regular(file, path)
    if found.st_size <= limit:
        with open(file, "rb", closefd=False) as content:
            # read() allocates its size, so read only what fstat reported, and more if it has grown
            read = content.read(found.st_size + 1)
            if len(read) > found.st_size:
                read += content.read(limit + 1 - len(read))
        if len(read) <= limit:
            return read
    raise FormatError(f"{path} is larger than the limit of {limit} bytes")


def _open_file(directory: int, path: LocalPath, *, follow: bool) -> int:
    try:
        if follow:
            return os.open(path.name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=directory)
        return os.open(path.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            refuse_link(path)
        raise
