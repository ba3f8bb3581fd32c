"""Decides which invalid messages are copied to the dead letters; of the others, records offsets.

A stranger may write any number of undecodable messages. Only a limited number a minute is copied
for each key and each partition. Of the others only the offsets are recorded. They are committed
with the partition's offset at once, so that a crash loses none. One dead letter then stands for all
of them: it is written a minute later, or earlier if they become many.
"""

from __future__ import annotations

import re
import time
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tidegate.runtime.bus import Record

PERIOD_SECONDS: Final = 60.0
OF_A_KEY: Final = 10
"""Copies of one key's messages in a period; a copy above COPY_BYTES counts as several."""
OF_A_PARTITION: Final = 100
"""Copies of a partition's messages in a period, counted the same way."""
COPY_BYTES: Final = 65_536
MAX_TEXT: Final = 900
"""The most characters of committed offsets: beyond, they are written to the dead letters."""
_KEYS: Final = 1024
"""Keys are counted by this many hashes, so memory does not grow with the number of keys."""
_RANGES: Final = re.compile(r"\d{1,18}(-\d{1,18})?(,\d{1,18}(-\d{1,18})?)*", re.ASCII)
_SINCE: Final = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of one partition, and when the broker appended the first of them."""

    since_ms: int
    ranges: Sequence[range]

    @property
    def first(self) -> int:
        """The lowest offset."""
        return self.ranges[0].start

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.ranges))

    @property
    def text(self) -> str:
        """For example 3-17,20."""
        return ",".join(
            str(range_.start) if len(range_) == 1 else f"{range_.start}-{range_.stop - 1}"
            for range_ in self.ranges
        )


@dataclass(slots=True)
class Uncopied:
    """The messages of one partition that were not copied. Not thread-safe."""

    clock: Callable[[], float] = time.monotonic
    reason: str = ""
    """The error of the last message; empty if another process recorded it."""
    _began: float | None = None
    """When the first of them was recorded."""
    _since_ms: int = 0
    _ranges: list[range] = field(default_factory=list[range])
    _period: float = 0.0
    _copied: Counter[int] = field(default_factory=Counter[int])

    def may_copy(self, record: Record) -> bool:
        """Whether a message may be copied now; if so, it is counted."""
        now = self.clock()
        if now >= self._period:
            self._period = now + PERIOD_SECONDS
            self._copied.clear()
        bucket = zlib.crc32(record.key or b"") % _KEYS
        if self._copied[bucket] >= OF_A_KEY or self._copied.total() >= OF_A_PARTITION:
            return False
        size = len(record.key or b"") + len(record.value or b"")
        self._copied[bucket] += 1 + size // COPY_BYTES
        return True

    def add(self, record: Record, reason: str) -> None:
        """Record a message that was not copied; the same one twice counts once."""
        if self._began is None:
            self._began, self._since_ms = self.clock(), record.timestamp_ms
        self.reason = reason
        _insert(self._ranges, record.offset)

    def is_due(self) -> bool:
        """Whether they must be written to the dead letters now."""
        if self._began is None:
            return False
        is_old = self.clock() >= self._began + PERIOD_SECONDS
        return is_old or len(self._offsets().text) > MAX_TEXT

    def offsets(self) -> Offsets | None:
        """The messages that were recorded and not written to the dead letters yet."""
        return self._offsets() if self._ranges else None

    def written(self) -> None:
        """Clear the recorded offsets: they are in the dead letters."""
        self._began, self.reason, self._ranges = None, "", []

    def serialize(self) -> str:
        """The offsets as text, to commit with the partition's offset."""
        return f"{self._since_ms}:{self._offsets().text}" if self._ranges else ""

    def restore(self, text: str) -> None:
        """Continue from a committed text; anything else counts as an empty one."""
        self.written()
        since_ms, _, ranges = text.partition(":")
        if _SINCE.fullmatch(since_ms) and (found := parse_ranges(ranges)):
            self._began, self._since_ms, self._ranges = self.clock(), int(since_ms), found

    def _offsets(self) -> Offsets:
        return Offsets(self._since_ms, tuple(self._ranges))


def parse_ranges(text: str) -> list[range]:
    """Parse `Offsets.text`; return an empty list for any other text."""
    found: list[range] = []
    if not _RANGES.fullmatch(text):
        return found
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.append(range(int(first), int(last or first) + 1))
    ascend = all(before.stop < after.start for before, after in pairwise(found))
    return found if ascend and all(found) else []


def _insert(ranges: list[range], offset: int) -> None:
    at = bisect_left(ranges, offset, key=lambda range_: range_.stop)
    if at < len(ranges) and ranges[at].start <= offset:
        if offset < ranges[at].stop:
            return
        ranges[at] = range(ranges[at].start, offset + 1)
    else:
        ranges.insert(at, range(offset, offset + 1))
    if at + 1 < len(ranges) and ranges[at].stop == ranges[at + 1].start:
        ranges[at : at + 2] = [range(ranges[at].start, ranges[at + 1].stop)]
