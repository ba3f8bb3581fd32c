"""The names by which one directory may be called: a warehouse root may be a link."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.errors import FormatError
from tidegate.storage import local_path, normalise

_WILD = frozenset("*?[")


def every_spelling(directories: Iterable[str]) -> tuple[str, ...]:
    """Patterns of directories, normalised; and as they are called without the links on the way.

    Links behind the first name with a `*`, `?` or `[` are not looked for: below a root there are
    none, or a table is refused.

    Raises:
        FormatError: one is relative, or has `..`.
    """
    found: dict[str, None] = {}
    for pattern in map(normalise, directories):
        names = pattern.split("/")
        plain = next((n for n, name in enumerate(names) if _WILD & set(name)), len(names))
        fixed = "/".join(names[:plain]) or "/"
        resolved = fixed if "://" in pattern else local_path(fixed) or fixed
        found[pattern] = None
        found["/".join([resolved.rstrip("/"), *names[plain:]])] = None
    return tuple(found)


def spellings_of(location: str) -> tuple[str, ...]:
    """A table's location, normalised; and without the links on the way to it, if it is local.

    What is no location is given as it is: no directory covers it, and no table is there.
    """
    try:
        place = normalise(location)
    except FormatError:
        return (location,)
    return tuple(dict.fromkeys([place, local_path(place) or place]))
