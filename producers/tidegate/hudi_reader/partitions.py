"""The partitions of a table and the files in them, found in parallel, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from tidegate.errors import FormatError
from tidegate.storage import NotFound, ParallelMap, Storage, join

_MARKER: Final = ".hoodie_partition_metadata"
_META_FOLDER: Final = ".hoodie"

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """A partition: its path relative to the table (empty if not partitioned), and its files.

    `sizes` maps the name of every file to its size in bytes.
    """

    path: str
    sizes: Mapping[str, int]


def list_partitions(
    storage: Storage, location: str, parallel_map: ParallelMap
) -> tuple[PartitionFiles, ...]:
    """Find every folder that Hudi marked as a partition, with its files, sorted by path.

    As in Hudi, a partition is a folder with a `.hoodie_partition_metadata` (with the extension of
    a base format or without), and partitions do not nest.

    Raises:
        FormatError: a folder contains a link, whose files may belong to another table; or a name is
            not UTF-8, so Hudi's metadata can't contain it.
    """
    read = partial(_read_folder, Storage(storage.options, storage.confined_to), location)
    found: list[PartitionFiles] = []
    level = [""]
    while level:
        level, above = [], level
        for partition, below in parallel_map.map(read, above):
            if partition is None:
                level += below
            else:
                found.append(partition)
    return tuple(sorted(found, key=lambda p: p.path))


def read_partitions(
    storage: Storage, location: str, paths: Sequence[str], parallel_map: ParallelMap
) -> tuple[PartitionFiles, ...]:
    """The partitions among these folders, with their files, in the same order.

    Raises: as `list_partitions`.
    """
    read = partial(_read_folder, Storage(storage.options, storage.confined_to), location)
    return tuple(found for found, _ in parallel_map.map(read, paths) if found is not None)


def _read_folder(
    storage: Storage, location: str, path: str
) -> tuple[PartitionFiles | None, list[str]]:
    """The folder, if it is a partition; and the paths of the folders in it."""
    try:
        entries = storage.list(join(location, path))
    except NotFound:
        # the partition was dropped after its parent was listed
        return None, []
    below = [e for e in entries if e.name != _META_FOLDER]
    links = [e.name for e in below if e.is_link]
    if links:
        raise FormatError(f"{path or location} contains links: {', '.join(links)}")
    strange = [e.name for e in below if not _is_utf_8(e.name)]
    if strange:
        raise FormatError(
            f"{path or location} contains names that are not UTF-8: {', '.join(strange)}"
        )
    folders = [join(path, e.name) if path else e.name for e in below if e.is_dir]
    files = {e.name: e.size for e in below if not e.is_dir}
    is_partition = any(name.startswith(_MARKER) for name in files)
    return PartitionFiles(path, files) if is_partition else None, folders


def _is_utf_8(name: str) -> bool:
    """Whether a name is UTF-8: Python turns other bytes of a name into lone surrogates."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
