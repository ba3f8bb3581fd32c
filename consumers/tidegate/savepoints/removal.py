"""Remove a savepoint from the timeline, in the order of Hudi's delete_savepoint.

The completed file is removed first; then the savepoint is pending and protects no file. The
inflight file is removed last. Every step can be repeated.

A copy of the completed file stays next to the timeline until another task removes a savepoint. It
undoes the removal if a restore begins meanwhile. And it is the smallest record from which a repeat
of the task, whose worker died, can report what is gone: the timeline shows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidegate.errors import FormatError, TransientError
from tidegate.events import (
    SavepointMark,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    derived_id,
)
from tidegate.events.fields import elapsed_ms
from tidegate.events.reasons import Reason
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.table import HudiTable
from tidegate.savepoints.further_requests import forget_further_requests, holder_of
from tidegate.savepoints.lookup import made_at, pinned_by, read_savepoints, superseded_files
from tidegate.storage import NotFound, ParallelMap, Storage, join
from tidegate.tables.claim import HUDI
from tidegate.tables.hudi import TimelineWriter, open_table, refusing_unreadable
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_FOLDER: Final = f"{HUDI}/savepoint-removal"
_BY_PEOPLE: Final = f"{HUDI}/savepoints-removed"
Ended = tuple[str | None, timedelta | None]
"""The policy and the lifetime in the mark of a savepoint that a check may remove."""


def remove_savepoint(  # noqa: PLR0913 - the last two by name
    command: SavepointRemovalRequested,
    warehouse: Warehouse,
    clock: Callable[[], datetime],
    source: str,
    *,
    ended: Ended | None = None,
    claim: AnyClaim = NO_CLAIM,
) -> SavepointRemoved | SavepointRemovalRejected:
    """Remove a savepoint, or return a rejection.

    A repeated request reports what its first attempt removed: a new savepoint that was made on the
    same commit meanwhile stays. `ended`: a check ended the savepoint, no person asks for it.

    Raises:
        TransientError: a file was removed while it was being read, or the savepoint was written
            again meanwhile.
    """
    try:
        with refusing_unreadable():
            return _Remover(warehouse, clock, source, ended, claim).remove(command)
    except Refused as refused:
        fields = {"source": source, "occurred_at": clock(), "instant": command.instant}
        return SavepointRemovalRejected.about(command, **fields, **refused.fields)


@dataclass(frozen=True, slots=True)
class _Remover:
    warehouse: Warehouse
    clock: Callable[[], datetime]
    source: str
    ended: Ended | None
    claim: AnyClaim

    def remove(self, command: SavepointRemovalRequested) -> SavepointRemoved:
        began = self.clock()
        table = open_table(self.warehouse, command.location, command.table)
        task = command.event_id if self.ended is None else str(command.caused_by)
        backup = _Backup(self.warehouse, _folder_of(self.warehouse, table, task), command.instant)
        found, content = table.timeline.find(Action.SAVEPOINT, command.instant), backup.read()
        was_there = found is not None or content is not None
        if found is not None and not _is_another(table, found, content):
            content = self._carry_out(command, table, found, backup)
        if was_there:
            forget_further_requests(self.warehouse, table.location, command.instant)
            if self.ended is None:
                record_removed(self.warehouse, table, command.instant)
        ended = self.clock()
        return SavepointRemoved.about(
            command,
            source=self.source,
            occurred_at=ended,
            instant=command.instant,
            savepoints_left=len(table.reloaded().timeline.savepoints),
            duration_ms=elapsed_ms(began, ended),
            already_gone=not was_there,
            **({} if content is None else _described(content[1])),
        )

    def _carry_out(
        self, command: SavepointRemovalRequested, table: HudiTable, found: Instant, backup: _Backup
    ) -> tuple[str, bytes] | None:
        """Remove both files; return the completed file's name and content, if there was one."""
        writer = TimelineWriter(self.warehouse, table, self.clock)
        kept = backup.read()
        self.claim.check()
        if kept is None or found.state is InstantState.COMPLETED:
            content = _checked_content(table, found, self.ended, self.clock())
            kept = self._unpublish(writer, found, content, backup)
        try:
            check_no_restore(table.reloaded().timeline)
            if self.ended is not None:
                check_claims(table, command.instant, self.clock())
        except (Refused, FormatError, TransientError):
            # a restore began, or a person's request for the savepoint found it there
            if kept is not None:
                writer.begin(_completed(table, kept[0]), kept[1])
            raise
        self.claim.check()
        writer.remove([_inflight(found)])
        if table.reloaded().timeline.find(Action.SAVEPOINT, command.instant) is not None:
            raise TransientError(f"savepoint {command.instant} was written again meanwhile")
        return kept

    def _unpublish(
        self, writer: TimelineWriter, savepoint: Instant, content: bytes | None, backup: _Backup
    ) -> tuple[str, bytes] | None:
        """Turn a completed savepoint into a pending one; `content` is None if it is pending."""
        if content is None:
            return None
        kept = writer.table.path_of(savepoint).rpartition("/")[2], content
        backup.write(*kept)
        writer.begin(_inflight(savepoint))
        with suppress(NotFound):  # another attempt removed it: only the inflight file is left
            if writer.table.read(savepoint) != content:
                # in layout 1 a new savepoint of the same commit has the same file name
                raise TransientError(f"savepoint {savepoint.timestamp} was made anew meanwhile")
        self.claim.check()
        writer.remove([savepoint])
        return kept


