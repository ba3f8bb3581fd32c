"""The commits that completed on a Hudi table, for writers that do not know their instants."""

from __future__ import annotations

import os
from collections.abc import Collection

from tidegate.errors import FormatError, InvalidEventError
from tidegate.events import CommitCompleted, table_identity
from tidegate.hudi.instant import Instant
from tidegate.hudi_reader.commits import commit_of, completion_of
from tidegate.hudi_reader.table import HudiTable, NoSuchTable, load_table
from tidegate.storage import Storage, normalise


def checked(table: str, location: str | os.PathLike[str]) -> tuple[str, str]:
    """The table's name and its location, normalised before anything is read.

    Raises:
        InvalidEventError: one of them is invalid.
    """
    try:
        return table_identity(table), normalise(os.fspath(location))
    except FormatError as error:
        raise InvalidEventError(str(error)) from error


def completed_writes(location: str) -> frozenset[str]:
    """The instants of the completed writes; empty where there is not a table yet."""
    try:
        found = load_table(Storage(), location)
    except NoSuchTable:
        return frozenset()
    return frozenset(write.timestamp for write in found.timeline.completed_writes)


def completed_since(
    known: Collection[str], table: str, location: str, source: str
) -> list[CommitCompleted]:
    """The events of the completed writes that are not known, in the order of their completion.

    Raises:
        NoSuchTable: there is no table.
        InvalidEventError: the table's name or the location does not fit an event.
    """
    found = load_table(Storage(), location)
    writes = [write for write in found.timeline.completed_writes if write.timestamp not in known]
    writes.sort(key=completion_of)
    events = (commit_of(found, write, name=table, source=source) for write in writes)
    return [event for event in events if event is not None]


def completed_commit(table: str, location: str, instant: str, source: str) -> CommitCompleted | str:
    """The event of a completed write, or why that can't be read off the table's timeline.

    Raises:
        NoSuchTable: there is no table.
        InvalidEventError: no write of this instant has completed, or the name or the location
            does not fit an event.
    """
    found = load_table(Storage(), location)
    timeline = found.timeline
    if (write := timeline.completed_write(instant)) is not None:
        event = commit_of(found, write, name=table, source=source)
        return event or f"{write.timestamp} was archived or rolled back meanwhile"
    if timeline.start is not None and instant < timeline.start:
        return f"the timeline begins later, with {timeline.start}: it is archived, or wrong"
    newest = _newest(found)
    known = f"; the newest is {newest.timestamp}" if newest else ""
    raise InvalidEventError(
        f"no write {instant} has completed on the timeline of {found.location}{known}"
    )


def latest_commit(table: str, location: str, source: str) -> CommitCompleted:
    """The event of the write that completed last.

    Raises:
        NoSuchTable: there is no table.
        InvalidEventError: no write has completed, or the name or the location does not fit an
            event.
    """
    found = load_table(Storage(), location)
    newest = _newest(found)
    event = None if newest is None else commit_of(found, newest, name=table, source=source)
    if event is None:
        raise InvalidEventError(f"no write has completed on the timeline of {location}")
    return event


def _newest(table: HudiTable) -> Instant | None:
    """The write that completed last."""
    return max(table.timeline.completed_writes, key=completion_of, default=None)
