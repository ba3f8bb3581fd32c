"""The interface for a bridge's measurements."""

from __future__ import annotations


class Observer:
    """Receives a bridge's measurements, and ignores them; a subclass records them.

    Calls come from any thread and must not block.
    """

    def called(self, name: str) -> None:
        """Count a call to the Metastore's method `name`."""

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """Record a successful poll: duration, outstanding holds and unmarked compactions."""

    def marked(self, count: int) -> None:
        """Count compactions that were marked as cleaned."""

    def refused(self) -> None:
        """Count a table, compaction or event that was skipped; the reason was just logged."""

    def is_active(self, *, active: bool) -> None:
        """Record whether this bridge is the active one."""


UNOBSERVED = Observer()