@dataclass(frozen=True, slots=True)
class _Backup:
    """A copy of the completed file of a savepoint, for its removal: name and content."""

    warehouse: Warehouse
    folder: str
    """One for all removals of a task."""
    instant: str

    def read(self) -> tuple[str, bytes] | None:
        try:
            name, _, content = self.warehouse.read(self._path).partition(b"\n")
        except NotFound:
            return None
        return name.decode("latin-1"), content

    def write(self, name: str, content: bytes) -> None:
        """Write the copy, and remove those of earlier tasks."""
        if self.read() == (name, content):
            return
        # a copy from a refused attempt may be of an earlier savepoint
        self.warehouse.remove_files([self._path])
        with suppress(AlreadyExists):  # another worker of this task copies the same file
            self.warehouse.create(self._path, name.encode() + b"\n" + content)
        for folder in self.warehouse.list(self.folder.rpartition("/")[0]):
            if folder.path != self.folder:
                self.warehouse.remove_tree(folder.path)

    @property
    def _path(self) -> str:
        return join(self.folder, f"{self.instant}.savepoint")


def removals_begun(warehouse: Warehouse, table: HudiTable, task: str) -> frozenset[str]:
    """The savepoints whose removal a check has begun, by the id of its command."""
    try:
        names = warehouse.names(_folder_of(warehouse, table, task))
    except NotFound:
        return frozenset()
    return frozenset(name.removesuffix(".savepoint") for name in names)


def _folder_of(warehouse: Warehouse, table: HudiTable, task: str) -> str:
    return warehouse.roots.check(join(table.location, _FOLDER, derived_id("removal", task)))


def _is_another(table: HudiTable, found: Instant, removed: tuple[str, bytes] | None) -> bool:
    """Whether a completed savepoint is not the one that an earlier attempt removed."""
    if found.state is not InstantState.COMPLETED or removed is None:
        return False
    return removed != (table.path_of(found).rpartition("/")[2], table.read(found))


def record_removed(warehouse: Warehouse, table: HudiTable, instant: str) -> None:
    """Record that a person removed a savepoint: no policy makes it again. Forgets archived ones."""
    folder = join(table.location, _BY_PEOPLE)
    with suppress(AlreadyExists):
        warehouse.create(warehouse.roots.check(join(folder, instant)), b"")
    start = table.timeline.start or ""
    known = removed_by_people(warehouse, table.location)
    warehouse.remove_files([join(folder, name) for name in sorted(known) if name < start])


def removed_by_people(storage: Storage, location: str) -> frozenset[str]:
    """The commits whose savepoint a person removed."""
    try:
        return frozenset(storage.names(join(location, _BY_PEOPLE)))
    except NotFound:
        return frozenset()


def _completed(table: HudiTable, name: str) -> Instant:
    """The completed savepoint with this file name.

    Raises:
        FormatError: it is not the name of a savepoint's file.
    """
    instant = Instant.parse(name, table.properties.layout)
    if instant is None or instant.action is not Action.SAVEPOINT:
        raise FormatError(f"{name} is not the name of a completed savepoint")
    return replace(instant, state=InstantState.COMPLETED)


def _described(content: bytes) -> dict[str, object]:
    metadata = SavepointMetadata.decode(content)
    mark, _ = SavepointMark.parse(metadata.comment)
    return {
        "policy": mark.policy if mark else None,
        "tiers": mark.tiers if mark else (),
        "made_by": metadata.by or None,
        "made_at": made_at(metadata),
        "files": metadata.file_count,
    }


