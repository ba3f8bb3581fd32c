"""List the ACID directories of a table or partition, with their files."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.cleaning.listing import ListedDirectory, ListedFile
from tidegate.hive import MARKER_SUFFIX, is_acid_name
from tidegate.storage import FileInfo, NotFound, ParallelMap, Storage


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
    markers = {entry.name for entry in entries if _is_marker(entry)}
    entries = [entry for entry in entries if entry.name not in markers]
    plain = [entry.name for entry in entries if entry.is_dir and not entry.is_link]
    contents = storage.walk_each(location, plain, parallel_map)
    files = dict(zip(plain, contents, strict=True))
    listed = [_listed(entry, files.get(entry.name, ()), markers) for entry in entries]
    return tuple(each for each in listed if each is not None)


def listed_files(found: Iterable[FileInfo]) -> tuple[ListedFile, ...]:
    """The files of a directory as a plan has them, in the order of the listing."""
    return tuple(
        ListedFile(entry.name, entry.size, entry.is_link, entry.modified_ms) for entry in found
    )


def _is_marker(entry: FileInfo) -> bool:
    return entry.name.endswith(MARKER_SUFFIX) and not entry.is_dir and not entry.is_link


def _listed(
    entry: FileInfo, files: Iterable[FileInfo] | None, markers: set[str]
) -> ListedDirectory | None:
    if files is None:
        return None
    return ListedDirectory(
        entry.name,
        entry.path,
        listed_files(files),
        is_plain=entry.is_dir and not entry.is_link,
        has_marker=f"{entry.name}{MARKER_SUFFIX}" in markers,
    )
