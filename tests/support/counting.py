"""Count calls of functions, to see how work grows without a clock; and requests at one time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import pytest


@dataclass
class Calls:
    """A function that counts its calls. It is exact on one thread only."""

    function: Callable[..., Any]
    count: int = 0

    @classmethod
    def of(cls, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> Self:
        """Put it in the place of a module's function until the end of the test."""
        calls = cls(getattr(module, name))
        monkeypatch.setattr(module, name, calls)
        return calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any function's
        self.count += 1
        return self.function(*args, **kwargs)


@dataclass
class Requests:
    """Requests that threads make. Each takes a while, so that those of two threads meet."""

    count: int = 0
    peak: int = 0
    """The most that were under way at one time."""
    _running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, *_: object) -> None:
        with self._lock:
            self.count += 1
            self._running += 1
            self.peak = max(self.peak, self._running)
        time.sleep(0.003)

    def end(self, *_: object) -> None:
        with self._lock:
            self._running -= 1

    def make(self) -> None:
        self.begin()
        self.end()
