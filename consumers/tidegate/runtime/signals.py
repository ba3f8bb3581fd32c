"""SIGTERM and SIGINT ask for an end: what is under way is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Generator[None]:
    """Set `stop` at SIGTERM and SIGINT while the block runs; then put back what was there before.

    Only a process's main thread may enter it.
    """

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
