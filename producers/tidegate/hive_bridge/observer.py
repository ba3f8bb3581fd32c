"""Who measures a bridge."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Is told what a bridge does; from any thread."""

    def called(self, name: str) -> None:
        """The Metastore is called."""
        ...

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """A look succeeded: how long it took, what is waited for, and what is not marked yet."""
        ...

    def marked(self, count: int) -> None:
        """So many compactions were marked as cleaned."""
        ...

    def refused(self) -> None:
        """A table, a compaction or an event can't be handled, for a reason that was just logged."""
        ...

    def is_active(self, *, active: bool) -> None:
        """Whether this is the bridge that watches."""
        ...


class Unobserved:
    """Nobody measures it."""

    def called(self, name: str) -> None:
        """Nobody counts it."""

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """Nobody measures it."""

    def marked(self, count: int) -> None:
        """Nobody counts it."""

    def refused(self) -> None:
        """Nobody counts it."""

    def is_active(self, *, active: bool) -> None:
        """Nobody asks."""


UNOBSERVED = Unobserved()
