"""Match the entries of the Metastore's queue with the outcomes on the topics. Pure.

Nothing is stored: the Metastore's queue lists the compactions that are not marked yet, and the
topics have the outcomes of their cleanings. A restarted bridge reads both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tidegate.events import (
    CleaningRefused,
    CleaningReleased,
    DirectoriesCleaned,
    Event,
    VacuumFinished,
    VacuumKind,
    derived_id,
)
from tidegate.hive_bridge.compactions import Key, key_of, published_key
from tidegate.hive_bridge.products import Description
from tidegate.hive_metastore.values import READY_FOR_CLEANING, Compaction

_IN_THE_QUEUE: Final = frozenset({"initiated", "working", READY_FOR_CLEANING})
"""Every other state belongs to the queue's history."""


@dataclass(frozen=True, slots=True)
class PublishedVacuum:
    """The fields of a VacuumFinished that a check of the directory needs."""

    location: str
    kind: VacuumKind
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    own_transaction_id: int | None

    @classmethod
    def of(cls, event: VacuumFinished) -> PublishedVacuum:
        """Take the fields from an event."""
        return cls(
            event.location,
            event.kind,
            event.directories,
            event.min_write_id,
            event.max_write_id,
            event.valid_write_ids,
            event.own_transaction_id,
        )

    def covers(self, other: PublishedVacuum) -> bool:
        """Whether this vacuum's cleaning also does the other's: it compacted at least as much."""
        if self.max_write_id < other.max_write_id:
            return False
        if self.kind is VacuumKind.MAJOR:
            return True
        return other.kind is VacuumKind.MINOR and self.min_write_id <= other.min_write_id


@dataclass(slots=True)
class _Entry:
    vacuum: PublishedVacuum
    since: int
    """The number of the latest poll of the queue that had begun when the vacuum became known."""
    commands: list[str] = field(default_factory=list[str])
    cleaned: bool = False
    refused: str = ""


class Cleanings:
    """The vacuums of one catalog, and what became of their cleanings."""

    def __init__(self, catalog: str) -> None:
        """Start empty; `catalog` is the Metastore's catalog."""
        self._catalog = catalog.lower()
        self._entries: dict[Key, _Entry] = {}
        self._by_command: dict[str, Key] = {}
        self._by_place: dict[tuple[str, str | None], set[Key]] = {}
        self._poll = 0

    def __len__(self) -> int:
        """The number of vacuums that are not marked yet."""
        return len(self._entries)

    def begin(self) -> int:
        """Call this before a poll of the queue; returns the number of the poll."""
        self._poll += 1
        return self._poll

    def take(self, event: Event) -> None:
        """Apply a vacuum, or the outcome of a cleaning; other events are ignored.

        A vacuum always comes before its outcome, because its cleaning is a consequence of it.
        """
        if isinstance(event, VacuumFinished):
            self._vacuum(event)
        elif isinstance(event, DirectoriesCleaned):
            self._cleaned(event.caused_by)
        elif isinstance(event, CleaningRefused):
            key = self._by_command.get(event.caused_by or "")
            if key is not None:
                self._entries[key].refused = f"{event.reason}: {event.message}"

    def nothing_to_clean(self, compaction: Compaction, found: Description) -> None:
        """Record a compaction that made nothing, and that found nothing obsolete.

        It is marked once no row of an aborted write is left: until then it would stay in the queue.
        """
        last, write_ids = found.max_write_id, found.valid_write_ids
        place = (found.location, found.kind, found.directories)
        vacuum = PublishedVacuum(*place, found.min_write_id, last, write_ids, None)
        key = key_of(compaction, self._catalog)
        self._entries[key] = _Entry(vacuum, self._poll, cleaned=True)
        self._by_place.setdefault(key[:2], set()).add(key)

    def cleaned(self, queue: Iterable[Compaction]) -> Iterator[tuple[Compaction, PublishedVacuum]]:
        """The compactions that were cleaned, by their own vacuum or by a later one."""
        for compaction in queue:
            entry = self._entries.get(key_of(compaction, self._catalog))
            if compaction.is_visible and entry is not None and entry.cleaned:
                yield compaction, entry.vacuum

    def published(self, compaction: Compaction) -> PublishedVacuum | None:
        """The vacuum that was published for a compaction, or None if none is known."""
        entry = self._entries.get(key_of(compaction, self._catalog))
        return None if entry is None else entry.vacuum

    def refused(self, queue: Iterable[Compaction]) -> Iterator[tuple[Compaction, str]]:
        """The compactions whose cleaning was refused and not done since, and why."""
        for compaction in queue:
            entry = self._entries.get(key_of(compaction, self._catalog))
            if compaction.is_visible and entry is not None and entry.refused and not entry.cleaned:
                yield compaction, entry.refused

    def forget(self, queue: Iterable[Compaction], poll: int) -> None:
        """Forget the vacuums that the queue no longer lists, if they were known before the poll.

        Args:
            queue: The answer.
            poll: The number of the poll, from `begin`.
        """
        listed = {
            key_of(compaction, self._catalog)
            for compaction in queue
            if compaction.state in _IN_THE_QUEUE
        }
        for key in [k for k, e in self._entries.items() if e.since < poll and k not in listed]:
            for command in self._entries.pop(key).commands:
                del self._by_command[command]
            self._by_place[key[:2]].discard(key)
            if not self._by_place[key[:2]]:
                del self._by_place[key[:2]]

    def _vacuum(self, event: VacuumFinished) -> None:
        if event.table.split(".", 1)[0] != self._catalog:
            return
        key = published_key(event)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(PublishedVacuum.of(event), self._poll)
            self._by_place.setdefault(key[:2], set()).add(key)
        # a vacuum that is published again with other holds has another id; both ids count
        entry.vacuum = PublishedVacuum.of(event)
        command = derived_id(CleaningReleased.__name__, event.event_id)
        if command not in self._by_command:
            self._by_command[command] = key
            entry.commands.append(command)

    def _cleaned(self, command: str | None) -> None:
        key = self._by_command.get(command or "")
        if key is None:
            return
        done = self._entries[key]
        for other in self._by_place[key[:2]]:
            entry = self._entries[other]
            entry.cleaned = entry.cleaned or done.vacuum.covers(entry.vacuum)
