"""The interface for a bridge's measurements."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Receives a bridge's measurements. Calls come from any thread and must not block."""

    def called(self, name: str) -> None:
        """Count a call to the Metastore's method `name`."""
        ...

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """Record a successful poll: duration, outstanding holds and unmarked compactions."""
        ...

    def marked(self, count: int) -> None:
        """Count compactions that were marked as cleaned."""
        ...

    def refused(self) -> None:
        """Count a table, compaction or event that was skipped; the reason was just logged."""
        ...

    def is_active(self, *, active: bool) -> None:
        """Record whether this bridge is the active one."""
        ...


class Unobserved:
    """An observer that ignores every measurement."""

    def called(self, name: str) -> None:
        """Ignore the call."""

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """Ignore the poll."""

    def marked(self, count: int) -> None:
        """Ignore the marks."""

    def refused(self) -> None:
        """Ignore the refusal."""

    def is_active(self, *, active: bool) -> None:
        """Ignore the state."""


UNOBSERVED = Unobserved()
