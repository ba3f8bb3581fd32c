"""New instants: the time as Hudi writes it, always after every instant of the timeline."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from tidegate.errors import FormatError

_INSTANT: Final = re.compile(r"[0-9]{14,24}")
_TO_SECONDS: Final = "%Y%m%d%H%M%S"
_SECONDS_DIGITS: Final = 14
_DIGITS: Final = 17
CLOCK_TOLERANCE: Final = timedelta(hours=24)
"""How far the clocks of a writer and of a broker may differ: much more than they do."""
_EASTERNMOST: Final = timedelta(hours=14)
_WESTERNMOST: Final = timedelta(hours=12)


def instant_of(moment: datetime, zone: tzinfo | None) -> str:
    """Format a moment as yyyyMMddHHmmssSSS in `zone` (None: this process's own, Hudi's LOCAL)."""
    there = moment.astimezone(zone)
    return f"{there:{_TO_SECONDS}}{there.microsecond // 1000:03d}"


def instant_of_ms(milliseconds: int, zone: tzinfo | None) -> str:
    """Format milliseconds since the epoch as an instant.

    Hudi takes the modification time of a completed file of layout 1 for its completion time.
    """
    whole, rest = divmod(milliseconds, 1000)
    return instant_of(datetime.fromtimestamp(whole, UTC) + timedelta(milliseconds=rest), zone)


def is_instant(text: str) -> bool:
    """Whether a text is an instant: 14 digits, or more with parts of a second."""
    return _INSTANT.fullmatch(text) is not None


def is_in_the_future(instant: str, moment: datetime) -> bool:
    """Whether an instant is later than `moment`, whatever the writer's time zone and clock.

    A table's instants are in local time or in UTC, and nobody says which.
    """
    return instant > instant_of(moment + _EASTERNMOST + CLOCK_TOLERANCE, UTC)


def is_after(moment: datetime, now: datetime) -> bool:
    """Whether a moment lies in the future of `now`, however far two clocks may differ.

    A clock was wrong when it was written down: what waits for it to come would wait for ever.
    """
    return moment > now + CLOCK_TOLERANCE


def is_long_ago(instant: str, moment: datetime) -> bool:
    """Whether an instant is earlier than `moment`, whatever the writer's time zone and clock."""
    return instant < instant_of(moment - _WESTERNMOST - CLOCK_TOLERANCE, UTC)


def next_instant(moment: datetime, zone: tzinfo | None, after: str) -> str:
    """The instant of `moment`, or the first one after `after` if the clock is behind it.

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
