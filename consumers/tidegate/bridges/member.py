"""A bridge's membership in its consumer group: which partitions it owns, and its offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from tidegate.bridges.event_reader import EventReader
from tidegate.bridges.position import split_time, with_time
from tidegate.errors import DeliveryError, DeliveryRefusedError, StopService, TransientError
from tidegate.events import Event
from tidegate.runtime.bus import NO_METADATA, CommitMetadata, Offsets, Partition, Subscription

log = logging.getLogger(__name__)
_COMMIT_SECONDS: Final = 5.0
_MINUTE: Final = 60
RECORDS: Final = 1_000


class BridgeMember:
    """A bridge's membership in its group; a subclass joins as the last step of its `__init__`."""

    _subscription: Subscription

    def __init__(self, make_reader: Callable[[], EventReader]) -> None:
        """Own no partition yet; `make_reader` makes the reader of the published events."""
        self._make_reader = make_reader
        self._reader: EventReader | None = None
        """Set to None to read all of them again."""
        self._offsets: dict[Partition, int] = {}
        self._committed: tuple[Offsets, CommitMetadata] = ({}, NO_METADATA)
        self._commit_at = 0.0
        self._fault = ""
        self._polled = 0
        """When this process last polled what it watches, in seconds since the epoch, to the minute;
        0: not yet."""

    def assigned(self, starts: Offsets) -> None:
        """Take over these partitions."""
        self._offsets, self._committed = dict(starts), ({}, NO_METADATA)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Commit, and leave these partitions to another member, which reads the committed state."""
        self._commit(now=True)
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Give up partitions that another member already has; published events stay true."""
        gone = set(partitions)
        self._offsets = {part: at for part, at in self._offsets.items() if part not in gone}

    def _poll(self, seconds: float) -> None:
        """Stay a member of the group. Another reader reads the records, from their beginning."""
        for record in self._subscription.poll(RECORDS, seconds):
            if record.partition in self._offsets:
                self._offsets[record.partition] = record.offset + 1
        for partition, end in self._subscription.ends().items():
            if partition in self._offsets:
                self._offsets[partition] = max(self._offsets[partition], end)

    def _read(self, take: Callable[[list[Event]], object]) -> bool:
        """Take the events that are new on the topics; False if the partitions changed meanwhile."""
        reader = self._reader = self._reader or self._make_reader()
        for batch in reader.read():
            take(batch)
            self._poll(0)  # a long read must not cost the membership
            if self._reader is not reader:
                return False
        return True

    def _attempt(self, step: Callable[[], object]) -> None:
        """Make a step. A fault of the broker or the Metastore is logged once while it lasts."""
        try:
            step()
        except DeliveryRefusedError as error:
            raise StopService(str(error)) from error
        except (TransientError, DeliveryError) as error:
            # logged once: the wording may differ from one attempt to the next
            if not self._fault:
                log.warning("nothing is published for now, trying again: %s", error)
            self._fault = str(error)
        else:
            if self._fault:
                log.info("events are published again; the fault was: %s", self._fault)
            self._fault = ""

    def _commit(self, *, now: bool = False) -> None:
        """Commit the offsets, so that the group's lag shows how far behind the bridge is."""
        if not self._offsets:
            return
        state = dict(self._offsets), self._metadata()
        if state != self._committed and (now or time.monotonic() >= self._commit_at):
            self._subscription.commit(*state)
            self._committed = state
            self._commit_at = time.monotonic() + _COMMIT_SECONDS

    def _has_polled(self) -> None:
        """Record a successful poll; the time is committed once a minute."""
        self._polled = int(time.time()) // _MINUTE * _MINUTE

    def _metadata(self) -> CommitMetadata:
        """The text to commit with the offsets."""
        return {part: self._with_time(part, "") for part in self._offsets}

    def _with_time(self, part: Partition, text: str) -> str:
        """With the time of the last poll; before the first one, that of the predecessor."""
        before, _ = split_time(self._subscription.committed_metadata(part))
        return with_time(self._polled or before, text)
