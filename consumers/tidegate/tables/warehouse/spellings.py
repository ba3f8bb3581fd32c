"""The names by which one directory may be called: a warehouse root may be a link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from glob import escape

from tidegate.errors import FormatError
from tidegate.storage import local_path, normalise

_WILD = frozenset("*?[")


def every_spelling(directories: Iterable[str], roots: Iterable[str] = ()) -> tuple[str, ...]:
    """Patterns of directories, normalised; and as they are called without the links on the way.

    Links behind the first name with a `*`, `?` or `[` are looked for on the way to the roots alone:
    below a root there are none, or a table is refused.

    Args:
        directories: The patterns.
        roots: The warehouse's; one that a pattern covers may be called by another name.

    Raises:
        FormatError: one is relative, or has `..`.
    """
    found: dict[str, None] = {}
    known = [(root.split("/"), local_path(root)) for root in map(normalise, roots)]
    for pattern in map(normalise, directories):
        names = pattern.split("/") if pattern != "/" else [""]
        plain = next((n for n, name in enumerate(names) if _WILD & set(name)), len(names))
        fixed = "/".join(names[:plain]) or "/"
        resolved = fixed if "://" in pattern else local_path(fixed) or fixed
        found[pattern] = None
        found["/".join([escape(resolved.rstrip("/")), *names[plain:]])] = None
        for root, real in known:
            if real is not None:
                found.update(dict.fromkeys(_below_root(names, root, real)))
    return tuple(found)


def _below_root(pattern: list[str], root: list[str], real: str) -> Iterator[str]:
    """What a pattern covers of a root, by the root's name without links."""
    if all(map(fnmatchcase, root, pattern)):
        yield "/".join([escape(real), *pattern[len(root) :]])


def spellings_of(location: str) -> tuple[str, ...]:
    """A table's location, normalised; and without the links on the way to it, if it is local.

    What is no location is given as it is: no directory covers it, and no table is there.
    """
    try:
        place = normalise(location)
    except FormatError:
        return (location,)
    return tuple(dict.fromkeys([place, local_path(place) or place]))
