"""Instants: the file names of a Hudi timeline as values, for both timeline layouts.

Layout 1 (up to table version 6) has its files in `.hoodie/`, layout 2 (from version 8 on) in
`.hoodie/timeline/`. The names of pending instants are the same. Only layout 2 has the completion
time in the names of completed files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import IntEnum, StrEnum
from typing import Final, Self

from tidegate.errors import FormatError


class Layout(IntEnum):
    """`hoodie.timeline.layout.version`."""

    ONE = 1
    TWO = 2


class InstantState(IntEnum):
    """The states that an instant goes through, in this order."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


class Action(StrEnum):
    """The action of an instant, as in file names."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLEAN = "clean"
    SAVEPOINT = "savepoint"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    INDEXING = "indexing"


COMMITS: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""The actions of completed writes, which can be savepointed."""

WRITES: Final = COMMITS | {Action.CLUSTERING, Action.COMPACTION, Action.LOG_COMPACTION}
"""The actions that write data files, including pending ones."""

COMPACTIONS: Final = frozenset({Action.COMPACTION, Action.COMMIT})
"""The actions of pending and completed compactions on a merge-on-read table.

A compaction contains the rows at the time of its request, however late it completes.
"""

COMPLETED_AS: Final = {
    Action.CLUSTERING: Action.REPLACE_COMMIT,
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
}
"""Pending actions that complete under another name."""

_ACTIONS: Final[Mapping[str, Action]] = {str(action): action for action in Action}
_NAME: Final = re.compile(
    r"(?P<timestamp>\d{14,24})(?:_(?P<completion>\d{14,24}))?"
    r"(?:\.(?P<action>(?!requested|inflight)[a-z]+))?(?:\.(?P<pending>requested|inflight))?"
)


@dataclass(frozen=True, slots=True)
class Instant:
    """One file of a timeline.

    `timestamp` is the requested time and `completion` the completion time, both as
    yyyyMMddHHmmssSSS in the table's time zone. `completion` is None while the instant is pending,
    and for names of layout 1, which do not contain it.
    """

    timestamp: str
    action: Action
    state: InstantState
    completion: str | None = None

    @classmethod
    def parse(cls, name: str, layout: Layout) -> Self | None:
        """Parse a file name; None if it is not the name of an instant."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        timestamp, completion, word, pending = match.groups()
        if word is None and pending != "inflight":
            return None
        action = _ACTIONS.get(word) if word else Action.COMMIT
        if action is None or (word == Action.COMMIT and pending == "inflight"):
            return None
        state = InstantState[pending.upper()] if pending else InstantState.COMPLETED
        wants_completion = state is InstantState.COMPLETED and layout is Layout.TWO
        if wants_completion != (completion is not None) or not _exists(action, state, layout):
            return None
        return cls(timestamp, action, state, completion)

    def file_name(self, layout: Layout) -> str:
        """The name of this instant's file; the inverse of `parse`.

        Raises:
            FormatError: the layout has no file for this instant.
        """
        if not _exists(self.action, self.state, layout):
            raise FormatError(f"layout {layout} has no file for {self}")
        if self.state is not InstantState.COMPLETED:
            short = self.action is Action.COMMIT and self.state is InstantState.INFLIGHT
            word = "" if short else f".{self.action}"
            return f"{self.timestamp}{word}.{self.state.name.lower()}"
        if layout is Layout.ONE:
            return f"{self.timestamp}.{self.action}"
        if self.completion is None:
            raise FormatError(f"{self} has no completion time, which layout 2 needs in the name")
        return f"{self.timestamp}_{self.completion}.{self.action}"


def _exists(action: Action, state: InstantState, layout: Layout) -> bool:
    if action is Action.CLUSTERING and layout is Layout.ONE:
        return False
    if action in COMPLETED_AS and state is InstantState.COMPLETED:
        return False
    return not (action is Action.SAVEPOINT and state is InstantState.REQUESTED)


_INSTANT: Final = re.compile(r"[0-9]{14,24}")
_TO_SECONDS: Final = "%Y%m%d%H%M%S"
_SECONDS_DIGITS: Final = 14
_DIGITS: Final = 17
CLOCK_TOLERANCE: Final = timedelta(hours=24)
"""Tolerated difference between a writer's and a broker's clock; much more than is usual."""
_EASTERNMOST: Final = timedelta(hours=14)


def instant_of(moment: datetime, zone: tzinfo | None) -> str:
    """Format a moment as yyyyMMddHHmmssSSS in `zone` (None: this process's zone, Hudi's LOCAL)."""
    there = moment.astimezone(zone)
    return f"{there:{_TO_SECONDS}}{there.microsecond // 1000:03d}"


def moment_of(instant: str, zone: tzinfo | None) -> datetime:
    """The moment of an instant in `zone`, as `instant_of`; the nearest one if it is not a time."""
    digits = instant[:_DIGITS].ljust(_DIGITS, "0")
    try:
        local = datetime.strptime(digits[:_SECONDS_DIGITS], _TO_SECONDS)  # noqa: DTZ007 - below
    except ValueError:
        local = datetime(max(1, int(digits[:4])), 1, 1)  # noqa: DTZ001 - below
    local = local.replace(microsecond=int(digits[_SECONDS_DIGITS:]) * 1000)
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        return local.replace(tzinfo=UTC)


def instant_of_ms(milliseconds: int, zone: tzinfo | None) -> str:
    """Format milliseconds since the epoch as an instant.

    In layout 1, Hudi uses the modification time of a completed file as its completion time.
    """
    whole, rest = divmod(milliseconds, 1000)
    return instant_of(datetime.fromtimestamp(whole, UTC) + timedelta(milliseconds=rest), zone)


def is_instant(text: str) -> bool:
    """Whether a text is an instant: 14 digits, or more with fractions of a second."""
    return _INSTANT.fullmatch(text) is not None


def is_in_the_future(instant: str, moment: datetime) -> bool:
    """Whether an instant is later than `moment` in any time zone and with any tolerated clock.

    A table's instants are in local time or in UTC; the instants do not show which.
    """
    return instant > instant_of(moment + _EASTERNMOST + CLOCK_TOLERANCE, UTC)


def next_instant(moment: datetime, zone: tzinfo | None, after: str) -> str:
    """The instant of `moment`, or the successor of `after` if the clock is behind that.

    Hudi orders instants as strings, so a new one must be the greatest of its timeline.

    Raises:
        FormatError: `after` is not an instant.
    """
    now = instant_of(moment, zone)
    return now if now > after else _successor(after)


def _successor(instant: str) -> str:
    padded = instant[:_DIGITS].ljust(_DIGITS, "9")
    try:
        base = datetime.strptime(padded[:_SECONDS_DIGITS], _TO_SECONDS).replace(tzinfo=UTC)
    except ValueError as error:
        raise FormatError(f"{instant} is not an instant") from error
    later = base + timedelta(milliseconds=int(padded[_SECONDS_DIGITS:]) + 1)
    return instant_of(later, UTC)
