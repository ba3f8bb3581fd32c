"""Which tables a rule of the settings covers: by name and by location. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


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
