"""What the embedded servers have in common: one child process, stopped, killed, started again."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from tidegate.local.embedded.process import Child


class EmbeddedServer(ABC):
    """A server in a directory of its own. Use it as a context manager, or call `start`, `stop`."""

    def __init__(self, startup_seconds: float) -> None:
        """Take how long to wait until it answers."""
        self._startup_seconds = startup_seconds
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, None while it is not running."""
        return self._child.pid if self._child is not None else None

    @abstractmethod
    def start(self) -> Self:
        """Start it and return when it answers. Started twice is started once."""

    def stop(self, seconds: float = 30) -> None:
        """Ask it to stop (SIGTERM), kill it if it has not after `seconds`. Idempotent."""
        if self._child is None:
            return
        if not self._child.end(signal.SIGTERM, seconds):
            self._child.end(signal.SIGKILL, seconds)
        self._ended()

    def kill(self) -> None:
        """Kill it as a crash would (SIGKILL)."""
        if self._child is not None:
            self._child.end(signal.SIGKILL, self._startup_seconds)
            self._ended()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    def _ended(self) -> None:
        """Forget the process, which has ended."""
        self._child = None
