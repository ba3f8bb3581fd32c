"""Finds the hold on a table in the requests topic, right before something is removed.

The coordinator issues no cleaning of a held table, and confirms a hold once none is under way. So
that a long one, or one that is retried, ends early, the cleaner reads the topic to its end itself.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from tidegate.errors import ConfigError, FormatError, TransientError
from tidegate.events import CleaningHoldRequested, Command
from tidegate.events.holds import HoldRequest
from tidegate.events.keys import partition_of
from tidegate.events.topics import REQUEST_TOPIC
from tidegate.events.wire import Wire
from tidegate.runtime.authorization import Authorization, Unauthorized
from tidegate.runtime.bus import Bus, Partition, Record

BEFORE_MS: Final = 7 * 24 * 60 * 60 * 1000
"""The longest delay of the reader gate. It has applied every hold that is older than the command by
more than this. After an outage the gate reads its topics side by side, so it may apply a release of
today before a hold of the day on which it stopped."""


class Holds(Protocol):
    """Knows which tables are held."""

    def hold_on(self, command: Command) -> CleaningHoldRequested | None:
        """The present hold on a command's table; None if the table is not held. Thread-safe.

        Raises:
            TransientError: the holds can't be read now.
        """
        ...


class NoHolds:
    """Holds no table: for a cleaner without a broker."""

    def hold_on(self, command: Command) -> CleaningHoldRequested | None:  # noqa: ARG002 - the protocol's
        """None."""
        return None


class HoldLookup:
    """Reads the holds from the requests topic.

    It reads a partition from a week before the command, and later only its new records. Like the
    reader gate, it ignores an unauthorized hold.
    """

    def __init__(
        self, bus: Bus, wire: Wire, prefix: str, authorization: Authorization | None = None
    ) -> None:
        """Read nothing yet.

        Args:
            bus: The broker.
            wire: How events are encoded.
            prefix: The prefix of the topics' names.
            authorization: Who may hold a table; by default every publisher of commands.
        """
        self._bus, self._wire, self._topic = bus, wire, REQUEST_TOPIC.name(prefix)
        self._authorization = authorization or Authorization()
        self._lock = threading.Lock()
        self._held: dict[str, CleaningHoldRequested] = {}
        self._read: dict[Partition, tuple[int, int, str]] = {}
        """By partition, the earliest time (ms) and the end offset of the reading, and the id of the
        topic."""
        self._count = 0
        """Partitions of the topic; another number stops the service."""

    def hold_on(self, command: Command) -> CleaningHoldRequested | None:
        """See `Holds`."""
        since_ms = max(1, int(command.occurred_at.timestamp() * 1000) - BEFORE_MS)
        with self._lock:
            try:
                self._read_up(command.table, since_ms)
            except ConfigError as error:  # the topic existed at the start
                raise TransientError(str(error)) from error
            return self._held.get(command.table)

    def _read_up(self, table: str, since_ms: int) -> None:
        """Read the records since the last call; one request if there are none."""
        home = Partition(self._topic, partition_of(table, self._partitions()))
        known = self._read.get(home)
        marks = self._bus.watermarks([home])[home]
        # an open transaction may hide a hold: the reading fails until it ends
        last = self._bus.spans(self._topic)[home].stop
        is_same = known is not None and known[2] == marks.topic_id
        if not (known and is_same) or since_ms < known[0] or not marks.first <= known[1] <= last:
            # the first call, another topic of the same name, an older command, or a topic whose
            # retention has removed unread records, among them perhaps the end of a hold
            self._forget(home)
            known = since_ms, self._bus.spans(self._topic, since_ms)[home].start, marks.topic_id
        from_ms, read_up_to, topic_id = known
        if read_up_to < last:
            for record in self._bus.read({home: range(read_up_to, last)}):
                self._note(record)
        self._read[home] = from_ms, last, topic_id

    def _partitions(self) -> int:
        if self._count == 0:
            self._count = self._bus.partitions(self._topic)
        return self._count

    def _forget(self, home: Partition) -> None:
        """Forget the holds of a partition: it is read again."""
        self._held = {
            table: hold
            for table, hold in self._held.items()
            if partition_of(table, self._count) != home.number
        }

    def _note(self, record: Record) -> None:
        try:
            event = self._wire.deserialize(record.key, record.value, record.headers)
        except FormatError:
            return
        if not isinstance(event, HoldRequest):
            return
        try:
            self._authorization.check(event, record)
        except Unauthorized:
            return
        if isinstance(event, CleaningHoldRequested):
            self._held[event.table] = event
        else:
            self._held.pop(event.table, None)
