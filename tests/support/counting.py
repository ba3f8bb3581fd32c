"""Count calls of functions, to see how work grows without a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
