"""Find the directory of a table or partition, and list its ACID directories with their files."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import partition_path
from tidegate.errors import ConfinementError, FormatError
from tidegate.hive.names import is_acid_name
from tidegate.hive.obsolete import DATA_FORMAT_FILE, DATA_FORMAT_LIMIT
from tidegate.storage import ListedFile, NotFound, ParallelMap, Storage, join, normalise
from tidegate.storage.file_info import MARKER_SUFFIX
from tidegate.tables.refusal import refusal_of
from tidegate.tables.warehouse import Warehouse


def location_of(warehouse: Warehouse, location: str, partition: str | None) -> str:
    """The directory of a table or partition, checked.

    Raises:
        Refused: it is not below the warehouse roots.
    """
    path = partition_path(partition)
    try:
        table = warehouse.roots.check(location)
        return warehouse.roots.check(join(table, path))
    except ConfinementError as error:
        raise refusal_of(error) from error


def read_acid_directories(
    storage: Storage, location: str, parallel_map: ParallelMap
) -> tuple[ListedDirectory, ...] | None:
    """List the ACID directories directly below a location, empty ones too, sorted by name.

    Everything else there (hidden directories, original files, an object store's markers) is left
    out, so it is never removed. None if the location does not exist.
    """
    try:
        entries = [entry for entry in storage.list(location) if is_acid_name(entry.name)]
    except NotFound:
        return None
    markers = {entry.name for entry in entries if entry.marks_directory}
    plain = [entry.name for entry in entries if entry.is_dir]
    listed = dict(zip(plain, storage.walk_each(location, plain, parallel_map), strict=True))
    parent = normalise(location).rstrip("/")
    found: list[ListedDirectory] = []
    for entry in entries:
        name, is_dir = entry.name, entry.is_dir
        files = listed.pop(name) if is_dir else ()  # pop: so that no list is in memory twice
        if files is not None and name not in markers:
            marked = bool(markers) and f"{name}{MARKER_SUFFIX}" in markers
            written_by = _data_format(storage, f"{parent}/{name}", files)
            found.append(ListedDirectory(name, parent, files, is_dir, marked, written_by))
    return tuple(found)


def _data_format(storage: Storage, where: str, files: Iterable[ListedFile]) -> bytes | None:
    """The content of a directory's `_metadata_acid`; empty if the file can't be Hive's."""
    if not any(file.name == DATA_FORMAT_FILE and not file.is_link for file in files):
        return None
    try:
        return storage.read(join(where, DATA_FORMAT_FILE), DATA_FORMAT_LIMIT)
    except NotFound:  # the file is in a directory below, or was removed meanwhile
        return None
    except FormatError:
        return b""
