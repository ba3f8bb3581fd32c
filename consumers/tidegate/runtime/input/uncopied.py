"""Decides which invalid messages are copied to the dead letters; the others are only counted.

A stranger may write any number of undecodable messages. Only a limited number a minute is copied
for each key and each partition. Of the others the first and the last offset and the number are
recorded. They are committed with the partition's offset at once, so that a crash loses none. One
dead letter then stands for all of them: it is written a minute later.
"""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import PermanentError
from tidegate.runtime.bus import Partition, Record

PERIOD_SECONDS: Final = 60.0
OF_A_KEY: Final = 10
"""Copies of one key's messages in a period; a copy above COPY_BYTES counts as several."""
OF_A_PARTITION: Final = 100
"""Copies of a partition's messages in a period, counted the same way."""
COPY_BYTES: Final = 65_536
_KEYS: Final = 1024
"""Keys are counted by this many hashes, so memory does not grow with the number of keys."""
_TEXT: Final = re.compile(r"(\d{1,18}):(\d{1,18})-(\d{1,18}):(\d{1,9})", re.ASCII)


@dataclass(slots=True)
class Uncopied:
    """The messages of one partition that were not copied. Not thread-safe."""

    clock: Callable[[], float] = time.monotonic
    reason: str = ""
    """The error of the last message; empty if another process recorded it."""
    count: int = 0
    """How many there are; a message that is read again after a crash may be counted twice."""
    first: int = 0
    last: int = 0
    """The lowest and the highest of their offsets. Valid messages may be in between."""
    since_ms: int = 0
    """When the broker appended the first of them."""
    _began: float = 0.0
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
        """Record a message that was not copied."""
        if not self.count:
            self._began, self.since_ms = self.clock(), record.timestamp_ms
            self.first = self.last = record.offset
        self.first, self.last = min(self.first, record.offset), max(self.last, record.offset)
        self.count += 1
        self.reason = reason

    @property
    def is_due(self) -> bool:
        """Whether they must be written to the dead letters now."""
        return self.count > 0 and self.clock() >= self._began + PERIOD_SECONDS

    def written(self) -> None:
        """Forget them: they are in the dead letters."""
        self.count, self.reason = 0, ""

    def serialize(self) -> str:
        """Their offsets as text, to commit with the partition's offset."""
        return f"{self.since_ms}:{self.first}-{self.last}:{self.count}" if self.count else ""

    def restore(self, text: str) -> None:
        """Continue from a committed text; anything else counts as an empty one."""
        self.written()
        if found := _TEXT.fullmatch(text):
            self.since_ms, self.first, self.last, self.count = map(int, found.groups())
            self._began = self.clock()


@dataclass(frozen=True, slots=True)
class RefusalLimit:
    """Bounds the outcomes that refuse commands. Thread-safe.

    An outcome is stored for a year and read again by later commands, and it may be as large as the
    command. So a flood of refused commands has as many outcomes a minute as a flood of invalid
    messages has copies (`Uncopied`); the others become dead letters, which have that limit too.
    """

    _partitions: dict[Partition, Uncopied] = field(default_factory=dict[Partition, Uncopied])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def require(self, record: Record, reason: str) -> None:
        """Count a refused command, whose outcome is to be published.

        Raises:
            PermanentError: it is one too many; the loop dead-letters the command.
        """
        with self._lock:
            if self._partitions.setdefault(record.partition, Uncopied()).may_copy(record):
                return
        raise PermanentError(
            f"{reason}. Too many commands of this table or partition"
            " were refused within a minute, so this one has no outcome"
        )
