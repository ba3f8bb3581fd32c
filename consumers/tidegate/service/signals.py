"""SIGTERM and SIGINT request an orderly stop: running work is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Generator[None]:
    """Set `stop` on SIGTERM and SIGINT while the block runs; restore the handlers afterwards.

    Python allows this in the main thread only.
    """

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
