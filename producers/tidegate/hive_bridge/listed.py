"""Pick the ACID directories from a listing, and the bases that compactions wrote."""

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
    """The names that begin like those of ACID directories; links are included.

    Object stores' directory markers are left out. They are files next to the directories, carry no
    information of their own, and may remain after a directory is removed.
    """
    return [entry.name for entry in entries if is_acid_name(entry.name) and not _is_marker(entry)]


def compacted_bases(storage: Storage, where: str, names: Iterable[str]) -> frozenset[str]:
    """The bases that a compaction wrote, without a transaction id in their names.

    Raises:
        FormatError: the metadata file in a base is not Hive's.
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
