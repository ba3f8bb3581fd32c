"""A check's finding, and its runner: a check can't hang or stop the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import TransientError

DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
"""The broker's errors for a principal without the right."""
_SETTLING: Final = 3.0
_PAUSE: Final = 0.2


class Status(StrEnum):
    """The result of a check. A warning is not a failure; a skipped check could not be run."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: its result, the observation, the advice, and the check's name."""

    state: Status
    seen: str
    advice: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check that has not been run yet. It fails if it takes longer than `seconds`."""

    name: str
    check: Callable[[], Finding]
    seconds: float = 15.0

    def run(self) -> Finding:
        """Run the check, and name its finding; an exception becomes a finding."""
        results: list[Finding] = []
        # a daemon thread: a check that hangs in a file system must not block the process's exit
        thread = threading.Thread(target=lambda: results.append(self._result()), daemon=True)
        thread.start()
        thread.join(self.seconds)
        seen = f"no result after {self.seconds:g} s"
        advice = "check that the other side is up and reachable from here"
        found = results[0] if results else Finding(Status.FAIL, seen, advice)
        return replace(found, check=self.name)

    def _result(self) -> Finding:
        until = time.monotonic() + _SETTLING
        while True:
            try:
                return self.check()
            except (KafkaException, TransientError) as error:
                if time.monotonic() > until:
                    text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
                    return Finding(Status.FAIL, text, "see the log of the other side")
                # retry: the election of a coordinator or leader is not a failure
                time.sleep(_PAUSE)
            except Exception as error:  # noqa: BLE001 - a check that fails never stops the others
                seen = f"{type(error).__name__}: {error}"
                return Finding(Status.FAIL, seen, "correct what the error names")
