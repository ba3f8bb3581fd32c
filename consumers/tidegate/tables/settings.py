"""The base of the sections of the settings, and which tables a rule of them covers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, PlainSerializer

from tidegate.events.fields import parse_duration, span


def _duration(value: object) -> object:
    """A duration from text; anything else as it is."""
    return parse_duration(value) if isinstance(value, str) else value


def _seconds(value: object) -> object:
    return parse_duration(value) // timedelta(seconds=1) if isinstance(value, str) else value


Seconds = Annotated[
    int,
    BeforeValidator(_seconds),
    PlainSerializer(lambda value: span(timedelta(seconds=value)), str, when_used="json"),
]
"""Seconds, or text such as 90s, 10m, 12h, 30d or 4w; shown as text."""
Duration = Annotated[
    timedelta, BeforeValidator(_duration), PlainSerializer(span, str, when_used="json")
]
"""Text such as 90s, 10m, 12h, 30d or 4w."""


class Section(
    BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True, populate_by_name=True
):
    """A section of the settings. Unknown names are errors, and no error quotes a value."""


def covers_name(pattern: str, table: str) -> bool:
    """Whether a shell pattern matches `catalog.database.table`, ignoring case."""
    return fnmatchcase(table.lower(), pattern.lower())


def covers_place(directories: Sequence[str], *spellings: str) -> bool:
    """Whether a table's location is, or is below, one of these directories; true without any.

    Args:
        directories: Normalised; `*`, `?` and `[...]` have their meaning of a shell, and never
            match a slash.
        spellings: Spellings of the table's location, normalised; it is enough if one matches.
    """
    if not directories:
        return True
    places = [spelling.rstrip("/").split("/") for spelling in spellings]
    patterns = [directory.split("/") for directory in directories]
    return any(_is_in(place, pattern) for place in places for pattern in patterns)


def _is_in(place: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(place) >= len(pattern) and all(map(fnmatchcase, place, pattern))
