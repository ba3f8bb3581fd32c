"""The start of a replay: an offset, a time, the earliest, or a number of records back. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.errors import ConfigError
from tidegate.ops.moments import BEGINNING, duration, moment


@dataclass(frozen=True, slots=True)
class ToOffset:
    """At this offset, or at the first one still in the topic."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToMoment:
    """At the first record that the broker appended at this time (timezone-aware) or later."""

    moment: datetime


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """At the first record still in the topic."""


@dataclass(frozen=True, slots=True)
class RecordsBack:
    """This many records before the group's current offset."""

    records: int


Target = ToOffset | ToMoment | ToEarliest | RecordsBack


def ago(text: str, now: datetime) -> ToMoment:
    """A duration before now.

    Raises:
        ConfigError: the text is not a duration.
    """
    span = duration(text)
    return ToMoment(BEGINNING if span > now - BEGINNING else now - span)


def since(text: str, now: datetime) -> ToMoment:
    """At a time in the past.

    Raises:
        ConfigError: the text is not a time, or in the future.
    """
    at = moment(text)
    if at > now:
        raise ConfigError(f"{text} is in the future: a replay starts from a time in the past")
    return ToMoment(at)
