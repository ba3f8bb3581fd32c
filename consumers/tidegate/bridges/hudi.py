"""The Hudi bridge as a process. Several processes share the tables by partition.

A table belongs to the process that owns its partition of the commits topic. A process reads the
published commits back from the topic, so it stores no position, and another process can take over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from tidegate.bridges.callbacks import http_callbacks
from tidegate.bridges.event_reader import EventReader
from tidegate.bridges.member import RECORDS, BridgeMember
from tidegate.bridges.position import HUDI_BRIDGE, group_of
from tidegate.errors import TidegateError
from tidegate.events import CommitCompleted, Event
from tidegate.events.topics import COMMITS, partition_of
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_bridge.watched import PublishedCommits, WatchedTable, find_tables
from tidegate.hudi_reader.table import NoSuchTable
from tidegate.runtime.bus import Bus, Offsets, Partition
from tidegate.storage import Storage, normalise

log = logging.getLogger(__name__)
_LONGEST_POLL: Final = 0.2
_AGAIN: Final = 600.0
"""Seconds until another check of a table that is another member's, or has a name already used."""
_SLOWEST: Final = 60.0
"""The most seconds between two polls of a table that can't be read."""


@dataclass(eq=False)
class _Watch:
    """A table, and the time of its next poll (seconds of a monotonic clock)."""

    table: WatchedTable
    next_poll: float = 0.0
    job: Future[list[CommitCompleted] | None] | None = None
    name: str = ""
    """The table's name; empty until the table is known to be this member's."""
    warned_of: str = ""
    faults: int = 0
    due: list[CommitCompleted] = field(default_factory=list[CommitCompleted])


