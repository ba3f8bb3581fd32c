"""The configured warehouse roots, and whether a path may be touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidegate.errors import ConfigError, ConfinementError, FormatError
from tidegate.storage import is_below, local_path, normalise


@dataclass(frozen=True, slots=True)
class WarehouseRoots:
    """The directories below which Tidegate may change anything; each in its normalised spelling."""

    roots: tuple[str, ...]

    @classmethod
    def of(cls, *locations: str) -> Self:
        """Normalise the roots.

        Raises:
            ConfigError: none was given, one is not absolute, or one is a whole file system, be it
                by a link or as a store without a bucket.
        """
        try:
            roots = tuple(normalise(location) for location in locations)
        except FormatError as error:
            raise ConfigError(f"warehouse root: {error}") from error
        if not roots or any(local_path(r) == "/" or r.endswith("://") for r in roots):
            raise ConfigError("name at least one warehouse root, and not the whole file system")
        return cls(roots)

    def check(self, location: str) -> str:
        """Give the normalised location if it lies strictly below a root, by name and by its links.

        Raises:
            ConfinementError: it does not, or is reached through a link that leads out.
        """
        try:
            where = normalise(location)
        except FormatError as error:
            raise ConfinementError(str(error)) from error
        root = next((root for root in self.roots if is_below(where, root)), None)
        if root is None:
            raise ConfinementError(f"{location} lies outside the warehouse roots {self.roots}")
        real, real_root = local_path(where), local_path(root)
        if real is not None and real_root is not None and not is_below(real, real_root):
            raise ConfinementError(f"{location} leads out of the warehouse root {root} by a link")
        return where
