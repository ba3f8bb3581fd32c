"""The Hudi bridge as a process: each of many watches the tables of its partitions.

A table belongs to whoever has its partition of the commits topic. What was published is read back
from the topic, so there is no position to keep, and a process that dies is followed by the next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from tidegate.bridges.callbacks import HttpCallbacks, KafkaCallbacks
from tidegate.bridges.facts import FactsReader
from tidegate.errors import (
    DeliveryError,
    DeliveryRefusedError,
    StopService,
    TidegateError,
    TransientError,
)
from tidegate.events import CommitCompleted, Event
from tidegate.events.keys import partition_of
from tidegate.events.topics import COMMITS
from tidegate.hudi_bridge.callbacks import Callback
from tidegate.hudi_bridge.folders import find_tables
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_bridge.watched import PublishedCommits, WatchedTable
from tidegate.hudi_reader import NoSuchTable
from tidegate.runtime.bus import Bus, Offsets, Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import Config
from tidegate.storage import Storage, normalise

log = logging.getLogger(__name__)
NAME: Final = "hudi-bridge"
_LONGEST_POLL: Final = 0.2
_COMMIT_SECONDS: Final = 5.0
_RECORDS: Final = 1_000
_AGAIN: Final = 600.0
"""Seconds until a table that is another member's, or has another's name, is looked up again."""
_SLOWEST: Final = 60.0
"""Seconds between two looks at a table that can't be read, at most."""


def group_of(prefix: str) -> str:
    """The consumer group of a deployment's Hudi bridges."""
    return f"{prefix}.bridges.hudi"


@dataclass(eq=False)
class _Watch:
    """A table, and when it is looked at next (seconds of a monotonic clock)."""

    table: WatchedTable
    next_look: float = 0.0
    job: Future[list[CommitCompleted]] | None = None
    name: str = ""
    """Of the table that is watched; empty until it is known to be this member's."""
    warned_of: str = ""
    faults: int = 0
    due: list[CommitCompleted] = field(default_factory=list[CommitCompleted])


