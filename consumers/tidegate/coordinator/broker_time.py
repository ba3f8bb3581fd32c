"""The broker's time: the only clock by which the coordinator decides that something is due."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime


class BrokerTime:
    """The broker's time, as far as it is known from the records that were read.

    It is the newest append time that was seen, and the time that this process has measured since.
    No clock of a writer counts. It never runs backwards, and never ahead of this machine's own
    clock: where the two differ, due work waits.
    """

    def __init__(
        self, elapsed: Callable[[], float] = time.monotonic, own: Callable[[], float] = time.time
    ) -> None:
        """Know nothing yet. `elapsed` measures seconds, `own` is this machine's clock."""
        self._elapsed, self._own = elapsed, own
        self._offset: float | None = None

    def saw(self, timestamp_ms: int) -> None:
        """A record with this append time was read; an old one changes nothing."""
        offset = timestamp_ms / 1000 - self._elapsed()
        if self._offset is None or offset > self._offset:
            self._offset = offset

    def now(self) -> datetime | None:
        """The time; None before the first record."""
        if self._offset is None:
            return None
        return datetime.fromtimestamp(min(self._elapsed() + self._offset, self._own()), UTC)