class HudiBridgeLoop(BridgeMember):
    """A member of the group; it watches the tables of its partitions."""

    def __init__(  # noqa: PLR0913 - its parts, by name
        self,
        bus: Bus,
        prefix: str,
        *,
        settings: HudiBridgeSettings,
        storage: Storage,
        publish: Callable[[Sequence[Event]], object],
        make_reader: Callable[[Mapping[str, timedelta | None], str], EventReader],
    ) -> None:
        """Join the group, and listen to callbacks if the settings enable them.

        Args:
            bus: The broker.
            prefix: The prefix of the deployment's topics.
            settings: The tables to watch, and how.
            storage: Reads the tables.
            publish: Publishes events and returns when the broker has them.
            make_reader: Makes the reader of these topics under this group's access rights.

        Raises:
            OSError: the port of the HTTP callback is not available.
        """
        self._settings, self._storage, self._publish = settings, storage, publish
        self._topic, self._group = COMMITS.name(prefix), group_of(prefix, HUDI_BRIDGE)
        super().__init__(partial(make_reader, {self._topic: None}, self._group))
        self._count = bus.partitions(self._topic)
        self._watches: dict[str, _Watch] = {}
        self._published: dict[str, PublishedCommits] = {}
        self._hints: set[str] = set()
        self._finding: Future[list[str]] | None = None
        self._next_find = self._next_read = 0.0
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="timeline")
        self._callbacks = ExitStack()
        if settings.callback_port is not None:
            served = http_callbacks(settings.callback_host, settings.callback_port, self.hint)
            port = self._callbacks.enter_context(served)
            log.info("listening for Hudi's HTTP callback on port %d", port)
        self._subscription = bus.subscribe(self._group, [self._topic], self)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set.

        Raises:
            StopService: the broker refuses access, or a topic was deleted and created again.
        """
        while not stop.is_set():
            self._poll(_LONGEST_POLL)
            if self._offsets:
                self._attempt(self._step)
            self._commit()

    def close(self) -> None:
        """Leave the group; other processes take over at once."""
        self._callbacks.close()
        self._commit(now=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._subscription.close()

    def hint(self, named: str) -> bool:
        """Poll a callback's table soon; returns whether the table is watched."""
        location = _location(named)
        known = location in self._watches
        if known:
            self._hints.add(location)
        return known

    def assigned(self, starts: Offsets) -> None:
        """Take over these partitions; the published commits of their tables are read anew."""
        super().assigned(starts)
        self._forget()
        log.info(
            "this process watches %s, the tables of %d of %d partitions",
            ", ".join(self._settings.tables),
            len(starts),
            self._count,
        )

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Stop watching partitions that another member already has; published events stay true."""
        super().lost(partitions)
        self._forget()

    def _forget(self) -> None:
        """Start over; the results of running polls are dropped."""
        self._reader, self._published, self._watches = None, {}, {}
        self._next_find = self._next_read = 0.0
        self._finding = None

    def _step(self) -> None:
        self._find()
        if self._has_read():
            self._look()

    def _find(self) -> None:
        """Match the patterns again periodically, on a thread because stores may be slow."""
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
            log.warning("the search for new tables failed, trying again later: %s", error)
            return
        self._has_polled()
        for location in found:
            if location not in self._watches:
                self._watches[location] = _Watch(WatchedTable(location, self._settings))

    def _has_read(self) -> bool:
        """Read the new commits of the topic periodically; False if the partitions changed."""
        now = time.monotonic()
        if now < self._next_read and not self._hints:
            return True
        if has_read := self._read(self._take_published):
            self._next_read = now + self._settings.interval_ms / 1000
        return has_read

    def _take_published(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, CommitCompleted) and self._is_ours(event.table):
                self._of(event.table).take(event)

    def _of(self, table: str) -> PublishedCommits:
        return self._published.setdefault(table, PublishedCommits())

    def _is_ours(self, table: str) -> bool:
        return Partition(self._topic, partition_of(table, self._count)) in self._offsets

    def _look(self) -> None:
        hints, self._hints = self._hints, set()
        for location in hints & self._watches.keys():
            self._watches[location].next_poll = 0.0
        for watch in list(self._watches.values()):
            if watch.job is not None and watch.job.done():
                self._take(watch, watch.job)
            if watch.due:
                self._publish_due(watch)
            if watch.job is None and time.monotonic() >= watch.next_poll:
                watch.next_poll = time.monotonic() + self._settings.interval_ms / 1000
                work = watch.table.look if watch.name else watch.table.identify
                watch.job = self._pool.submit(work, self._storage)

    def _take(self, watch: _Watch, job: Future[list[CommitCompleted] | None]) -> None:
        watch.job = None
        try:
            watch.due = job.result() or []
        except NoSuchTable as error:
            # if its directory still exists, `_find` adds it again
            self._watches.pop(watch.table.location, None)
            log.debug("%s", error)
        except Exception as error:
            wait = min(_SLOWEST, self._settings.interval_ms / 1000 * 2**watch.faults)
            watch.next_poll = time.monotonic() + wait
            if not watch.faults:
                is_foreseen = isinstance(error, OSError | TidegateError)
                log.warning(
                    "%s can't be read, trying again later: %s",
                    watch.table.location,
                    error,
                    exc_info=None if is_foreseen else error,
                )
            watch.faults = min(watch.faults + 1, 16)
        else:
            if watch.faults:
                log.info("%s can be read again", watch.table.location)
            watch.faults = 0
            self._has_polled()
            if watch.table.name != watch.name:
                watch.name, watch.due = "", []
                self._identify(watch)

    def _identify(self, watch: _Watch) -> None:
        """Leave a new table to the member that has its partition, or poll it at once."""
        name = watch.table.name or ""
        twin = next(
            (
                other.table.location
                for other in self._watches.values()
                if other.name == name and other is not watch
            ),
            None,
        )
        if not self._is_ours(name) or twin is not None:
            watch.next_poll = time.monotonic() + _AGAIN
            if twin is not None and watch.warned_of != twin:
                watch.warned_of = twin
                log.warning(
                    "%s is not watched: it is named %s, like %s. Set hoodie.database.name of one",
                    watch.table.location,
                    name,
                    twin,
                )
            return
        log.info("%s is the table %s", watch.table.location, name)
        watch.table.published = self._of(name)
        watch.name, watch.next_poll = name, 0.0

    def _publish_due(self, watch: _Watch) -> None:
        """Publish the missing commits; after a fault the next step publishes the rest."""
        known = watch.table.published
        watch.due = [event for event in watch.due if event.instant not in known.instants]
        while watch.due:
            batch = watch.due[:RECORDS]
            self._publish(batch)
            for event in batch:
                log.info("published %s of %s (%s)", event.instant, event.table, event.operation)
                known.take(event)
            watch.due = watch.due[RECORDS:]


def _location(text: str) -> str:
    """A location in the patterns' form; Hudi writes `file:/x`, `file:///x` or `/x`."""
    for scheme in ("file://", "file:"):
        if text.startswith(f"{scheme}/"):
            text = text.removeprefix(scheme)
            break
    try:
        return normalise(text)
    except TidegateError:
        return text