def _inflight(savepoint: Instant) -> Instant:
    return Instant(savepoint.timestamp, Action.SAVEPOINT, InstantState.INFLIGHT)


def _checked_content(
    table: HudiTable, savepoint: Instant, ended: Ended | None, now: datetime
) -> bytes | None:
    """The completed file of a savepoint that may be removed; None: it is not completed.

    `ended`: a check ended the savepoint, no person asks for it.

    Raises:
        Refused: the savepoint may not be removed.
        FormatError: a savepoint's file can't be read.
        NotFound: the savepoint was removed meanwhile.
    """
    check_no_restore(table.timeline)
    is_complete = savepoint.state is InstantState.COMPLETED
    content = table.read(savepoint) if is_complete else None
    if ended is not None:
        _check_maker(savepoint.timestamp, content, ended)
        check_claims(table, savepoint.timestamp, now)
    return content


def check_claims(table: HudiTable, instant: str, now: datetime) -> None:
    """Check that no person has a claim on this savepoint.

    Raises:
        Refused: a person has a claim.
        FormatError: a claim can't be read, so it may still apply.
        TransientError: a claim was removed during the read.
    """
    claim = holder_of(table.storage, table.location, instant, now)
    if claim is None:
        return
    until = "" if claim.until is None else f" until {claim.until:%Y-%m-%dT%H:%M:%SZ}"
    raise Refused(
        Reason.NOT_OF_POLICY if claim.until is None else Reason.CLAIMED,
        f"{claim.by} also requested savepoint {instant} and wants it kept{until}",
    )


def check_no_restore(timeline: Timeline) -> None:
    """Check that no restore may need a savepoint.

    Raises:
        Refused: a restore is pending.
    """
    if timeline.pending_restores:
        raise Refused(Reason.RESTORE_PENDING, "a restore of this table has not completed yet")


def _check_maker(at: str, content: bytes | None, ended: Ended) -> None:
    """Check with the savepoint's own file that it is the one that the check ended."""
    if content is None:
        raise Refused(
            Reason.SAVEPOINT_INCOMPLETE,
            f"savepoint {at} was never completed, so its maker is unknown",
        )
    metadata = SavepointMetadata.decode(content)
    mark, _ = SavepointMark.parse(metadata.comment)
    if mark is None or (mark.policy, mark.lifetime) != ended:
        wanted = f"of policy {ended[0]}" if ended[0] else "with this lifetime"
        raise Refused(
            Reason.NOT_OF_POLICY,
            f"savepoint {at} was made by {metadata.by or 'an unknown user'}, and its comment does"
            f" not mark it as one {wanted}",
        )


def plan_freeing(
    warehouse: Warehouse, location: str, instant: str, parallel_map: ParallelMap
) -> dict[str, Any]:
    """Plan the removal of a savepoint at a person's request. Changes nothing.

    Lists the table and reads the metadata of every savepoint. The result is what `tidegate plan
    savepoint-removal` prints: `kept_for` is a person who requested it, too, and `freed` the files
    (relative to the table) that are in neither the newest commit nor another savepoint. `paths` are
    the files that are removed.

    Raises:
        Refused: there is no such savepoint, or a restore is pending.
        FormatError: a file of the timeline can't be read.
        NotFound: a file of the timeline was removed meanwhile.
    """
    table = open_table(warehouse, location)
    check_no_restore(table.timeline)
    found = table.timeline.find(Action.SAVEPOINT, instant)
    if found is None:
        raise Refused(Reason.NO_SUCH_SAVEPOINT, f"there is no savepoint {instant}")
    savepoints = {i.timestamp: metadata for i, metadata in read_savepoints(table)}
    own = savepoints.pop(instant, None)
    freed = pinned_by(own, superseded_files(table, parallel_map)) if own else {}
    for other in savepoints.values():
        for path, names in other.files.items():
            for name in names:
                freed.pop((path, name), None)
    files = {found, _inflight(found)}
    claim = holder_of(table.storage, table.location, instant, datetime.now(UTC))
    mark = SavepointMark.parse(own.comment)[0] if own else None
    return {
        "savepoint": instant,
        "requested_by": own.by if own else None,
        "kept_for": claim.by if claim else None,
        "policy": mark.policy if mark else None,
        "tiers": list(mark.tiers) if mark else [],
        "files": own.file_count if own else 0,
        "freed_files": len(freed),
        "freed_bytes": sum(freed.values()),
        "savepoints_left": len(savepoints),
        "paths": sorted(table.path_of(file) for file in files),
        "freed": sorted(join(path, name) if path else name for path, name in freed),
    }
