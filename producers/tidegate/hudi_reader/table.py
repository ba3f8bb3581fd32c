"""A Hudi table as it is now: its properties and its timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tidegate.errors import FormatError, TidegateError
from tidegate.hudi import (
    COMPACTIONS,
    Action,
    CommitMetadata,
    Instant,
    InstantState,
    Layout,
    TableProperties,
    Timeline,
    instant_of_ms,
)
from tidegate.storage import FileInfo, NotFound, Storage, join, normalise

PROPERTIES: Final = ".hoodie/hoodie.properties"
_BACKUP: Final = f"{PROPERTIES}.backup"
_MAX_PROPERTIES: Final = 1024 * 1024
_DRAFT: Final = ".tmp"
_LOOKS_LIKE_AN_INSTANT: Final = re.compile(r"\d{14}")


class NoSuchTable(TidegateError):  # noqa: N818 - an expected result, not a fault
    """There is no Hudi table at this location. The catcher refuses the command."""


@dataclass(frozen=True)
class HudiTable:
    """A table at one moment. `files` are the names in its timeline's folder."""

    storage: Storage
    location: str
    properties: TableProperties
    timeline: Timeline
    files: tuple[Instant, ...]

    def path_of(self, instant: Instant) -> str:
        """Where the file of an instant is, or would be."""
        name = instant.file_name(self.properties.layout)
        return join(self.location, self.properties.timeline_folder, name)

    def read(self, instant: Instant) -> bytes:
        """Read the file of an instant.

        Raises:
            NotFound: it does not exist, or not any more.
        """
        return self.storage.read(self.path_of(instant))

    def read_commit(self, instant: Instant) -> CommitMetadata:
        """Read the metadata of a completed write.

        Raises:
            NotFound: it does not exist, or not any more.
            FormatError: it can't be read; the message names the instant.
        """
        try:
            return CommitMetadata.decode(self.read(instant))
        except FormatError as error:
            raise FormatError(f"{instant.timestamp}.{instant.action}: {error}") from error

    def writes_after(self, savepoint: Instant) -> tuple[Instant, ...]:
        """The writes that a restore to a savepointed commit rolls back, in its order."""
        by_request = COMPACTIONS if self.properties.is_merge_on_read else frozenset[Action]()
        return self.timeline.completed_after(savepoint, by_request)

    def reloaded(self) -> HudiTable:
        """Read the same table again."""
        return load_table(self.storage, self.location)


def load_table(storage: Storage, location: str) -> HudiTable:
    """Read a table's properties and timeline.

    Raises:
        NoSuchTable: there is no `.hoodie/hoodie.properties`.
        FormatError: a file of the table breaks its format.
    """
    where = normalise(location)
    properties = TableProperties.parse(read_properties(storage, where))
    try:
        entries = storage.list(join(where, properties.timeline_folder))
    except NotFound as error:
        raise FormatError(f"{location} has no timeline: {error} does not exist") from error
    files = tuple(_instants(entries, properties))
    return HudiTable(storage, where, properties, Timeline.of(files), files)


def read_properties(storage: Storage, location: str) -> bytes:
    """Read `hoodie.properties`, or the copy that Hudi keeps while it rewrites them.

    Raises:
        NoSuchTable: neither exists.
    """
    for name in (PROPERTIES, _BACKUP):
        try:
            return storage.read(join(location, name), _MAX_PROPERTIES)
        except NotFound:
            continue
    raise NoSuchTable(f"there is no Hudi table at {location}: it has no {PROPERTIES}")


def _instants(entries: list[FileInfo], properties: TableProperties) -> Iterator[Instant]:
    for entry in entries:
        instant = Instant.parse(entry.name, properties.layout)
        if instant is None:
            # what a process that died had not renamed yet: Hudi ignores these too
            if _LOOKS_LIKE_AN_INSTANT.match(entry.name) and not entry.name.endswith(_DRAFT):
                raise FormatError(f"{entry.name} is not an instant of layout {properties.layout}")
        elif properties.layout is Layout.ONE and instant.state is InstantState.COMPLETED:
            # Hudi takes the modification time for the completion time of layout 1
            moment = instant_of_ms(entry.modified_ms, properties.zone)
            yield replace(instant, completion=moment)
        else:
            yield instant
