"""Reads commands again of which only the offset is in memory, on a thread of its own.

The poll thread never waits for them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from tidegate.errors import OffsetGapError
from tidegate.errors.commands import command_line
from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.retry import RetryPolicy

log = logging.getLogger(__name__)
_NAMED: Final = 5
"""The number of missing offsets, and of their tables, that an error lists."""
Wanted = Mapping[Partition, Mapping[int, str]]
"""By partition, the offsets to read with the tables of their commands."""


class CommandReader:
    """Reads commands from their topic, one request at a time.

    Order of calls: `begin` if it is not `busy`; then `result` repeatedly until it returns one.
    While the broker is away, the request is repeated without a limit.
    """

    def __init__(self, name: str, bus: Bus, retries: RetryPolicy, max_bytes: int) -> None:
        """Read nothing yet.

        Args:
            name: The name of the service.
            bus: The broker.
            retries: How long to wait between two attempts.
            max_bytes: The bytes of messages after which a request ends. It returns at least one.
        """
        self._name, self._bus, self._retries, self._max_bytes = name, bus, retries, max_bytes
        self._wanted: Wanted = {}
        self._reading: Future[list[Record]] | None = None
        self._failed = 0
        self._again_at = 0.0

    @property
    def busy(self) -> bool:
        """Whether a request is under way, or waits for its next attempt."""
        return bool(self._wanted)

    def begin(self, wanted: Wanted) -> None:
        """Begin to read these offsets, at least one."""
        self._wanted, self._failed = wanted, 0
        self._start()

    def result(self) -> tuple[Wanted, Sequence[Record]] | None:
        """Return the request and its records, those of a partition in order; None: not ready yet.

        Raises:
            OffsetGapError: the topic no longer has all of the commands.
            StopService: the broker refuses access.
        """
        if self._reading is None:
            if self._wanted and time.monotonic() >= self._again_at:
                self._start()
            return None
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        if (error := reading.exception()) is not None:
            self._retry_or_raise(error)
            return None
        wanted, self._wanted = self._wanted, {}
        return wanted, reading.result()

    def _start(self) -> None:
        self._reading = future = Future[list[Record]]()
        # a daemon: a missing answer must not keep the process from ending
        threading.Thread(target=self._run, args=(future,), name="reader", daemon=True).start()

    def _run(self, future: Future[list[Record]]) -> None:
        try:
            future.set_result(self._read())
        except BaseException as error:  # noqa: BLE001 - the poll thread raises it
            future.set_exception(error)

    def _read(self) -> list[Record]:
        missing = {part: dict(offsets) for part, offsets in self._wanted.items() if offsets}
        spans = {part: range(min(at), max(at) + 1) for part, at in missing.items()}
        records, size = list[Record](), 0
        for record in self._bus.read(spans):
            if missing[record.partition].pop(record.offset, None) is None:
                continue  # another table's
            records.append(record)
            size += len(record.value or b"")
            if size >= self._max_bytes:
                break
        self._require_all(missing, records, ended=size < self._max_bytes)
        return records

    def _require_all(self, missing: Wanted, records: Sequence[Record], *, ended: bool) -> None:
        """Check that every wanted record up to the end of the reading was found."""
        last = {record.partition: record.offset for record in records}
        gone = {
            part: [offset for offset in offsets if ended or offset < last.get(part, 0)]
            for part, offsets in missing.items()
        }
        for part, offsets in gone.items():
            if offsets:
                raise OffsetGapError(self._gap(part, offsets))

    def _gap(self, part: Partition, offsets: Sequence[int]) -> str:
        listed = _listed([str(offset) for offset in sorted(offsets)])
        tables = _listed(sorted({self._wanted[part][offset] for offset in offsets}))
        return (
            f"{self._name}: {part.topic}[{part.number}] no longer has the commands at {listed}, of"
            f" {tables}. They were waiting and were not executed: the topic's retention or an"
            " operator has removed them. Publish again those that you still want, and set the"
            f" topic's retention to longer than {self._name} may take. To continue with what the"
            " topic has now:"
            f" {command_line('replay group', self._name, to_earliest=True, execute=True)}"
        )

    def _retry_or_raise(self, error: BaseException) -> None:
        self._failed += 1
        attempt = min(self._failed, self._retries.attempts - 1)
        wait = self._retries.wait_after(attempt, error)
        if wait is None:
            raise error
        level = logging.WARNING if self._failed == 1 else logging.DEBUG
        log.log(level, "%s: commands could not be read again yet: %s", self._name, error)
        self._again_at = time.monotonic() + wait


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
