"""The configured warehouse roots: the only directories in which anything may be changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from typing import Self

from tidegate.errors import ConfigError, ConfinementError, FormatError
from tidegate.storage import is_below, local_path, normalise
from tidegate.storage.local import LocalPath, check_no_link
from tidegate.storage.locations import place_of


@dataclass(frozen=True, slots=True)
class WarehouseRoots:
    """The directories below which Tidegate may change files, normalised."""

    roots: tuple[str, ...]

    @classmethod
    def of(cls, *locations: str) -> Self:
        """Normalise and check the roots.

        Raises:
            ConfigError: there is no root, a root is not absolute, or it is an entire file system
                (even through a link, or as a store without a bucket).
        """
        try:
            roots = tuple(normalise(location) for location in locations)
        except FormatError as error:
            raise ConfigError(f"warehouse root: {error}") from error
        if not roots or any(map(_is_complete, roots)):
            raise ConfigError(
                "warehouse.roots needs at least one directory, and none may be an entire file"
                " system"
            )
        return cls(roots)

    def below(self, location: str) -> str:
        """Return the normalised location if its name is strictly below a root.

        Raises:
            ConfinementError: it is outside the roots.
        """
        try:
            where = normalise(location)
        except FormatError as error:
            raise ConfinementError(str(error)) from error
        if not any(is_below(where, root) for root in self.roots):
            roots = ", ".join(map(str, self.roots))
            raise ConfinementError(f"{location} is outside the warehouse roots: {roots}")
        return where

    def check(self, location: str) -> str:
        """Return the normalised location if it is strictly below a root with no link in between.

        The root itself may be, or be reached through, a symbolic link. This check refuses a command
        early. Its result may be outdated at once, so every call of a `Warehouse` checks again.

        Raises:
            ReachedByLink: the path goes through a link to another location below a root.
            ConfinementError: it is outside the roots, by its name or through a link.
        """
        where = self.below(location)
        if not place_of(where):
            check_no_link(LocalPath.below(where, self.roots))
        return where


def _is_complete(root: str) -> bool:
    """Whether a root is an entire file system; a bucket is not."""
    if root.startswith("hdfs:"):
        return root == place_of(root)
    return local_path(root) == "/" or root.endswith("://")


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
