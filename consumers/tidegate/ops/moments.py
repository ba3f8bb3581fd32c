"""Times and durations as people write them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

from tidegate.errors import ConfigError
from tidegate.events.durations import parse_duration

_YEAR: Final = re.compile(r"[0-9]{4}-")
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
    """Read a duration such as 1h30m, 2d or 90s.

    Raises:
        ConfigError: it is not one, or not positive.
    """
    try:
        read = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is {error}") from error
    if read <= timedelta():
        raise ConfigError(f"the duration {text} is not positive")
    return read


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
