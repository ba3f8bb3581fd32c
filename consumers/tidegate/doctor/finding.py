"""What a check found, and a guard under which no check hangs or stops the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from confluent_kafka import KafkaError, KafkaException

DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
"""The broker's answers to a principal that may not look."""
_SETTLING: Final = 3.0
_PAUSE: Final = 0.2


class State(StrEnum):
    """How it looks. A warning is no fault; a skipped check could not be made."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: which check, how it looks, what was seen, what to do."""

    check: str
    state: State
    seen: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check that has not been made yet. After `seconds` without an answer it has failed."""

    name: str
    look: Callable[[], Finding]
    seconds: float = 15.0

    def run(self) -> Finding:
        """Make the check; whatever it raises is a finding."""
        answers: list[Finding] = []
        # a daemon: one that hangs in a file system must not keep the process from its end
        thread = threading.Thread(target=lambda: answers.append(self._looked()), daemon=True)
        thread.start()
        thread.join(self.seconds)
        if answers:
            return answers[0]
        seen = f"no answer in {self.seconds:g} s"
        return self.failed(seen, "see whether the other side is up and can be reached from here")

    def _looked(self) -> Finding:
        until = time.monotonic() + _SETTLING
        while True:
            try:
                return self.look()
            except KafkaException as error:
                if time.monotonic() > until:
                    return self.failed(error.args[0].str(), "see the broker's log")
                # a coordinator or a leader that is just being found is no fault
                time.sleep(_PAUSE)
            except Exception as error:  # noqa: BLE001 - a check that fails never stops the others
                return self.failed(f"{type(error).__name__}: {error}", "put right what it names")

    def failed(self, seen: str, advice: str) -> Finding:
        """It fails."""
        return Finding(self.name, State.FAIL, seen, advice)

    def skipped(self, why: str) -> Finding:
        """It could not be made."""
        return Finding(self.name, State.SKIPPED, why)
