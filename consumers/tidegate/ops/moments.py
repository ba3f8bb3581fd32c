"""Times and durations as people write them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

from tidegate.errors import ConfigError

_SHORT: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS: Final = ("days", "hours", "minutes", "seconds")
_YEAR: Final = re.compile(r"[0-9]{4}-")
_DURATION: Final = TypeAdapter(timedelta)
_MOMENT: Final = TypeAdapter(datetime)
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest time: negative ones have another meaning in Kafka (-1 ms is the end of a topic)."""


def moment_or_ago(text: str, now: datetime) -> datetime:
    """A time, or a duration before now; one before 1970 becomes the beginning of 1970.

    Raises:
        ConfigError: it is neither.
    """
    if _YEAR.match(text.strip()):
        return moment(text)
    span = duration(text)
    return BEGINNING if span > now - BEGINNING else now - span


def duration(text: str) -> timedelta:
    """Read a duration: ISO 8601 (PT1H30M) or short (1h30m, 2d, 90s).

    Raises:
        ConfigError: it is neither, or not positive.
    """
    short = _SHORT.fullmatch(text.strip().lower())
    try:
        if short and any(short.groups()):
            named = zip(_UNITS, short.groups(), strict=True)
            span = timedelta(**{unit: int(number) for unit, number in named if number})
        else:
            span = _DURATION.validate_python(text.strip())
    except (ValidationError, OverflowError) as error:
        raise ConfigError(f"{text!r} is not a duration: write PT1H30M, 1h30m, 2d or 90s") from error
    if span <= timedelta():
        raise ConfigError(f"the duration {text} is not positive")
    return span


def moment(text: str) -> datetime:
    """Read an ISO 8601 time; one before 1970 becomes the beginning of 1970.

    Raises:
        ConfigError: it is not a time, or has no time zone and is ambiguous.
    """
    try:
        read = _MOMENT.validate_python(text.strip())
    except ValidationError as error:
        raise ConfigError(f"{text!r} is not a time: write 2026-11-21T07:00:00Z") from error
    if read.tzinfo is None:
        raise ConfigError(f"{text} has no time zone: write 2026-11-21T07:00:00Z or +01:00")
    return max(read, BEGINNING)
