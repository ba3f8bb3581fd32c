"""The entries of the Metastore's queue: which to publish, and which have been cleaned.

Nothing is stored: the queue lists the compactions that are not marked yet, and the topics have the
vacuums and the outcomes of their cleanings. A restarted bridge reads both.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.errors import TransientError
from tidegate.events import CleaningReleased, DirectoriesCleaned, Event, VacuumFinished, derived_id
from tidegate.hive_bridge.describing import NOT_DESCRIBED, NotYet
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_bridge.products import VacuumFields
from tidegate.hive_metastore.values import READY_FOR_CLEANING, QueueEntry

log = logging.getLogger(__name__)
Key = tuple[str, str | None, str]
"""Table, partition, and a text that is unique among the table's compactions."""
_MAX_PUBLISHED: Final = 1_000_000
_IN_THE_QUEUE: Final = frozenset({"initiated", "working", READY_FOR_CLEANING})
"""Every other state belongs to the queue's history."""


def key_of(compaction: QueueEntry, catalog: str) -> Key:
    """The key of a compaction: its transaction, or in Hive 3 its kind and highest write id."""
    table = f"{catalog}.{compaction.database}.{compaction.table}".lower()
    if compaction.transaction_id is not None:
        return table, compaction.partition, str(compaction.transaction_id)
    if compaction.is_of_hive_3:  # until its highest write id is known
        return table, compaction.partition, f"entry {compaction.compaction_id}"
    kind = compaction.kind.value if compaction.kind else ""
    return table, compaction.partition, f"{kind} {compaction.highest_write_id}"


def published_key(event: VacuumFinished) -> Key:
    """The key of the compaction that a VacuumFinished is about."""
    if event.own_transaction_id is not None:
        return event.table, event.partition, str(event.own_transaction_id)
    return event.table, event.partition, f"{event.kind.value} {event.max_write_id}"


@dataclass(slots=True)
class _Lookup:
    """A visible compaction that is not published."""

    asked: Future[VacuumFields] | None = None
    has_ended: bool = False
    """Whether it ended before the current poll asked for the locks."""
    again_at: float = 0.0
    is_postponed: bool = False
    is_refused: bool = False


class Compactions:
    """The compactions whose results are visible to readers, until they are published.

    Lookups may be slow. They run on threads and delay neither each other nor the releases of locks.
    """

    def __init__(
        self,
        catalog: str,
        describe: Callable[[QueueEntry], VacuumFields],
        threads: int,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer = UNOBSERVED,
    ) -> None:
        """Create the threads; `describe` describes a compaction, on any of them."""
        self._catalog, self._describe, self._clock = catalog.lower(), describe, clock
        self._observer = observer
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="describe")
        self._published: dict[Key, None] = {}
        self._lookups: dict[Key, _Lookup] = {}
        self._highest: dict[int, int] = {}
        """The highest write ids that Hive 3 does not report, by compaction id."""

    def published(self, event: VacuumFinished) -> None:
        """Record that a vacuum is on the topic, from this bridge or another."""
        self._done(published_key(event))

    def nothing_to_clean(self, compaction: QueueEntry) -> None:
        """Record that no event about a compaction is needed."""
        self._done(key_of(compaction, self._catalog))

    def _done(self, key: Key) -> None:
        self._published[key] = None
        self._lookups.pop(key, None)
        while len(self._published) > _MAX_PUBLISHED:
            del self._published[next(iter(self._published))]

    def refuse(self, compaction: QueueEntry, reason: str) -> None:
        """Never publish the compaction, and log the reason once."""
        lookup = self._lookup(compaction)
        if not lookup.is_refused:
            log.warning("%s is not published: %s", named(compaction), reason)
            self._observer.refused()
        lookup.is_refused = True

    def postpone(self, compaction: QueueEntry, reason: str) -> None:
        """Log once why the compaction can't be published now; the next poll tries it again."""
        lookup = self._lookup(compaction)
        if not lookup.is_postponed:
            log.warning("%s has to wait: %s", named(compaction), reason)
        lookup.is_postponed = True

    def _lookup(self, compaction: QueueEntry) -> _Lookup:
        return self._lookups.setdefault(key_of(compaction, self._catalog), _Lookup())

    def completed(self, queue: Iterable[QueueEntry]) -> tuple[QueueEntry, ...]:
        """The queue, with the highest write ids of Hive 3's compactions filled in.

        Hive 3 never removes a compaction from its queue. The latest of a kind made the directories
        that are there now, and covers the earlier ones, so those are left out. Call this before the
        poll asks for the locks, and `described` after it.
        """
        for lookup in self._lookups.values():
            lookup.has_ended = lookup.asked is not None and lookup.asked.done()
        entries = tuple(queue)
        latest: dict[tuple[object, ...], int] = {}
        for entry in entries:
            if entry.is_of_hive_3 and entry.is_visible:
                key = (entry.place, entry.kind)
                latest[key] = max(latest.get(key, 0), entry.compaction_id)
        for gone in self._highest.keys() - {entry.compaction_id for entry in entries}:
            del self._highest[gone]
        return tuple(
            replace(entry, highest_write_id=self._highest.get(entry.compaction_id, 0))
            if entry.is_of_hive_3
            else entry
            for entry in entries
            if not entry.is_of_hive_3
            or not entry.is_visible
            or latest[entry.place, entry.kind] == entry.compaction_id
        )

    def described(self, queue: Iterable[QueueEntry]) -> Iterator[tuple[QueueEntry, VacuumFields]]:
        """The compactions that can be published now; starts the lookups of the others."""
        visible = {
            key_of(compaction, self._catalog): compaction
            for compaction in queue
            if compaction.is_visible and compaction.kind is not None
        }
        for gone in self._lookups.keys() - visible.keys():
            if (asked := self._lookups.pop(gone).asked) is not None:
                asked.cancel()
        for key, compaction in visible.items():
            if key in self._published:
                continue
            lookup = self._lookup(compaction)
            if lookup.is_refused or self._clock() < lookup.again_at:
                continue
            if lookup.asked is None:
                lookup.asked = self._pool.submit(self._describe, compaction)
            # in Hive 3 the directory may show the result of a compaction that became visible after
            # the poll asked for the locks
            elif lookup.has_ended or (lookup.asked.done() and not compaction.is_of_hive_3):
                if (found := self._result(compaction, lookup, lookup.asked)) is None:
                    continue
                made = self._completed(compaction, found)
                if key_of(made, self._catalog) not in self._published:
                    yield made, found

    def _completed(self, compaction: QueueEntry, found: VacuumFields) -> QueueEntry:
        if not compaction.is_of_hive_3:
            return compaction
        self._highest[compaction.compaction_id] = found.max_write_id
        return replace(compaction, highest_write_id=found.max_write_id)

    def close(self) -> None:
        """Cancel the lookups."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _result(
        self, compaction: QueueEntry, lookup: _Lookup, asked: Future[VacuumFields]
    ) -> VacuumFields | None:
        try:
            return asked.result()
        except ValueError as error:  # for example a name that no event can hold
            self.refuse(compaction, str(error))
        except NOT_DESCRIBED as error:
            self.refuse(compaction, f"{type(error).__name__}: {error}")
        except NotYet as error:
            self.postpone(compaction, str(error))
            lookup.again_at, lookup.asked = self._clock() + error.seconds, None
        except (TransientError, OSError) as error:
            log.warning("%s could not be looked up, trying again: %s", named(compaction), error)
            lookup.asked = None
        return None


def named(compaction: QueueEntry) -> str:
    """The compaction's id, table and partition, for log lines."""
    where = "" if compaction.partition is None else f", partition {compaction.partition}"
    table = f"{compaction.database}.{compaction.table}"
    return f"compaction {compaction.compaction_id} of {table}{where}"


