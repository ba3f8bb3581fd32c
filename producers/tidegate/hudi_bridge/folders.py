"""Find the directories that a pattern names: one listing for each directory above a `*`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from tidegate.storage import NotFound, Storage, join, normalise


def find_tables(storage: Storage, patterns: Iterable[str]) -> list[str]:
    """The directories that match a pattern, sorted. They may or may not contain a table.

    Raises:
        OSError: the store does not answer.
    """
    found = {path for pattern in patterns for path in _matching(storage, normalise(pattern))}
    return sorted(found)


def _matching(storage: Storage, pattern: str) -> Iterator[str]:
    if "*" not in pattern:
        yield pattern
        return
    before, _, after = pattern.partition("*")
    parent, _, start = before.rpartition("/")
    rest, _, below = after.partition("/")
    name = f"{start}*{rest}"
    try:
        entries = storage.list(parent or "/")
    except NotFound:
        return
    for entry in entries:
        hidden = entry.name.startswith((".", "_"))
        if entry.is_dir and not hidden and fnmatchcase(entry.name, name):
            child = join(parent, entry.name)
            yield from _matching(storage, join(child, below) if below else child)
