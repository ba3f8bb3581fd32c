"""Which entries of the Metastore's queue have been cleaned, by what is on the topics. Pure.

Nothing of it is stored: the Metastore's queue says what is not marked yet, and the topics say what
became of it. A bridge that starts anew reads both.
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
from tidegate.hive_metastore.values import READY_FOR_CLEANING, Compaction

_IN_THE_QUEUE: Final = frozenset({"initiated", "working", READY_FOR_CLEANING})
"""The other states are those of its history."""


@dataclass(frozen=True, slots=True)
class PublishedVacuum:
    """What is kept of a VacuumFinished; the fields are the event's."""

    location: str
    kind: VacuumKind
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    own_transaction_id: int | None

    @classmethod
    def of(cls, event: VacuumFinished) -> PublishedVacuum:
        """Keep what a check of the directory needs."""
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
        """Whether its cleaning does the other's work too: it compacted the same, and more."""
        if self.max_write_id < other.max_write_id:
            return False
        if self.kind is VacuumKind.MAJOR:
            return True
        return other.kind is VacuumKind.MINOR and self.min_write_id <= other.min_write_id


@dataclass(slots=True)
class _Entry:
    vacuum: PublishedVacuum
    since: int
    """The look that was the latest to have begun when it became known."""
    commands: list[str] = field(default_factory=list[str])
    cleaned: bool = False
    refused: str = ""


class Cleanings:
    """The vacuums of one catalog, and what became of their cleanings."""

    def __init__(self, catalog: str) -> None:
        """Begin with nothing; `catalog` is the one whose tables the Metastore has."""
        self._catalog = catalog.lower()
        self._entries: dict[Key, _Entry] = {}
        self._by_command: dict[str, Key] = {}
        self._by_place: dict[tuple[str, str | None], set[Key]] = {}
        self._look = 0

    def __len__(self) -> int:
        """How many vacuums are kept in mind."""
        return len(self._entries)

    def begin(self) -> int:
        """The queue is about to be asked for; the number of this look."""
        self._look += 1
        return self._look

    def take(self, event: Event) -> None:
        """Apply a vacuum, or the outcome of a cleaning; anything else is passed over.

        The vacuum comes before its outcome: its cleaning is a consequence of it.
        """
        if isinstance(event, VacuumFinished):
            self._vacuum(event)
        elif isinstance(event, DirectoriesCleaned):
            self._cleaned(event.caused_by)
        elif isinstance(event, CleaningRefused):
            key = self._by_command.get(event.caused_by or "")
            if key is not None:
                self._entries[key].refused = f"{event.reason}: {event.message}"

    def cleaned(self, queue: Iterable[Compaction]) -> Iterator[tuple[Compaction, PublishedVacuum]]:
        """Entries of the queue whose cleaning is done, by their own or by a later vacuum."""
        for each in queue:
            entry = self._entries.get(key_of(each, self._catalog))
            if each.is_visible and entry is not None and entry.cleaned:
                yield each, entry.vacuum

    def published(self, compaction: Compaction) -> PublishedVacuum | None:
        """What was published of an entry of the queue; None: nothing, as far as is known."""
        entry = self._entries.get(key_of(compaction, self._catalog))
        return None if entry is None else entry.vacuum

    def refused(self, queue: Iterable[Compaction]) -> Iterator[tuple[Compaction, str]]:
        """Entries of the queue whose cleaning was refused and is not done, and why."""
        for each in queue:
            entry = self._entries.get(key_of(each, self._catalog))
            if each.is_visible and entry is not None and entry.refused and not entry.cleaned:
                yield each, entry.refused

    def forget(self, queue: Iterable[Compaction], look: int) -> None:
        """Forget what the queue does not have any more, as a look found that began at `look`."""
        listed = {key_of(each, self._catalog) for each in queue if each.state in _IN_THE_QUEUE}
        for key in [k for k, e in self._entries.items() if e.since < look and k not in listed]:
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
            entry = self._entries[key] = _Entry(PublishedVacuum.of(event), self._look)
            self._by_place.setdefault(key[:2], set()).add(key)
        # published again with other holds, it has another id; either's cleaning is its cleaning
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
        for each in self._by_place[key[:2]]:
            entry = self._entries[each]
            entry.cleaned = entry.cleaned or done.vacuum.covers(entry.vacuum)
