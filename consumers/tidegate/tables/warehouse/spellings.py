"""The spellings of a directory's location: a warehouse root may be a link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from glob import escape

from tidegate.errors import FormatError
from tidegate.storage import local_path, normalise
from tidegate.storage.locations import place_of

_WILD = frozenset("*?[")


def every_spelling(directories: Iterable[str], roots: Iterable[str] = ()) -> tuple[str, ...]:
    """Patterns of directories, normalised, both as given and with links resolved.

    Links after the first name with a `*`, `?` or `[` are resolved only on the way to the roots:
    tables below a root that are reached through a link are refused anyway.

    Args:
        directories: The patterns.
        roots: The warehouse roots; a root that a pattern covers may have another spelling.

    Raises:
        FormatError: a pattern is relative, or has `..`.
    """
    found: dict[str, None] = {}
    known = [(root.split("/"), local_path(root)) for root in map(normalise, roots)]
    for pattern in map(normalise, directories):
        names = pattern.split("/") if pattern != "/" else [""]
        plain = next((n for n, name in enumerate(names) if _WILD & set(name)), len(names))
        fixed = "/".join(names[:plain]) or "/"
        resolved = fixed if place_of(pattern) else local_path(fixed) or fixed
        found[pattern] = None
        found["/".join([escape(resolved.rstrip("/")), *names[plain:]])] = None
        for root, real in known:
            if real is not None:
                found.update(dict.fromkeys(_below_root(names, root, real)))
    return tuple(found)


def _below_root(pattern: list[str], root: list[str], real: str) -> Iterator[str]:
    """The part of a pattern that covers a root, with the root's links resolved."""
    if all(map(fnmatchcase, root, pattern)):
        yield "/".join([escape(real), *pattern[len(root) :]])


def spellings_of(location: str) -> tuple[str, ...]:
    """A table's location, normalised, and with links resolved if it is local.

    An invalid location is returned unchanged: it matches no directory and no table.
    """
    try:
        place = normalise(location)
    except FormatError:
        return (location,)
    return tuple(dict.fromkeys([place, local_path(place) or place]))
