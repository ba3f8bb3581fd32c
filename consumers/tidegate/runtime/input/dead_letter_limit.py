"""Classifies faults of messages, and stops a service that fails on too many of them."""

from __future__ import annotations

import string
import threading
import zlib
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidegate.errors import (
    ConfinementError,
    DeadLetterFlood,
    FormatError,
    MessageTooLargeError,
    MetastoreRefusedError,
    PermanentError,
)
from tidegate.errors.commands import command_line
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.retry import is_lasting, is_retriable

FAULT_HEADER: Final = "tidegate-fault"
"""On a dead letter: one of `Fault`."""
MANY_TABLES: Final = 3
"""One table counts for at most a third of the limit: faults of two tables never stop a service."""
_SUCCEEDED: Final = "."
_MARKS: Final = f"{string.ascii_lowercase}{string.ascii_uppercase}"
"""A failed message is marked with one of these characters, by its key's hash."""


class Fault(StrEnum):
    """The cause of a message's failure."""

    MESSAGE = "message"
    """The message: undecodable, misplaced, too large, or it requests what is never allowed."""
    LOCATION = "location"
    """The table's files or the Metastore: they refused, or did not answer for a long time."""
    SERVICE = "service"
    """The service: its code failed on a valid message."""


def fault_of(error: BaseException) -> Fault:
    """Classify the error that a message failed with."""
    message = FormatError | PermanentError | MessageTooLargeError | ConfinementError
    if isinstance(error, message):
        return Fault.MESSAGE
    if isinstance(error, OSError | MetastoreRefusedError) or is_retriable(error):
        return Fault.LOCATION
    return Fault.SERVICE


@dataclass(slots=True)
class DeadLetterLimit:
    """Stops a service whose own code or storage fails for many tables; nothing else does.

    - Faults of a message, and refusals of a location, never count: a stranger, or the permissions
      of some tables, would stop the service for all others.
    - More than `max_failures` failures of the service among the last `window` valid messages of a
      partition stop it, once they concern MANY_TABLES of the partitions that this process owns.
    - A location that did not answer through all attempts counts until any command succeeds: when
      all storage is away, the service stops instead of dead-lettering every command.

    The loop commits the partition's `history` with its offset and restores it when it is assigned
    the partition, so that a restart or another owner continues the count. Thread-safe.
    """

    window: int = 100
    max_failures: int = 50
    _recent: dict[Partition, deque[str]] = field(default_factory=dict[Partition, deque[str]])
    """One character for each valid message: a dot, or the mark of a failed one."""
    _unanswered: list[str] = field(default_factory=list[str])
    """The marks of the messages whose location did not answer since a command succeeded."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def succeeded(self, partition: Partition) -> None:
        """Count a processed message, if any failed before. This runs for every message."""
        if self._unanswered:
            with self._lock:
                self._unanswered.clear()
        if self._recent and (recent := self._recent.get(partition)):
            recent.append(_SUCCEEDED)

    def failed(self, record: Record, error: BaseException, service: str) -> Fault:
        """Count a dead letter before it is written; return its fault.

        Raises:
            DeadLetterFlood: the service must stop; the message stays unacknowledged.
        """
        fault, mark = fault_of(error), _mark(record)
        if fault is Fault.SERVICE:
            with self._lock:
                self._count_own(record.partition, mark, service)
        elif fault is Fault.LOCATION and _is_unanswered(error):
            with self._lock:
                self._count_unanswered(mark, service)
        return fault

    def history(self, partition: Partition) -> str:
        """The last valid messages of a partition, one character each, to commit with its offset."""
        return "".join(self._recent.get(partition, deque()).copy())

    def restore(self, partition: Partition, history: str) -> None:
        """Continue from a committed history; anything else counts as an empty one."""
        valid = set(history) <= {_SUCCEEDED, *_MARKS}
        with self._lock:
            self._recent.pop(partition, None)
            if history and valid:
                self._recent[partition] = deque(history, self.window)

    def _count_own(self, partition: Partition, mark: str, service: str) -> None:
        recent = self._recent.setdefault(partition, deque(maxlen=self.window))
        seen = [*recent, mark][-self.window :]
        failed = len(seen) - seen.count(_SUCCEEDED)
        everywhere = Counter(mark)
        for marks in self._recent.values():
            everywhere.update(marks.copy())
        if failed > self.max_failures and self._are_many(everywhere):
            raise DeadLetterFlood(
                f"{service} failed on {failed} of the last {len(seen)} valid messages of"
                f" {partition.topic}[{partition.number}], so {service} stops and writes no further"
                f" dead letters. Correct the code or the settings and start {service} again. The"
                f" reasons: {command_line('dead-letters list', service=service)}"
            )
        recent.append(mark)

    def _count_unanswered(self, mark: str, service: str) -> None:
        marks = [*self._unanswered, mark]
        if self._are_many(Counter(marks)):
            raise DeadLetterFlood(
                f"{service}: the storage did not answer for {len(marks)} commands and none"
                f" succeeded in between, so {service} stops and writes no further dead letters."
                f" Start {service} again once the storage answers. The reasons:"
                f" {command_line('dead-letters list', service=service)}"
            )
        self._unanswered = marks

    def _are_many(self, marks: Counter[str]) -> bool:
        share = self.max_failures // MANY_TABLES + 1
        counts = (min(count, share) for mark, count in marks.items() if mark != _SUCCEEDED)
        return sum(counts) > self.max_failures


def _mark(record: Record) -> str:
    return _MARKS[zlib.crc32(record.key or b"") % len(_MARKS)]


def _is_unanswered(error: BaseException) -> bool:
    refused = isinstance(error, OSError) and is_lasting(error)
    return is_retriable(error) and not refused
