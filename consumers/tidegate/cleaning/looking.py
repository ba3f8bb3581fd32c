"""The cleaner's look at a table's or partition's directory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.cleaning.listing import ListedDirectory, ListedFile
from tidegate.fanout import FanOut
from tidegate.hive import is_acid_name
from tidegate.storage import Entry, NotFound, Storage


def look(storage: Storage, location: str, fan_out: FanOut) -> tuple[ListedDirectory, ...] | None:
    """List the ACID directories directly below a location, empty ones too, sorted by name.

    Everything else there (hidden directories, original files) is left out, and so stays. None if
    there is no such location.
    """
    try:
        entries = [entry for entry in storage.list(location) if is_acid_name(entry.name)]
    except NotFound:
        return None
    plain = [entry for entry in entries if entry.is_dir and not entry.is_link]
    contents: Sequence[tuple[ListedFile, ...] | None]
    contents = fan_out.map(partial(_contents, storage), [entry.path for entry in plain])
    files = {entry.path: found for entry, found in zip(plain, contents, strict=True)}
    listed = [_listed(entry, files.get(entry.path, ())) for entry in entries]
    return tuple(each for each in listed if each is not None)


def _listed(entry: Entry, files: tuple[ListedFile, ...] | None) -> ListedDirectory | None:
    if files is None:
        return None
    plain = entry.is_dir and not entry.is_link
    return ListedDirectory(entry.name, entry.path, files, is_plain=plain)


def _contents(storage: Storage, path: str) -> tuple[ListedFile, ...] | None:
    """List the files; None where another process removed the directory meanwhile."""
    try:
        found = list(storage.walk(path))
    except NotFound:
        return None
    return tuple(ListedFile(entry.name, entry.size, entry.is_link) for entry in found)
