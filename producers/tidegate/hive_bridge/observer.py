"""A bridge's measurements."""

from __future__ import annotations

from typing import Final


class Observer:
    """Receives a bridge's measurements, and ignores them. Calls come from any thread."""

    def called(self, name: str) -> None:
        """A call to the Metastore's method `name`."""

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """A successful poll: duration, outstanding holds and unmarked compactions."""

    def marked(self, count: int) -> None:
        """Compactions that were marked as cleaned."""

    def refused(self) -> None:
        """A table, compaction or event that was skipped; the reason was just logged."""

    def is_active(self, *, active: bool) -> None:
        """Whether this bridge is the active one."""


UNOBSERVED: Final = Observer()
