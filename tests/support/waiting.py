"""Wait for what happens, and never for a time that is usually enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], seconds: float = 300) -> T:
    """Look again and again until the answer is truthy, and give it; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen in {seconds} s")
