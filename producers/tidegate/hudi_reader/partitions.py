"""The partitions of a table and the files in them, found side by side, level by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from tidegate.errors import FormatError
from tidegate.storage import NotFound, Storage, join

_MARKER: Final = ".hoodie_partition_metadata"
_META_FOLDER: Final = ".hoodie"

T = TypeVar("T")
R = TypeVar("R")


class Mapper(Protocol):
    """What lists many folders at once; `tidegate.fanout` has them."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` to each item; the results in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by its path below the table (empty for a non-partitioned one), and its files.

    `sizes` maps the name of each file to its bytes.
    """

    path: str
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    is_partition: bool
    sizes: dict[str, int]
    folders: tuple[str, ...]


def list_partitions(storage: Storage, location: str, mapper: Mapper) -> tuple[Partition, ...]:
    """Find every folder that Hudi marked as a partition, with its files, sorted by path.

    As in Hudi, a partition is a folder with a `.hoodie_partition_metadata` (with the extension of
    a base format or without), and partitions do not nest.

    Raises:
        FormatError: a folder is reached through a link, whose files can't be told apart from
            another table's; or a name is not UTF-8, as all of Hudi's metadata must be.
    """
    look = partial(_look, Storage(storage.options), location)
    found: list[Partition] = []
    level: Sequence[str] = [""]
    while level:
        folders = mapper.map(look, level)
        found += [Partition(f.path, f.sizes) for f in folders if f.is_partition]
        level = [name for f in folders if not f.is_partition for name in f.folders]
    return tuple(sorted(found, key=lambda p: p.path))


def _look(storage: Storage, location: str, path: str) -> _Folder:
    try:
        entries = storage.list(join(location, path))
    except NotFound:
        # a partition that was dropped since its parent was listed
        return _Folder(path, is_partition=False, sizes={}, folders=())
    below = [e for e in entries if e.name != _META_FOLDER]
    links = [e.name for e in below if e.is_link]
    if links:
        raise FormatError(f"{path or location} holds links: {', '.join(links)}")
    strange = [e.name for e in below if not _is_utf_8(e.name)]
    if strange:
        raise FormatError(f"{path or location} holds names that are not UTF-8: {strange}")
    return _Folder(
        path,
        is_partition=any(e.name.startswith(_MARKER) for e in below if not e.is_dir),
        sizes={e.name: e.size for e in below if not e.is_dir},
        folders=tuple(join(path, e.name) if path else e.name for e in below if e.is_dir),
    )


def _is_utf_8(name: str) -> bool:
    """Whether a name was UTF-8: Python keeps other bytes of a name as lone surrogates."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
