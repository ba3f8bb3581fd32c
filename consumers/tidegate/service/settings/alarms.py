"""Settings of alarms: how long a table may wait before an alarm."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from tidegate.events.names import Name
from tidegate.service.settings.section import Section

_DURATION: Final = re.compile(r"([0-9]+)\s*([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def _seconds(value: object) -> object:
    """A duration such as `6h` in seconds; anything else as it is.

    Raises:
        ValueError: text that is not a duration.
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ValueError("not a duration such as 90s, 30m, 6h or 2d")
    return int(match[1]) * _SECONDS[match[2]]


Seconds = Annotated[int, BeforeValidator(_seconds)]


class AlarmSettings(Section, frozen=True):
    """How long vacuums and releases of some tables may wait before an alarm is published."""

    tables: Name = "*"
    """A shell pattern; of several rules the first whose pattern matches a table applies."""
    overdue_after: Seconds = Field(default=86_400, ge=0)
    """How long a vacuum may wait for its readers before VacuumOverdue is published, in seconds or
    as text with a unit: `6h`. 0: no alarm."""
    unknown_after: Seconds = Field(default=7 * 86_400, ge=0)
    """How long releases of a table may come before its first vacuum, else UnknownTableReleased is
    published; in seconds or as text with a unit. 0: no alarm. The default is the time for which
    releases are remembered, because an engine may publish releases of tables that it seldom
    compacts."""
