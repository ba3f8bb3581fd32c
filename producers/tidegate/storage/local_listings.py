"""List very many local directories with as few system calls as possible.

System calls and small objects dominate a listing of a table of 200,000 directories. So every
directory is opened once (relative to its parent and not through a link), read once and closed, with
one stat per file. Names directly in the table need no stat: the directory itself has their kinds.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from typing import Final

from tidegate.storage.file_info import FileRow, NamedEntry
from tidegate.storage.local import (
    MAX_DEPTH,
    LocalPath,
    located,
    naming,
    opened_directory,
    walk_below,
    walk_open,
)
from tidegate.storage.store import file_rows

_NANOSECONDS_PER_MS: Final = 1_000_000
_KIND: Final = stat.S_IFMT(0o177777)
_Files = tuple[FileRow, ...]


def named_entries(path: LocalPath) -> list[NamedEntry]:
    """Name the direct children, in no order. Links are named as links.

    Raises: as `opened_directory`.
    """
    found: list[NamedEntry] = []
    with located(path), opened_directory(path) as directory, os.scandir(directory) as entries:
        for entry in entries:
            is_dir = entry.is_dir(follow_symlinks=False)
            is_link = not is_dir and entry.is_symlink()
            if is_dir or is_link or entry.is_file(follow_symlinks=False) or _exists(entry):
                found.append(NamedEntry(entry.name, is_dir, is_link))
    return found


def _exists(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of unknown kind exists: a device, a pipe, or on a file system without kinds.

    Raises:
        OSError: its status can't be read.
    """
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def files_of_each(parent: LocalPath, names: Iterable[str]) -> list[_Files | None]:
    """List all files below each of these directories of one parent, which is opened once.

    The files of a directory are sorted by name, level by level. Links are listed as links.

    Returns:
        The files for every name; None for a missing directory, and for all if the parent is
        missing.

    Raises:
        TooDeep: directories are nested deeper than MAX_DEPTH.
        ReachedByLink, ConfinementError: one of them, or a name on the way, is a link.
        OSError: a directory can't be read.
    """
    names = list(names)
    try:
        with located(parent), opened_directory(parent) as directory:
            return [_files_below(directory, parent, name) for name in names]
    except (FileNotFoundError, NotADirectoryError):
        return [None] * len(names)


def _files_below(parent: int, path: LocalPath, name: str) -> _Files | None:
    """The files below the directory `name` of the open directory `path`."""
    try:
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError:  # missing, a link or unreadable: walk_below distinguishes these
        found = walk_below(parent, path.child(name))
        return None if found is None else file_rows(found)
    try:
        files = None if len(path.names) >= MAX_DEPTH else _plain_files(directory)
        if files is None:
            return file_rows(walk_open(directory, path.child(name)))
    except OSError as error:
        raise naming(error, path.child(name)) from error
    finally:
        os.close(directory)
    return files


def _plain_files(directory: int) -> _Files | None:
    """The files in an open directory; None if it also has directories."""
    files: list[FileRow] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            kind = found.st_mode & _KIND
            if kind == stat.S_IFDIR:
                return None
            modified_ms = found.st_mtime_ns // _NANOSECONDS_PER_MS
            # the files of many directories share few names: keep one object per name
            name = sys.intern(entry.name)
            files.append((name, found.st_size, kind == stat.S_IFLNK, modified_ms))
    files.sort()
    return tuple(files)
