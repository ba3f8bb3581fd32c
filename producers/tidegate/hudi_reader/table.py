"""The current properties and timeline of a Hudi table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from tidegate.errors import FormatError, TidegateError
from tidegate.hudi.commit import CommitMetadata
from tidegate.hudi.instant import Instant, InstantState, Layout, instant_of_ms
from tidegate.hudi.properties import TableProperties
from tidegate.hudi.timeline import Timeline
from tidegate.storage import NotFound, ParallelMap, Storage, join, normalise

PROPERTIES: Final = ".hoodie/hoodie.properties"
_BACKUP: Final = f"{PROPERTIES}.backup"
_MAX_PROPERTIES: Final = 1024 * 1024
_DRAFT: Final = re.compile(r".*\.(?:tmp|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""Hudi writes a file of the timeline as `<name>.<UUID>`, then renames it."""
_INSTANT_PREFIX: Final = re.compile(r"\d{14}")


class NoSuchTable(TidegateError):  # noqa: N818 - an expected result, not a fault
    """There is no Hudi table at this location. The catcher refuses the command."""


@dataclass(frozen=True)
class HudiTable:
    """A table at one moment. `files` are the instants of the files in its timeline's folder."""

    storage: Storage
    location: str
    properties: TableProperties
    timeline: Timeline
    files: tuple[Instant, ...]

    def path_of(self, instant: Instant) -> str:
        """The path of the file of an instant, whether or not it exists."""
        name = instant.file_name(self.properties.layout)
        return join(self.location, self.properties.timeline_folder, name)

    def read(self, instant: Instant) -> bytes:
        """Read the file of an instant.

        Raises:
            NotFound: the file does not exist, or no longer.
        """
        return self.storage.read(self.path_of(instant))

    def read_commit(self, instant: Instant) -> CommitMetadata:
        """Read the metadata of a completed write.

        Raises:
            NotFound: the file does not exist, or no longer.
            FormatError: the file can't be read; the message names the instant.
        """
        return _decoded(instant, self.read(instant))

    def read_commits(
        self, instants: Sequence[Instant], parallel_map: ParallelMap
    ) -> list[CommitMetadata]:
        """Read the metadata of completed writes; only the reads are parallel.

        Raises: as `read_commit`.
        """
        contents = parallel_map.map(self.storage.read, [self.path_of(i) for i in instants])
        return list(map(_decoded, instants, contents))

    def writes_after(self, savepoint: Instant) -> tuple[Instant, ...]:
        """The writes that a restore to a savepointed commit rolls back, in its order."""
        return self.timeline.completed_after(savepoint, self.properties.rolled_back_by_request)

    def reloaded(self) -> HudiTable:
        """Read the same table again."""
        return load_table(self.storage, self.location)


def load_table(storage: Storage, location: str) -> HudiTable:
    """Read a table's properties and timeline.

    Raises:
        NoSuchTable: there is no `.hoodie/hoodie.properties`.
        FormatError: a file of the table is malformed.
    """
    where = normalise(location)
    properties = TableProperties.parse(read_properties(storage, where))
    try:
        files = _instants(storage, where, properties)
    except NotFound as error:
        raise FormatError(f"{location} has no timeline: {error} does not exist") from error
    return HudiTable(storage, where, properties, Timeline.of(files), files)


def read_properties(storage: Storage, location: str) -> bytes:
    """Read `hoodie.properties`, or the backup that Hudi has while it rewrites the file.

    Raises:
        NoSuchTable: neither exists.
    """
    for name in (PROPERTIES, _BACKUP):
        try:
            return storage.read(join(location, name), _MAX_PROPERTIES)
        except NotFound:
            continue
    raise NoSuchTable(f"there is no Hudi table at {location}: it has no {PROPERTIES}")


def _decoded(instant: Instant, content: bytes) -> CommitMetadata:
    try:
        return CommitMetadata.decode(content)
    except FormatError as error:
        raise FormatError(f"{instant.timestamp}.{instant.action}: {error}") from error


def _instants(storage: Storage, location: str, properties: TableProperties) -> tuple[Instant, ...]:
    """The instants of the files in the timeline's folder."""
    folder, layout = join(location, properties.timeline_folder), properties.layout
    if layout is not Layout.ONE:
        found = (_instant(name, layout) for name in sorted(storage.names(folder)))
        return tuple(filter(None, found))
    files = list[Instant]()
    for entry in storage.list(folder):
        if instant := _instant(entry.name, layout):
            if instant.state is InstantState.COMPLETED:
                # in layout 1, Hudi uses the modification time as the completion time
                moment = instant_of_ms(entry.modified_ms, properties.zone)
                instant = replace(instant, completion=moment)
            files.append(instant)
    return tuple(files)


@lru_cache(maxsize=100_000)
def _instant(name: str, layout: Layout) -> Instant | None:
    """The instant of a name; None: it is not an instant's. A timeline is read again and again."""
    instant = Instant.parse(name, layout)
    # a draft that a process has not renamed, or died before it could; Hudi ignores drafts, too
    is_strange = instant is None and _INSTANT_PREFIX.match(name)
    if is_strange and not _DRAFT.fullmatch(name):
        raise FormatError(f"{name} is not an instant of layout {layout}")
    return instant
