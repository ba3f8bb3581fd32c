"""A check's finding, and its runner: a check can't hang or stop the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from confluent_kafka import KafkaException

from tidegate.errors import TransientError
from tidegate.runtime.kafka.errors import text_of

_SETTLING: Final = 3.0
_PAUSE: Final = 0.2


class Finding(NamedTuple):
    """One line of the doctor: its result, the observation, the advice, and the check's name.

    A warning is not a failure; a skipped check could not be run.
    """

    state: Literal["ok", "warn", "fail", "skipped"]
    seen: str
    advice: str = ""
    check: str = ""


def checked(name: str, check: Callable[[], Finding], seconds: float = 15.0) -> Finding:
    """Run a check, and name its finding; an exception, or taking longer, becomes a finding."""
    results: list[Finding] = []
    # a daemon thread: a check that hangs in a file system must not block the process's exit
    thread = threading.Thread(target=lambda: results.append(_result(check)), daemon=True)
    thread.start()
    thread.join(seconds)
    advice = "check that the other side is up and reachable from here"
    hangs = Finding("fail", f"no result after {seconds:g} s", advice)
    return next(iter(results), hangs)._replace(check=name)


def _result(check: Callable[[], Finding]) -> Finding:
    until = time.monotonic() + _SETTLING
    while True:
        try:
            return check()
        except (KafkaException, TransientError) as error:
            if time.monotonic() > until:
                known = isinstance(error, KafkaException)
                text = text_of(error.args[0]) if known else str(error)
                return Finding("fail", text, "see the log of the other side")
            # retry: the election of a coordinator or leader is not a failure
            time.sleep(_PAUSE)
        except Exception as error:  # noqa: BLE001 - a check that fails never stops the others
            return Finding(
                "fail", f"{type(error).__name__}: {error}", "correct what the error names"
            )
