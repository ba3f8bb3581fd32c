"""Which entries of a table's directory are ACID directories, and which bases compactions wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tidegate.hive import (
    DATA_FORMAT_FILE,
    DATA_FORMAT_LIMIT,
    MARKER_SUFFIX,
    is_acid_name,
    is_of_compaction,
)
from tidegate.storage import FileInfo, NotFound, Storage, join

_PLAIN_BASE: Final = re.compile("base_[0-9]+")


def acid_names(entries: Iterable[FileInfo]) -> list[str]:
    """The names that begin as those of ACID directories do, links too.

    An object store's markers are left out: they are files beside the directories, say nothing that
    those do not, and may be left where a directory is gone.
    """
    return [entry.name for entry in entries if is_acid_name(entry.name) and not _is_marker(entry)]


def compacted_bases(storage: Storage, where: str, names: Iterable[str]) -> frozenset[str]:
    """The bases in a directory that a compaction wrote though their names do not say so.

    Raises:
        FormatError: the file that says what wrote a base is not Hive's.
        TransientError, OSError: the store did not answer.
    """
    plain = (name for name in names if _PLAIN_BASE.fullmatch(name))
    return frozenset(name for name in plain if _is_compacted(storage, join(where, name)))


def _is_compacted(storage: Storage, base: str) -> bool:
    try:
        return is_of_compaction(storage.read(join(base, DATA_FORMAT_FILE), DATA_FORMAT_LIMIT))
    except NotFound:
        return False


def _is_marker(entry: FileInfo) -> bool:
    return entry.name.endswith(MARKER_SUFFIX) and not entry.is_dir and not entry.is_link
