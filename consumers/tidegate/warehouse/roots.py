"""The configured warehouse roots, and whether a path may be touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidegate.errors import ConfigError, ConfinementError, FormatError
from tidegate.storage import is_below, local_path, normalise


class ReachedByLink(ConfinementError):  # noqa: N818 - says what it found, like AlreadyThere
    """A link below a root stands for another place. The catcher refuses: name that place itself.

    Else what is said of one table would be done to another.
    """


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
        """Give the normalised location if it lies strictly below a root, and no link in between.

        A root may be a link itself, and may lie behind links.

        Raises:
            ReachedByLink: it is below a root, but under another name.
            ConfinementError: it is not, or is reached through a link that leads out.
        """
        try:
            where = normalise(location)
        except FormatError as error:
            raise ConfinementError(str(error)) from error
        above = [root for root in self.roots if is_below(where, root)]
        if not above:
            raise ConfinementError(f"{location} lies outside the warehouse roots {self.roots}")
        real = local_path(where)
        real_roots = {root: local_path(root) for root in above}
        if real is None or any(
            real == f"{to}{where[len(root) :]}" for root, to in real_roots.items()
        ):
            return where
        if any(to is not None and is_below(real, to) for to in real_roots.values()):
            raise ReachedByLink(f"{location} is reached through a link: it is {real}")
        raise ConfinementError(f"{location} leads out of the warehouse root {above[0]} by a link")