@dataclass(slots=True)
class _Entry:
    vacuum: VacuumFields
    since: int
    """The number of the latest poll of the queue that had begun when the vacuum became known."""
    commands: list[str] = field(default_factory=list[str])
    cleaned: bool = False


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

    def begin(self) -> None:
        """Call this before a poll of the queue."""
        self._poll += 1

    def take(self, event: Event) -> None:
        """Apply a vacuum, or the outcome of a cleaning; other events are ignored.

        A vacuum always comes before its outcome, because its cleaning is a consequence of it.
        """
        if isinstance(event, VacuumFinished):
            self._vacuum(event)
        elif isinstance(event, DirectoriesCleaned):
            self._cleaned(event.caused_by)

    def nothing_to_clean(self, compaction: QueueEntry, found: VacuumFields) -> None:
        """Record a compaction that made nothing, and that found nothing obsolete.

        It is marked once no row of an aborted write is left: until then it would stay in the queue.
        """
        key = key_of(compaction, self._catalog)
        self._entries[key] = _Entry(found, self._poll, cleaned=True)
        self._by_place.setdefault(key[:2], set()).add(key)

    def cleaned(self, queue: Iterable[QueueEntry]) -> Iterator[tuple[QueueEntry, VacuumFields]]:
        """The compactions that were cleaned, by their own vacuum or by a later one."""
        for compaction in queue:
            entry = self._entries.get(key_of(compaction, self._catalog))
            if compaction.is_visible and entry is not None and entry.cleaned:
                yield compaction, entry.vacuum

    def forget(self, queue: Iterable[QueueEntry]) -> None:
        """Forget the vacuums that the queue no longer lists, if they were known before `begin`.

        `queue` is the answer of the poll that began then.
        """
        listed = {
            key_of(compaction, self._catalog)
            for compaction in queue
            if compaction.state in _IN_THE_QUEUE
        }
        for key in [
            k for k, e in self._entries.items() if e.since < self._poll and k not in listed
        ]:
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
            entry = self._entries[key] = _Entry(VacuumFields.of(event), self._poll)
            self._by_place.setdefault(key[:2], set()).add(key)
        # a vacuum that is published again with other holds has another id; both ids count
        entry.vacuum = VacuumFields.of(event)
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
