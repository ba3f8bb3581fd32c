"""Read Hudi's metadata table, as needed to undo instants in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tidegate.errors import FormatError
from tidegate.hudi import (
    COMMITS,
    Action,
    Instant,
    InstantState,
    Layout,
    WriteStat,
    merged_files,
)
from tidegate.hudi_reader import HudiTable, load_table
from tidegate.hudi_reader.table import NoSuchTable
from tidegate.restores.metadata_undo import SeenMetadataTable, Unprovable
from tidegate.storage import FileInfo, NotFound, Storage, join

_META_FOLDER: Final = ".hoodie"


def read_metadata_table(storage: Storage, location: str) -> SeenMetadataTable:
    """Read a metadata table.

    Args:
        storage: The storage of the metadata table.
        location: The base path of the metadata table.

    Raises:
        Unprovable: it is damaged, or has files that a metadata table does not have.
    """
    try:
        table = load_table(storage, location)
        if table.properties.layout is not Layout.TWO or not table.properties.is_merge_on_read:
            raise Unprovable("it is not of table version 8 or 9")
        folders = _folders(table)
        completed = [i for i in table.files if i.state is InstantState.COMPLETED]
        return SeenMetadataTable(
            files=table.files,
            partitions={
                name: frozenset(entry.name for entry in entries)
                for name, entries in folders.items()
                if name != _META_FOLDER
            },
            merged=_merged(table, completed),
            written={i.timestamp: _written(table, i) for i in completed if i.action in COMMITS},
            digest=_digest(folders.items()),
        )
    except NoSuchTable as error:
        raise Unprovable("it is declared but missing") from error
    except (FormatError, NotFound) as error:
        raise Unprovable(f"it can't be read ({error})") from error


def digest_of(storage: Storage, location: str) -> str | None:
    """The current `SeenMetadataTable.digest` of a metadata table; None if it can't be read."""
    try:
        return _digest(_folders(load_table(storage, location)).items())
    except (FormatError, NotFound, NoSuchTable, Unprovable):
        return None


def _folders(table: HudiTable) -> dict[str, list[FileInfo]]:
    """The files in every partition; for `.hoodie`, the files of the timeline."""
    found = dict[str, list[FileInfo]]()
    for folder in table.storage.list(table.location):
        is_meta = folder.name == _META_FOLDER
        if folder.is_dir:
            below = join(table.location, table.properties.timeline_folder)
            entries = table.storage.list(below if is_meta else folder.path)
            if not is_meta and any(entry.is_dir or entry.is_link for entry in entries):
                raise Unprovable(f"its partition {folder.name} has folders or links")
            found[folder.name] = [entry for entry in entries if not entry.is_dir]
        elif folder.is_link:
            raise Unprovable(f"{folder.name} in it is a link")
    return found


def _merged(
    table: HudiTable, completed: Iterable[Instant]
) -> dict[str, frozenset[tuple[str, str]]]:
    found = dict[str, frozenset[tuple[str, str]]]()
    for instant in completed:
        if instant.action is Action.COMMIT:
            requested = Instant(instant.timestamp, Action.COMPACTION, InstantState.REQUESTED)
            with suppress(NotFound):
                found[instant.timestamp] = merged_files(table.read(requested))
    return found


def _written(table: HudiTable, instant: Instant) -> tuple[WriteStat, ...]:
    return table.read_commit(instant).writes


def _digest(folders: Iterable[tuple[str, list[FileInfo]]]) -> str:
    names = sorted((folder, file.name, file.size) for folder, files in folders for file in files)
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
