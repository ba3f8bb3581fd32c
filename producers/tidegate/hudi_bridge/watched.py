"""One table: which of its commits are not on the topic yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from tidegate.errors import FormatError
from tidegate.events import CommitCompleted, TableType, table_identity
from tidegate.events.limits import MAX_METADATA
from tidegate.hudi import CommitMetadata, Instant
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_reader import HudiTable, load_table
from tidegate.storage import NotFound, Storage

log = logging.getLogger(__name__)
SAID_BY: Final = "hudi-bridge"
_MAX_TEXT: Final = 1_000
_MAX_METADATA_CHARS: Final = 100_000
_KEPT: Final = 20_000
"""Instants of a table that are remembered: the latest, and at most twice as many."""


@dataclass
class PublishedCommits:
    """What the topic has of one table.

    Attributes:
        instants: The latest instants, and when each completed.
        start: When the first commit completed that is remembered; None without one.
        others: Whether somebody else published the last one.
    """

    instants: dict[str, str] = field(default_factory=dict[str, str])
    start: str | None = None
    others: bool = False
    _forgotten: str = ""

    def take(self, event: CommitCompleted) -> None:
        """A commit of this table is on the topic, whoever published it."""
        completed = event.completion_time or event.instant
        self.instants[event.instant] = completed
        earliest = completed if self.start is None else min(self.start, completed)
        self.start = max(earliest, self._forgotten)
        self.others = event.source != SAID_BY
        if len(self.instants) > 2 * _KEPT:
            self._forget_the_earliest()

    def _forget_the_earliest(self) -> None:
        """Nothing that completed until then is due: a timeline may be longer than this memory."""
        ordered = sorted(self.instants.items(), key=itemgetter(1))
        self.instants = dict(ordered[-_KEPT:])
        self.start = self._forgotten = ordered[-_KEPT - 1][1]


class WatchedTable:
    """Compares a table's timeline with what the topic has of it.

    What is due: the completed writes that completed after the first commit that the topic has, and
    that the topic lacks. So a bridge has no position of its own, and what a stopped bridge or a
    writer's lost message left out is found by the next look. Commits that are archived before any
    bridge looked are gone: Hudi keeps at least 20 (`hoodie.keep.min.commits`).

    Attributes:
        location: The table's directory.
        name: Its identity, once `identify` has read it.
        published: What the topic has of it.
    """

    def __init__(
        self,
        location: str,
        settings: HudiBridgeSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is known of the table yet; nothing is read."""
        self.location = location
        self.name: str | None = None
        self.published = PublishedCommits()
        self._settings, self._clock = settings, clock
        self._missing_since: dict[str, float] = {}
        self._unpublishable = set[str]()
        self._is_first = True

    def identify(self, storage: Storage) -> None:
        """Read the table's name from its properties.

        Raises:
            NoSuchTable: there is no table.
            FormatError: its properties can't be read, or name no table.
            OSError: the store does not answer.
        """
        self.name = self._name_of(load_table(storage, self.location))

    def look(self, storage: Storage) -> list[CommitCompleted]:
        """The commits that are due, in the order in which they completed.

        One listing of the timeline's directory, and one read of each commit that is due.

        Raises:
            NoSuchTable: there is no table any more.
            FormatError: a file of the table breaks its format.
            OSError: the store does not answer.
        """
        table = load_table(storage, self.location)
        self.name = self._name_of(table)
        due = self._due(table)
        events = [event for each in due if (event := self._event(table, each)) is not None]
        there = {write.timestamp for write in table.timeline.writes}
        self._missing_since = {
            each: at for each, at in self._missing_since.items() if each in there
        }
        self._unpublishable &= there
        self._is_first = False
        return events

    def _due(self, table: HudiTable) -> list[Instant]:
        completed = table.timeline.completed_writes
        writes = [each for each in completed if each.timestamp not in self._unpublishable]
        writes.sort(key=_completion)
        start, known = self.published.start, self.published.instants
        if start is None:
            return writes if self._settings.start == "earliest" else writes[-1:]
        due = [
            write for write in writes if write.timestamp not in known and _completion(write) > start
        ]
        return [each for each in due if self._has_waited(each)]

    def _has_waited(self, instant: Instant) -> bool:
        """Whether its writer, if it publishes by itself, has had the time to."""
        if not self.published.others:
            return True
        now = self._clock()
        since = self._missing_since.setdefault(instant.timestamp, now)
        return now - since >= self._settings.grace_ms / 1000

    def _event(self, table: HudiTable, instant: Instant) -> CommitCompleted | None:
        try:
            metadata = table.read_commit(instant)
        except NotFound:  # rolled back or archived meanwhile: the next look sees it
            return None
        except FormatError as error:
            log.warning("%s: published without its numbers: %s", self.location, error)
            metadata = None
        for numbers in (_numbers(metadata), {}):
            try:
                return self._commit(table, instant, numbers)
            except ValueError as error:  # a file may say anything: of this commit, of no other
                what = f"{instant.timestamp}.{instant.action}"
                log.warning("%s: %s has what no event takes: %s", self.location, what, error)
        self._unpublishable.add(instant.timestamp)
        return None

    def _commit(
        self, table: HudiTable, instant: Instant, numbers: dict[str, Any]
    ) -> CommitCompleted:
        return CommitCompleted(
            table=self.name or "",
            location=self.location,
            occurred_at=datetime.now(UTC),
            source=SAID_BY,
            instant=instant.timestamp,
            completion_time=instant.completion,
            action=instant.action,
            table_type=TableType(table.properties.table_type.lower()),
            reconciled=self.published.start is not None
            and (self._is_first or self.published.others),
            **numbers,
        )

    def _name_of(self, table: HudiTable) -> str:
        folder = self.location.rstrip("/").rpartition("/")[0].rpartition("/")[2]
        database = table.properties.database or self._settings.database or folder or "default"
        return table_identity(f"{self._settings.catalog}.{database}.{table.properties.name}")


def _numbers(metadata: CommitMetadata | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    return {
        "operation": (metadata.operation or "unknown").lower()[:_MAX_TEXT],
        "files_written": len(metadata.writes),
        "records_written": sum(write.records for write in metadata.writes),
        "bytes_written": sum(write.size for write in metadata.writes),
        "extra_metadata": _publishable(metadata.extra.items()),
    }


def _publishable(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What a writer added to its commit; the table's schema is no news, and may be large."""
    found, size = dict[str, str](), 0
    for name, value in pairs:
        if name == "schema" or not 0 < len(name) <= _MAX_TEXT or len(value) > _MAX_TEXT:
            continue
        size += len(name) + len(value)
        if size > _MAX_METADATA_CHARS or len(found) == MAX_METADATA:
            break
        found[name] = value
    return found


def _completion(instant: Instant) -> str:
    return instant.completion or instant.timestamp
