"""The start of a replay: an offset, a time, or the earliest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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


Target = ToOffset | ToMoment | ToEarliest
