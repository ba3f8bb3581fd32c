"""Instants as times: parse, compare, and make new ones that are later than the timeline's."""

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
