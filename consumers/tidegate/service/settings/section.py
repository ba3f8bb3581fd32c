"""The base class of all sections of the settings, and the durations in them."""

from __future__ import annotations

from datetime import timedelta
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
    BaseModel,
    frozen=True,
    extra="forbid",
    hide_input_in_errors=True,
    populate_by_name=True,
):
    """A section of the settings. Unknown names are errors, and no error quotes a value."""
