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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final, NoReturn, Self

from tidegate.errors import ConfinementError, FormatError, ReachedByLink
from tidegate.storage.file_info import FileInfo, ListedFile
from tidegate.storage.locations import is_below, join
from tidegate.storage.parallel import ParallelMap, batches_of
from tidegate.storage.store import MAX_DEPTH, Capabilities, Store

_NANOSECONDS_PER_MS: Final = 1_000_000
_TIME_BITS: Final = 64


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
            FormatError: it has too many names.
        """
        containing = [root for root in roots if location == root or is_below(location, root)]
        if not containing:
            raise ConfinementError(f"{location} is outside the warehouse roots {tuple(roots)}")
        root = max(containing, key=len)
        names = tuple(name for name in location[len(root) :].split("/") if name)
        if len(names) > MAX_DEPTH:
            raise FormatError(f"{location} is nested deeper than {MAX_DEPTH} directories")
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


def walk_below(parent: int, path: LocalPath) -> list[FileInfo] | None:
    """List all files below the directory `path`, whose parent is open; None if it does not exist.

    The files are sorted by name, level by level. Links are listed as links.

    Raises:
        FormatError: directories are nested deeper than MAX_DEPTH.
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
        raise FormatError(f"{path} is nested deeper than {MAX_DEPTH} directories")
    try:
        with os.scandir(directory) as entries:
            found = _file_infos(str(path), entries)
    except OSError as error:
        raise naming(error, path) from error
    found.sort()
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
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            found.append(_file_info(entry.name, f"{parent}/{entry.name}", status))
    return found


def _file_info(name: str, path: str, status: os.stat_result) -> FileInfo:
    mode, modified_ms = status.st_mode, status.st_mtime_ns // _NANOSECONDS_PER_MS
    version = status.st_ino << _TIME_BITS | status.st_ctime_ns
    is_dir, is_link = stat.S_ISDIR(mode), stat.S_ISLNK(mode)
    return FileInfo(name, path, is_dir, status.st_size, modified_ms, is_link, version)


def entry_in(directory: int, path: LocalPath) -> FileInfo:
    """A file or directory in the open directory of its parent.

    Raises:
        FileNotFoundError: it does not exist.
    """
    status = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    return _file_info(path.name, str(path), status)


_CAN: Final = Capabilities(renames=True, links=True, checksums=True, is_remote=False)


class LocalStore(Store):
    """Opens every directory relative to its parent, from the innermost of `roots` that has it.

    Without roots, links are followed as the operating system does.
    """

    @property
    def can(self) -> Capabilities:
        """See `Store`."""
        return _CAN

    def __init__(self, roots: Sequence[str]) -> None:
        """Take the normalised roots."""
        self.roots = tuple(roots)

    def children(self, location: str) -> Sequence[FileInfo]:
        """See `Store`."""
        path = self.path(location)
        with located(path), opened_directory(path) as directory, os.scandir(directory) as entries:
            return _file_infos(str(path), entries)

    def names(self, location: str) -> Sequence[str]:
        """See `Store`. Needs no stat per child."""
        path = self.path(location)
        with located(path), opened_directory(path) as directory:
            return os.listdir(directory)  # noqa: PTH208 - of a descriptor

    def entry(self, location: str) -> FileInfo:
        """See `Store`."""
        path = self._file(location)
        with located(path), opened_directory(path.parent) as directory:
            return entry_in(directory, path)

    def trees(
        self, location: str, names: Sequence[str], parallel_map: ParallelMap
    ) -> Sequence[tuple[ListedFile, ...] | None]:
        """See `Store`. The parent is opened once for many directories."""
        done = parallel_map.map(partial(_trees, self.path(location)), batches_of(names))
        return [files for batch in done for files in batch]

    def read(self, location: str, limit: int) -> bytes:
        """See `Store`. A pipe or a device is refused without waiting for it."""
        with self._opened(location, follow=not self.roots) as (file, status):
            if status.st_size <= limit:
                # read() allocates its size, so read what fstat reported, and more if it has grown
                read = file.read(status.st_size + 1)
                if len(read) > status.st_size:
                    read += file.read(limit + 1 - len(read))
                if len(read) <= limit:
                    return read
        raise FormatError(f"{location} is larger than the limit of {limit} bytes")

    def read_end(self, location: str, count: int) -> bytes:
        """See `Store`."""
        with self._opened(location, follow=False) as (file, status):
            return os.pread(file.fileno(), count, max(0, status.st_size - count))

    def path(self, location: str) -> LocalPath:
        """A location as a root and the names below it."""
        return LocalPath.below(location, self.roots or (location,))

    def _file(self, location: str) -> LocalPath:
        folder = location.rsplit("/", 1)[0] or "/"
        return LocalPath.below(location, self.roots or (folder,))

    @contextmanager
    def _opened(self, location: str, *, follow: bool) -> Generator[tuple[BinaryIO, os.stat_result]]:
        """Open a regular file, which may itself be a link if links are followed."""
        path = self._file(location)
        if not path.names:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location)
        with located(path), opened_directory(path.parent) as directory:
            try:
                descriptor = _open(directory, path.name, follow=follow)
            except OSError as error:
                if error.errno == errno.ELOOP and not follow:
                    refuse_link(path)
                raise
            try:
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location)
                if not stat.S_ISREG(status.st_mode):
                    raise FormatError(f"{path} is not a regular file")
                with open(descriptor, "rb", closefd=False) as file:
                    yield file, status
            finally:
                os.close(descriptor)


def _trees(parent: LocalPath, names: Sequence[str]) -> list[tuple[ListedFile, ...] | None]:
    try:
        with located(parent), opened_directory(parent) as directory:
            found = [walk_below(directory, parent.child(name)) for name in names]
    except (FileNotFoundError, NotADirectoryError):
        return [None] * len(names)
    return [None if files is None else tuple(map(ListedFile.of, files)) for files in found]


def _open(directory: int, name: str, *, follow: bool) -> int:
    if follow:
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=directory)
    return os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=directory)
