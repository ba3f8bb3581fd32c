"""The Metastore bridge as a process. One of several is active, and its position is on Kafka.

The process that owns partition 0 of the vacuums topic is active; the others only stay members of
the group. The bridge reads its published events back from the topics. Its baseline of the Metastore
is in the metadata of that partition's committed offset.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from tidegate.bridges.event_reader import EventReader
from tidegate.bridges.member import BridgeMember
from tidegate.bridges.position import group_of, split_time
from tidegate.events.topics import LOCKS, OUTCOME_TOPIC, VACUUMS
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.bridge import MetastoreBridge
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.runtime.bus import NO_METADATA, Bus, CommitMetadata, Offsets, Partition
from tidegate.runtime.gc_pause import gc_paused

log = logging.getLogger(__name__)
_LONGEST_POLL: Final = 0.5


class MetastoreBridgeLoop(BridgeMember):
    """A member of the group; while it has partition 0, it watches the Metastore."""

    def __init__(  # noqa: PLR0913 - one of them by name
        self,
        bus: Bus,
        prefix: str,
        make_bridge: Callable[[Baseline], MetastoreBridge],
        make_reader: Callable[[Mapping[str, timedelta | None], str], EventReader],
        interval_ms: int,
        *,
        observer: Observer = UNOBSERVED,
    ) -> None:
        """Join the group.

        Args:
            bus: The broker.
            prefix: The prefix of the deployment's topics.
            make_bridge: Makes the bridge, from the stored baseline of the previous one.
            make_reader: Makes the reader of these topics under this group's access rights.
            interval_ms: Interval between polls of the Metastore, in milliseconds.
            observer: Receives whether this process is active.
        """
        vacuums, locks, outcomes = (topic.name(prefix) for topic in (VACUUMS, LOCKS, OUTCOME_TOPIC))
        self._group = group_of(prefix)
        # an outcome older than every vacuum on the topic belongs to a vacuum that is gone
        topics = {vacuums: None, locks: None, outcomes: VACUUMS.retention}
        super().__init__(partial(make_reader, topics, self._group))
        self._leading = Partition(vacuums, 0)
        self._make_bridge = make_bridge
        self._interval, self._observer = interval_ms / 1000, observer
        self._next_poll = 0.0
        self._bridge: MetastoreBridge | None = None
        self._subscription = bus.subscribe(self._group, [vacuums], self, watched=[locks, outcomes])

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set.

        Raises:
            MetastoreReplacedError: it is not the same Metastore any more; an operator must decide.
            StopService: the broker refuses access, or a topic was deleted and created again.
        """
        while not stop.is_set():
            left = self._next_poll - time.monotonic() if self._leads else _LONGEST_POLL
            self._poll(min(max(left, 0.0), _LONGEST_POLL))
            if self._leads and time.monotonic() >= self._next_poll:
                self._next_poll = time.monotonic() + self._interval
                self._attempt(self._look)
            # the baseline of the first poll is stored at once
            self._commit(now=self._leads and not self._committed[1].get(self._leading))

    def close(self) -> None:
        """Leave the group; another process takes over at once."""
        self._commit(now=True)
        self._resign()
        self._subscription.close()

    def assigned(self, starts: Offsets) -> None:
        """Take over these partitions; partition 0 makes this process active."""
        super().assigned(starts)
        self._observer.is_active(active=self._leads)
        if self._leads:
            log.info("this process watches the Metastore")
        else:
            log.info("another process watches the Metastore; this one stands by")

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Give up partitions that another member already has; published events stay true."""
        super().lost(partitions)
        if not self._leads:
            self._observer.is_active(active=False)
            self._resign()

    @property
    def _leads(self) -> bool:
        return self._leading in self._offsets

    def _look(self) -> None:
        bridge = self._bridge = self._bridge or self._new_bridge()
        if self._read(bridge.take):
            # with many locks the garbage collector visits the complete state at every fourth poll,
            # which took longer than the poll itself without the Metastore's answer
            with gc_paused():
                bridge.look()
            self._has_polled()

    def _new_bridge(self) -> MetastoreBridge:
        known = Baseline.parse(self._stored())
        if known.accepted_by:
            log.info("this Metastore was accepted by %s", known.accepted_by)
        return self._make_bridge(known)

    def _resign(self) -> None:
        if self._bridge is not None:
            self._bridge.close()
        self._bridge = self._reader = None

    def _stored(self) -> str:
        return split_time(self._subscription.committed_metadata(self._leading))[1]

    def _metadata(self) -> CommitMetadata:
        """With partition 0, the baseline of the Metastore."""
        if not self._leads:
            return NO_METADATA
        baseline = self._bridge.baseline.dumps() if self._bridge is not None else self._stored()
        return {self._leading: self._with_time(self._leading, baseline)}
