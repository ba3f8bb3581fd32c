"""What the reader gate keeps of quarantines: when each is over, by the broker's time. Pure.

The cleaner says that it is about to move directories before it moves the first; from then on the
time runs, also of a cleaning that died half way. When it is over the gate asks for the removal, and
asks again, ever more seldom, until the cleaner says that nothing is left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Final

from tidegate.cleaning.gate_state import hashed
from tidegate.events import CleaningMode, CleaningStarted, QuarantineRemovalRequested

KEPT: Final = "q"
"""The names of quarantines' records begin with it."""
_ASK_AGAIN_MS: Final = 3_600_000
_MOST_DOUBLINGS: Final = 4
"""So it is asked for every 16 hours at the least."""


@dataclass(frozen=True, slots=True)
class KeptQuarantine:
    """What one cleaning has moved into quarantine."""

    cleaning: str
    started: str
    """The id of the CleaningStarted."""
    location: str
    partition: str | None
    due_ms: int
    """When its time is over; or, once that was said, when it is said again."""
    asked: int = 0
    """How often its removal was asked for."""
    undone: bool = False
    """Whether everything was put back: then only the record is left."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By part of the CleaningStarted how many directories, and how many bytes."""

    @property
    def directories(self) -> int:
        """How many directories wait to be removed."""
        return 0 if self.undone else sum(count for count, _ in self.sizes.values())

    @property
    def bytes(self) -> int:
        """How many bytes they have."""
        return 0 if self.undone else sum(size for _, size in self.sizes.values())

    def asked_for(self, now_ms: int) -> KeptQuarantine:
        """What is kept once its removal was asked for: when to ask again."""
        wait = _ASK_AGAIN_MS << min(self.asked, _MOST_DOUBLINGS)
        return replace(self, due_ms=now_ms + wait, asked=self.asked + 1)

    def later(self, now_ms: int) -> KeptQuarantine:
        """What is kept while somebody holds the table: when to look again."""
        return replace(self, due_ms=now_ms + _ASK_AGAIN_MS)

    def after_undo(self) -> KeptQuarantine:
        """What is left once everything was put back."""
        return replace(self, undone=True)


def kept_name(cleaning: str) -> str:
    """The name of the record of a cleaning's quarantine."""
    return f"{KEPT}{hashed(cleaning):016x}"


def after_start(
    event: CleaningStarted, before: KeptQuarantine | None, now_ms: int
) -> KeptQuarantine | None:
    """What is kept once a cleaning has started; None where it deletes.

    One that is repeated, after a crash or an undo, moves what is left, and its time begins anew.
    """
    if event.mode != CleaningMode.QUARANTINE or event.keep_ms is None:
        return None
    part, now = str(event.part or 1), (len(event.directories), event.bytes)
    sizes = {} if before is None or before.undone else dict(before.sizes)
    sizes[part] = max(now, sizes.get(part, now))
    started = event.event_id if before is None or part == "1" else before.started
    return KeptQuarantine(
        event.caused_by or "",
        started,
        event.location,
        event.partition,
        now_ms + event.keep_ms,
        sizes=sizes,
    )


def removal_of(
    table: str, piece: KeptQuarantine, at: datetime, source: str
) -> QuarantineRemovalRequested:
    """The command to remove a quarantine for good."""
    return QuarantineRemovalRequested(
        table=table,
        location=piece.location,
        partition=piece.partition,
        caused_by=piece.started,
        occurred_at=at,
        source=source,
        cleaning=piece.cleaning,
    )


def dump_kept(piece: KeptQuarantine) -> bytes:
    """The record of a piece."""
    return json.dumps(asdict(piece)).encode()


def parse_kept(record: bytes) -> KeptQuarantine:
    """The piece of a record.

    Raises:
        ValueError, TypeError, KeyError: it is not one that `dump_kept` made.
    """
    read = json.loads(record)
    sizes = {str(part): (int(count), int(size)) for part, (count, size) in read["sizes"].items()}
    return KeptQuarantine(**read | {"sizes": sizes})
