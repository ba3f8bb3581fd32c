"""Where a replay begins: an offset, a moment, the earliest, or so many records back. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

from tidegate.errors import ConfigError

_SHORT: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS: Final = ("days", "hours", "minutes", "seconds")
_DURATION: Final = TypeAdapter(timedelta)
_MOMENT: Final = TypeAdapter(datetime)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Kafka takes a time before it for something else: -1 ms is the end of a topic."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """At this offset, or at the first that is left."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToMoment:
    """At the first record that the broker appended at this moment or later (an aware time)."""

    moment: datetime


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """At the first record that is left."""


@dataclass(frozen=True, slots=True)
class Back:
    """So many records before where the group stands."""

    records: int


Target = ToOffset | ToMoment | ToEarliest | Back


def ago(text: str, now: datetime) -> ToMoment:
    """So long before now, however long that is.

    Raises:
        ConfigError: the text is no duration.
    """
    span = duration(text)
    return ToMoment(_BEGINNING if span > now - _BEGINNING else now - span)


def since(text: str, now: datetime) -> ToMoment:
    """At a time that is past.

    Raises:
        ConfigError: the text is no time, or one to come.
    """
    at = moment(text)
    if at > now:
        raise ConfigError(f"a replay goes back, and {text} is still to come")
    return ToMoment(at)


def duration(text: str) -> timedelta:
    """Read a duration: ISO 8601 (PT1H30M) or short (1h30m, 2d, 90s).

    Raises:
        ConfigError: it is neither, or no time at all.
    """
    short = _SHORT.fullmatch(text.strip().lower())
    try:
        if short and any(short.groups()):
            named = zip(_UNITS, short.groups(), strict=True)
            span = timedelta(**{unit: int(number) for unit, number in named if number})
        else:
            span = _DURATION.validate_python(text.strip())
    except (ValidationError, OverflowError) as error:
        raise ConfigError(f"a duration is PT1H30M, 1h30m, 2d or 90s, not {text!r}") from error
    if span <= timedelta():
        raise ConfigError(f"{text} is no time to go back")
    return span


def moment(text: str) -> datetime:
    """Read an ISO 8601 time; one before 1970 is the beginning of 1970.

    Raises:
        ConfigError: it is none, or says no zone: nobody can know then which hour is meant.
    """
    try:
        read = _MOMENT.validate_python(text.strip())
    except ValidationError as error:
        raise ConfigError(f"a time is 2026-11-21T07:00:00Z, not {text!r}") from error
    if read.tzinfo is None:
        raise ConfigError(f"{text} names no time zone: write 2026-11-21T07:00:00Z or +01:00")
    return max(read, _BEGINNING)
