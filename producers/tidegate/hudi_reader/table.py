"""The current properties and timeline of a Hudi table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.errors import FormatError, TidegateError
from tidegate.hudi import (
    CommitMetadata,
    Instant,
    InstantState,
    Layout,
    TableProperties,
    Timeline,
    instant_of_ms,
)
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
    by_name: Mapping[str, Instant | None] = field(repr=False, compare=False)
    """The instant of every name in that folder; None: the name is not an instant's."""

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
        """Read the same table again; known names are not parsed again."""
        return load_table(self.storage, self.location, self)


def load_table(storage: Storage, location: str, before: HudiTable | None = None) -> HudiTable:
    """Read a table's properties and timeline.

    Args:
        storage: The table's storage.
        location: The table's base path.
        before: The same table at an earlier moment.

    Raises:
        NoSuchTable: there is no `.hoodie/hoodie.properties`.
        FormatError: a file of the table is malformed.
    """
    where = normalise(location)
    properties = TableProperties.parse(read_properties(storage, where))
    known = before if before and before.properties.layout is properties.layout else None
    try:
        found = _named(storage, where, properties, known.by_name if known else {})
    except NotFound as error:
        raise FormatError(f"{location} has no timeline: {error} does not exist") from error
    if known and found == known.by_name:
        return replace(known, storage=storage, properties=properties)
    files = tuple(instant for instant in found.values() if instant is not None)
    return HudiTable(storage, where, properties, Timeline.of(files), files, found)


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


def _named(
    storage: Storage,
    location: str,
    properties: TableProperties,
    known: Mapping[str, Instant | None],
) -> dict[str, Instant | None]:
    """The instants of the names in the timeline's folder."""
    folder = join(location, properties.timeline_folder)
    if properties.layout is not Layout.ONE:
        return _parsed(sorted(storage.names(folder)), properties.layout, known)
    entries = storage.list(folder)
    found = _parsed([entry.name for entry in entries], Layout.ONE, known)
    for entry in entries:
        instant = found[entry.name]
        if instant is not None and instant.state is InstantState.COMPLETED:
            # in layout 1, Hudi uses the modification time as the completion time
            moment = instant_of_ms(entry.modified_ms, properties.zone)
            if instant.completion != moment:
                found[entry.name] = replace(instant, completion=moment)
    return found


def _parsed(
    names: Sequence[str], layout: Layout, known: Mapping[str, Instant | None]
) -> dict[str, Instant | None]:
    return {name: known[name] if name in known else _instant(name, layout) for name in names}


def _instant(name: str, layout: Layout) -> Instant | None:
    instant = Instant.parse(name, layout)
    # a draft that a process has not renamed, or died before it could; Hudi ignores drafts, too
    is_strange = instant is None and _INSTANT_PREFIX.match(name)
    if is_strange and not _DRAFT.fullmatch(name):
        raise FormatError(f"{name} is not an instant of layout {layout}")
    return instant
