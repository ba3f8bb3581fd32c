"""Which tables a rule of the settings covers: by name, and by where they lie. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def covers_name(pattern: str, table: str) -> bool:
    """Whether a shell pattern matches `catalog.database.table`, in any case."""
    return fnmatchcase(table.lower(), pattern.lower())


def covers_place(directories: Sequence[str], *spellings: str) -> bool:
    """Whether a table lies in, or is, one of these directories; without any: wherever it is.

    Args:
        directories: Normalised; in each of their names `*`, `?` and `[...]` stand for what they
            stand for in a shell, never for a slash.
        spellings: Where the table is, normalised; one that fits is enough.
    """
    if not directories:
        return True
    places = [spelling.rstrip("/").split("/") for spelling in spellings]
    patterns = [directory.split("/") for directory in directories]
    return any(_is_in(place, pattern) for place in places for pattern in patterns)


def _is_in(place: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(place) >= len(pattern) and all(map(fnmatchcase, place, pattern))
