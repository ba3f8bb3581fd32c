"""How often and how long a transient fault is retried: exponential backoff with jitter."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_when_event_set,
    wait_random_exponential,
)
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_any

from tidegate.errors import DeliveryError, MessageTooLargeError, TransientError

log = logging.getLogger(__name__)
R = TypeVar("R")


def is_transient(error: BaseException) -> bool:
    """Faults of broker, storage or network: what fails now may work later."""
    may_pass = isinstance(error, TransientError | DeliveryError | OSError)
    return may_pass and not isinstance(error, MessageTooLargeError)


@dataclass(frozen=True, slots=True)
class Patience:
    """A retry policy. The waits grow from `first` to `longest` seconds, each with full jitter."""

    attempts: int = 8
    first: float = 0.2
    longest: float = 30.0

    def at_most(self, other: Patience) -> Patience:
        """The shorter of two."""
        return Patience(
            min(self.attempts, other.attempts),
            min(self.first, other.first),
            min(self.longest, other.longest),
        )

    def call(self, action: Callable[[], R], stop: threading.Event | None = None) -> R:
        """Call until it works or the attempts are used up; then the last fault is raised as it is.

        `stop` ends the waiting early.
        """
        halt = stop or threading.Event()
        return Retrying(
            retry=retry_if_exception(is_transient),
            wait=wait_random_exponential(self.first, self.longest),
            stop=stop_any(stop_after_attempt(self.attempts), stop_when_event_set(halt)),
            sleep=sleep_using_event(halt),
            before_sleep=_tell,
            reraise=True,
        )(action)


BRIEF: Final = Patience()
"""Half a minute at most between the calls: the group waits five for the next poll."""
TABLE_WORK: Final = Patience(attempts=150, longest=60.0)
"""Over an hour: a storage that is away for a while must not leave a restore half done."""


def _tell(state: RetryCallState) -> None:
    fault = state.outcome.exception() if state.outcome else None
    log.warning("attempt %d failed, trying again: %s", state.attempt_number, fault)