class HudiBridgeLoop:
    """A member of the group; it watches the tables whose partition it has."""

    def __init__(  # noqa: PLR0913 - its parts, by name
        self,
        bus: Bus,
        prefix: str,
        *,
        settings: HudiBridgeSettings,
        storage: Storage,
        publish: Callable[[Sequence[Event]], object],
        make_reader: Callable[[Mapping[str, timedelta | None], str], FactsReader],
        connection: Config,
    ) -> None:
        """Join the group, and listen to callbacks where the settings say so.

        Args:
            bus: The broker.
            prefix: The prefix of the deployment's topics.
            settings: Which tables, and how.
            storage: Reads the tables.
            publish: Publishes events and returns when the broker has them.
            make_reader: Makes the reader of these topics under this group's access rights.
            connection: librdkafka's settings, for the topic of the Kafka callback.

        Raises:
            OSError: the port of the HTTP callback can't be listened on.
            ConfigError: the callbacks' topic does not exist.
        """
        self._settings, self._storage, self._publish = settings, storage, publish
        self._topic, self._group = COMMITS.name(prefix), group_of(prefix)
        self._make_reader = make_reader
        self._reader: FactsReader | None = None
        self._count = KafkaMetadata(connection).partitions(self._topic)
        self._offsets: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}
        self._watches: dict[str, _Watch] = {}
        self._published: dict[str, PublishedCommits] = {}
        self._hints: set[str] = set()
        self._finding: Future[list[str]] | None = None
        self._next_find = self._next_read = self._next_commit = 0.0
        self._fault = ""
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="timeline")
        self._listening: list[HttpCallbacks | KafkaCallbacks] = []
        if settings.callback_port is not None:
            host, port = settings.callback_host, settings.callback_port
            self._listening.append(HttpCallbacks(host, port, self.hear))
        if settings.callback_topic is not None:
            self._listening.append(KafkaCallbacks(connection, settings.callback_topic, self.hear))
        for each in self._listening:
            each.start()
        self._subscription = bus.subscribe(self._group, [self._topic], self)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set.

        Raises:
            StopService: the broker refuses access, or a topic was deleted and created again.
        """
        while not stop.is_set():
            self._poll(_LONGEST_POLL)
            if self._offsets:
                self._step()
            self._commit()

    def close(self) -> None:
        """Leave the group; other processes go on at once."""
        for each in self._listening:
            each.close()
        self._commit(now=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._subscription.close()

    def hear(self, callback: Callback) -> bool:
        """A callback says that a table has a new commit; False where it is not watched."""
        location = _location(callback.location)
        known = location in self._watches
        if known:
            self._hints.add(location)
        return known

    def assigned(self, starts: Offsets) -> None:
        """These partitions are ours: what was published of their tables is read anew."""
        self._offsets = dict(starts)
        self._forget()
        log.info("this process watches the tables of %d partitions", len(starts))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """They go to another member."""
        self._commit(now=True)
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Another member has them already. What we published stays true: nothing is undone."""
        gone = set(partitions)
        self._offsets = {part: at for part, at in self._offsets.items() if part not in gone}
        self._forget()

    def _forget(self) -> None:
        """Begin anew: looks that are under way end without a result."""
        self._reader, self._published, self._watches = None, {}, {}
        self._next_find = self._next_read = 0.0
        self._finding = None

    def _poll(self, seconds: float) -> None:
        """Stay a member. The records themselves are read elsewhere, as far back as they go."""
        for record in self._subscription.poll(_RECORDS, seconds):
            if record.partition in self._offsets:
                self._offsets[record.partition] = record.offset + 1
        for partition, end in self._subscription.ends().items():
            if partition in self._offsets:
                self._offsets[partition] = max(self._offsets[partition], end)

    def _step(self) -> None:
        try:
            self._find()
            if self._read():
                self._look()
        except DeliveryRefusedError as error:
            raise StopService(str(error)) from error
        except (TransientError, DeliveryError) as error:
            if not self._fault:
                log.warning("commits are not published meanwhile; it is tried again: %s", error)
            self._fault = str(error)
        else:
            if self._fault:
                log.info("it works again; before: %s", self._fault)
            self._fault = ""

    def _find(self) -> None:
        """Match the patterns again from time to time; on a thread, because stores are slow."""
        now = time.monotonic()
        if self._finding is None:
            if now >= self._next_find:
                self._next_find = now + self._settings.find_ms / 1000
                self._finding = self._pool.submit(find_tables, self._storage, self._settings.tables)
            return
        if not self._finding.done():
            return
        finding, self._finding = self._finding, None
        try:
            found = finding.result()
        except (OSError, TidegateError) as error:
            log.warning("new tables can't be looked for now: %s", error)
            return
        for location in found:
            if location not in self._watches:
                self._watches[location] = _Watch(WatchedTable(location, self._settings))

    def _read(self) -> bool:
        """Take in what is on the topic; False while that is not all of it."""
        now = time.monotonic()
        if self._reader is None:
            self._reader = self._make_reader({self._topic: None}, self._group)
        elif now < self._next_read and not self._hints:
            return True
        reader = self._reader
        self._next_read = now + self._settings.interval_ms / 1000
        for batch in reader.read():
            for event in batch:
                if isinstance(event, CommitCompleted) and self._is_ours(event.table):
                    self._of(event.table).take(event)
            self._poll(0)  # a long read must not cost the membership
            if self._reader is not reader:
                return False
        return True

    def _of(self, table: str) -> PublishedCommits:
        return self._published.setdefault(table, PublishedCommits())

    def _is_ours(self, table: str) -> bool:
        return Partition(self._topic, partition_of(table, self._count)) in self._offsets

    def _look(self) -> None:
        hints, self._hints = self._hints, set()
        for location in hints & self._watches.keys():
            self._watches[location].next_look = 0.0
        for watch in list(self._watches.values()):
            if watch.job is not None and watch.job.done():
                self._take(watch, watch.job)
            if watch.due:
                self._publish_due(watch)
            if watch.job is None and time.monotonic() >= watch.next_look:
                watch.next_look = time.monotonic() + self._settings.interval_ms / 1000
                work = _looked if watch.name else _identified
                watch.job = self._pool.submit(work, watch.table, self._storage)

    def _take(self, watch: _Watch, job: Future[list[CommitCompleted]]) -> None:
        watch.job = None
        try:
            watch.due = job.result()
        except NoSuchTable as error:
            # if its directory is there still, it is found again
            self._watches.pop(watch.table.location, None)
            log.debug("%s", error)
        except Exception as error:
            wait = min(_SLOWEST, self._settings.interval_ms / 1000 * 2**watch.faults)
            watch.next_look = time.monotonic() + wait
            if not watch.faults:
                is_foreseen = isinstance(error, OSError | TidegateError)
                log.warning(
                    "%s can't be looked at; again later: %s",
                    watch.table.location,
                    error,
                    exc_info=None if is_foreseen else error,
                )
            watch.faults = min(watch.faults + 1, 16)
        else:
            if watch.faults:
                log.info("%s can be looked at again", watch.table.location)
            watch.faults = 0
            if watch.table.name != watch.name:
                watch.name, watch.due = "", []
                self._identify(watch)

    def _identify(self, watch: _Watch) -> None:
        """A new table: leave it to the member that has its partition, or look at once."""
        name = watch.table.name or ""
        twin = next(
            (
                each.table.location
                for each in self._watches.values()
                if each.name == name and each is not watch
            ),
            None,
        )
        if not self._is_ours(name) or twin is not None:
            watch.next_look = time.monotonic() + _AGAIN
            if twin is not None and watch.warned_of != twin:
                watch.warned_of = twin
                log.warning(
                    "%s is called %s, as %s is: it is not watched. Set hoodie.database.name of one",
                    watch.table.location,
                    name,
                    twin,
                )
            return
        watch.table.published = self._of(name)
        watch.name, watch.next_look = name, 0.0

    def _publish_due(self, watch: _Watch) -> None:
        """Publish what the topic still lacks; a fault leaves the rest for the next step."""
        known = watch.table.published
        watch.due = [each for each in watch.due if each.instant not in known.instants]
        while watch.due:
            batch = watch.due[:_RECORDS]
            self._publish(batch)
            for event in batch:
                known.take(event)
            watch.due = watch.due[_RECORDS:]

    def _commit(self, *, now: bool = False) -> None:
        """Commit what was passed, so that the group's lag tells how far behind it is."""
        if not self._offsets or self._offsets == self._committed:
            return
        if now or time.monotonic() >= self._next_commit:
            self._subscription.commit(dict(self._offsets))
            self._committed = dict(self._offsets)
            self._next_commit = time.monotonic() + _COMMIT_SECONDS


def _identified(table: WatchedTable, storage: Storage) -> list[CommitCompleted]:
    table.identify(storage)
    return []


def _looked(table: WatchedTable, storage: Storage) -> list[CommitCompleted]:
    return table.look(storage)


def _location(text: str) -> str:
    """A location as the patterns give it: Hudi writes `file:/x`, `file:///x` or `/x`."""
    for scheme in ("file://", "file:"):
        if text.startswith(f"{scheme}/"):
            text = text.removeprefix(scheme)
            break
    try:
        return normalise(text)
    except TidegateError:
        return text
