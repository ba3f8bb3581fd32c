"""Find the commits of one table that are not on the topic yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from tidegate.errors import InvalidEventError
from tidegate.events import CommitCompleted, table_identity
from tidegate.hudi.instant import Instant, Layout
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_reader.commits import commit_of, completion_of
from tidegate.hudi_reader.table import HudiTable, load_table
from tidegate.storage import NotFound, Storage, join, normalise

log = logging.getLogger(__name__)
SOURCE: Final = "hudi-bridge"
_REMEMBERED: Final = 20_000
"""The latest instants of a table to remember; at times up to twice as many."""


def find_tables(storage: Storage, patterns: Iterable[str]) -> list[str]:
    """The directories that match a pattern, sorted. They may or may not contain a table.

    Raises:
        OSError: the store does not answer.
    """
    found = {path for pattern in patterns for path in _matching(storage, normalise(pattern))}
    return sorted(found)


def _matching(storage: Storage, pattern: str) -> Iterator[str]:
    if "*" not in pattern:
        yield pattern
        return
    before, _, after = pattern.partition("*")
    parent, _, start = before.rpartition("/")
    rest, _, below = after.partition("/")
    name = f"{start}*{rest}"
    try:
        entries = storage.list(parent or "/")
    except NotFound:
        return
    for entry in entries:
        hidden = entry.name.startswith((".", "_"))
        if entry.is_dir and not hidden and fnmatchcase(entry.name, name):
            child = join(parent, entry.name)
            yield from _matching(storage, join(child, below) if below else child)


@dataclass
class PublishedCommits:
    """The commits of one table on the topic.

    Attributes:
        instants: The latest instants.
        others: Whether another publisher than the bridge sent the last commit.
    """

    instants: set[str] = field(default_factory=set[str])
    others: bool = False
    _forgotten: str = ""

    def take(self, event: CommitCompleted) -> None:
        """Record a commit that is on the topic, from the bridge or another publisher."""
        self.instants.add(event.instant)
        self.others = event.source != SOURCE
        if len(self.instants) > 2 * _REMEMBERED:
            ordered = sorted(self.instants)
            self.instants = set(ordered[-_REMEMBERED:])
            self._forgotten = ordered[-_REMEMBERED - 1]

    def first(self, greatest: str) -> str | None:
        """The first instant that counts; earlier commits are never due. None without one.

        An instant that the table has not reached yet is an error of its publisher.

        Args:
            greatest: The table's last completed write.
        """
        instants = tuple(self.instants)  # another thread may take an event meanwhile
        first = min((instant for instant in instants if instant <= greatest), default=None)
        has_forgotten = self._forgotten and self._forgotten <= greatest
        return max(first or "", self._forgotten) if has_forgotten else first


class WatchedTable:
    """Compares a table's timeline with its commits on the topic.

    A commit is due if the topic does not have its instant, and it follows the first one that the
    topic has. Its completion time on the topic is not used: a publisher may be wrong about it. In
    version 6 it is not used at all, because it is the time of a file, which a copy changes. There,
    a write that began earlier and completed later is due if this process saw it pending.

    So a bridge needs no position of its own: the next poll finds the commits that were
    missed by a stopped bridge or lost by a writer. A commit that is archived before a poll is
    missed for good; Hudi keeps at least 20 (`hoodie.keep.min.commits`).

    Attributes:
        location: The table's directory.
        name: The table's identity, once `identify` has read it.
        published: The table's commits on the topic.
    """

    def __init__(
        self,
        location: str,
        settings: HudiBridgeSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the location and the settings, without reading the table."""
        self.location = location
        self.name: str | None = None
        self.published = PublishedCommits()
        self._settings, self._clock = settings, clock
        self._missing_since: dict[str, float] = {}
        self._unpublishable = set[str]()
        self._pending = set[str]()
        self._is_first = True

    def identify(self, storage: Storage) -> None:
        """Read the table's name from its properties.

        Raises:
            NoSuchTable: there is no table.
            FormatError: its properties can't be parsed, or have no table name.
            OSError: the store does not answer.
        """
        self.name = self._name_of(load_table(storage, self.location))

    def look(self, storage: Storage) -> list[CommitCompleted]:
        """The commits that are due, in the order of their completion.

        This lists the timeline's directory once, and reads one file per commit that is due.

        Raises:
            NoSuchTable: the table does not exist any more.
            FormatError: a file of the table is invalid.
            OSError: the store does not answer.
        """
        table = load_table(storage, self.location)
        self.name = self._name_of(table)
        due = self._due(table)
        events = [event for commit in due if (event := self._event(table, commit)) is not None]
        there = {write.timestamp for write in table.timeline.writes}
        self._missing_since = {
            instant: at for instant, at in self._missing_since.items() if instant in there
        }
        self._unpublishable &= there
        completed = {write.timestamp for write in table.timeline.completed_writes}
        missing = self._pending & there - self.published.instants
        self._pending = (there - completed) | missing
        self._is_first = False
        return events

    def _due(self, table: HudiTable) -> list[Instant]:
        timeline, has_times = table.timeline, table.properties.layout is not Layout.ONE
        writes = [w for w in timeline.completed_writes if w.timestamp not in self._unpublishable]
        if has_times:
            writes.sort(key=completion_of)
        greatest = max((write.timestamp for write in writes), default="")
        first = self.published.first(greatest)
        if first is None:
            return writes if self._settings.start == "earliest" else writes[-1:]
        completed = timeline.completion_of(first)
        return [
            write
            for write in writes
            if write.timestamp not in self.published.instants
            and (
                write.timestamp > first
                or write.timestamp in self._pending
                or (has_times and completion_of(write) > completed)
            )
            and self._has_waited(write)
        ]

    def _has_waited(self, instant: Instant) -> bool:
        """Whether the writer, if it publishes its commits itself, has had enough time for it."""
        if not self.published.others:
            return True
        now = self._clock()
        since = self._missing_since.setdefault(instant.timestamp, now)
        return now - since >= self._settings.grace_ms / 1000

    def _event(self, table: HudiTable, instant: Instant) -> CommitCompleted | None:
        is_late = bool(self.published.instants) and (self._is_first or self.published.others)
        name = self.name or ""
        try:
            return commit_of(table, instant, name=name, source=SOURCE, reconciled=is_late)
        except InvalidEventError as error:  # an invalid file must not stop the other commits
            log.warning("%s: does not fit an event: %s", self.location, error)
            self._unpublishable.add(instant.timestamp)
            return None

    def _name_of(self, table: HudiTable) -> str:
        folder = self.location.rstrip("/").rpartition("/")[0].rpartition("/")[2]
        database = table.properties.database or self._settings.database or folder or "default"
        return table_identity(f"{self._settings.catalog}.{database}.{table.properties.name}")
