"""A table's timeline as the retention rules see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tidegate.events import SavepointMark
from tidegate.hudi.instant import CLOCK_TOLERANCE, Action, Instant, InstantState, moment_of
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi_reader.table import HudiTable
from tidegate.savepoints.further_requests import all_further_requests
from tidegate.savepoints.lookup import clean_bound, made_at
from tidegate.savepoints.removal import removed_by_people
from tidegate.savepoints.retention import Check, Commit, Savepoint, check, end_of
from tidegate.savepoints.rules import SavepointRule
from tidegate.storage import NotFound
from tidegate.tables.warehouse import Warehouse

_REMEMBERED: Final = 50_000
_Key = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True)
class _TimelineView:
    """The savepoints and the commits of a table at one moment."""

    savepoints: tuple[Savepoint, ...]
    commits: tuple[Commit, ...]
    """Those that can have a savepoint: Hudi's last clean retained their files."""
    held: Mapping[str, datetime | None]
    """Savepoints that a person claims, or that a restore may need, until when."""

    def check(
        self, rule: SavepointRule | None, now: datetime, without: AbstractSet[str] = frozenset()
    ) -> Check:
        """Apply a rule; `without`: commits that can't have a savepoint after all."""
        commits = [commit for commit in self.commits if commit.instant not in without]
        return check(rule, self.savepoints, commits, now, held=self.held)

    def made_at(self, moment: datetime) -> frozenset[str]:
        """The savepoints that were decided on at a moment."""
        return frozenset(saved.instant for saved in self.savepoints if saved.since == moment)


@dataclass(slots=True)
class TimelineViews:
    """Makes views. What a file of a timeline contains is read once: such files never change."""

    warehouse: Warehouse
    clock: Callable[[], datetime]
    _marks: dict[_Key, Savepoint] = field(default_factory=dict[_Key, Savepoint])
    _operations: dict[_Key, str | None] = field(default_factory=dict[_Key, str | None])

    def of(
        self,
        table: HudiTable,
        rule: SavepointRule | None,
        held: Mapping[str, datetime | None] | None = None,
    ) -> _TimelineView:
        """The view of a table.

        Raises:
            FormatError: a file of the timeline can't be read.
            TransientError: a claim was removed during the read.
        """
        for memory in (self._marks, self._operations):
            if len(memory) > _REMEMBERED:
                memory.clear()
        now = self.clock()
        requests = all_further_requests(table.storage, table.location)
        claimed = dict(held or {})
        for instant, found in requests.items():
            ends = [
                None if c.until is None else end_of(c.until, CLOCK_TOLERANCE)
                for c in found
                if c.holds(now)
            ]
            if ends:
                claimed[instant] = None if None in ends else max(e for e in ends if e)
        tiers = {
            instant: [t for c in found for t in c.tiers] for instant, found in requests.items()
        }
        completed = table.timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
        savepoints = (
            replace(mark, tiers=(*mark.tiers, *tiers.get(mark.instant, ())))
            for mark in (self._mark(table, instant) for instant in completed)
            if mark is not None
        )
        return _TimelineView(tuple(savepoints), self._commits(table, rule), claimed)

    def _mark(self, table: HudiTable, instant: Instant) -> Savepoint | None:
        """A savepoint by its file; None: it was removed meanwhile."""
        key = table.location, instant.timestamp, instant.completion
        if key not in self._marks:
            try:
                metadata = SavepointMetadata.decode(table.read(instant))
            except NotFound:
                return None
            self._marks[key] = savepoint_of(table, instant.timestamp, metadata)
        return self._marks[key]

    def _commits(self, table: HudiTable, rule: SavepointRule | None) -> tuple[Commit, ...]:
        if rule is None:
            return ()
        bound = clean_bound(table) or ""
        removed = removed_by_people(table.storage, table.location)
        return tuple(
            Commit(
                write.timestamp,
                moment_of(write.timestamp, table.properties.zone),
                write.completion,
                self._operation(table, write) if rule.reads_operations else None,
                removed=write.timestamp in removed,
            )
            for write in table.timeline.completed_writes
            if write.timestamp >= bound
        )

    def _operation(self, table: HudiTable, write: Instant) -> str | None:
        key = table.location, write.timestamp, write.completion
        if key not in self._operations:
            self._operations[key] = table.read_commit(write).operation
        return self._operations[key]


def savepoint_of(table: HudiTable, instant: str, metadata: SavepointMetadata) -> Savepoint:
    """A savepoint as its own file describes it. A policy's age counts from its decision."""
    mark, _ = SavepointMark.parse(metadata.comment)
    since = mark.decided_at if mark and mark.policy else made_at(metadata)
    return Savepoint(
        instant,
        moment_of(instant, table.properties.zone),
        since,
        mark.policy if mark else None,
        mark.tiers if mark else (),
        mark.lifetime if mark else None,
    )
