"""Durations as people write them: 90s, 1h30m, 2d, 4w. Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_SHORT: Final = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,9}}){unit})?" for unit in _UNITS))
_SHOWN: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    Raises:
        ValueError: it is not one.
    """
    found = _SHORT.fullmatch(text.strip().lower())
    if found is None or not any(found.groups()):
        raise ValueError("not a duration such as 90s, 1h30m, 12h, 30d or 4w")
    try:
        return timedelta(**{_UNITS[unit]: int(n) for unit, n in found.groupdict().items() if n})
    except OverflowError as error:
        raise ValueError("longer than a duration can be") from error


def span(of: timedelta) -> str:
    """A duration in one unit, as `parse_duration` reads it: 1d, 36h, 90s."""
    seconds = of // timedelta(seconds=1)
    unit, name = next((u for u in _SHOWN if seconds and seconds % u[0] == 0), _SHOWN[-1])
    return f"{seconds // unit}{name}"
