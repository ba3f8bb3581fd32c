"""Retries of transient faults: exponential backoff with jitter, up to a number of attempts."""

from __future__ import annotations

import errno
import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tidegate.errors import DeliveryError, MessageTooLargeError, TransientError

log = logging.getLogger(__name__)
_MAX_DOUBLINGS: Final = 30
R = TypeVar("R")


DENIED_ATTEMPTS: Final = 8
"""Attempts after "permission denied": about ten seconds, enough to renew credentials.

After the permission is granted, the dead letter can be redriven: the command is not lost."""

# Errors that the same call always meets again: a wrong name or path, or an operation that the file
# system does not support. Other errors, such as a full disk or an unreachable host, may pass.
_PERMANENT_ERRNOS: Final = {
    errno.EFBIG,
    errno.EILSEQ,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.EMLINK,
    errno.ENAMETOOLONG,
    errno.ENOSYS,
    errno.ENOTDIR,
    errno.ENOTSUP,
    errno.EOVERFLOW,
    errno.EXDEV,
}


def is_retriable(error: BaseException) -> bool:
    """Whether the same call may work later: faults of the broker, the storage or the network."""
    if isinstance(error, OSError):
        return not _is_permanent(error)
    return is_broker_fault(error)


def is_lasting(error: OSError) -> bool:
    """Whether the same call will fail in an hour, too: it is unsupported or not permitted."""
    return _is_permanent(error) or _is_denied(error)


def is_broker_fault(error: BaseException) -> bool:
    """Whether a broker or a schema registry, and not the message, is at fault."""
    kinds = TransientError | DeliveryError
    return isinstance(error, kinds) and not isinstance(error, MessageTooLargeError)


def _is_permanent(error: OSError) -> bool:
    kinds = IsADirectoryError | NotADirectoryError
    return error.errno in _PERMANENT_ERRNOS or isinstance(error, kinds)


def _is_denied(error: BaseException) -> bool:
    """No permission, or a file system that is mounted read-only.

    By class: an SSLError has a number of its own in `errno`, one that is also EPERM's.
    """
    return isinstance(error, PermissionError) or (
        isinstance(error, OSError) and error.errno == errno.EROFS
    )


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try, and how long to wait: `first` to `longest` seconds, with full jitter.

    The first failure of a call is logged at `level`; further ones would only repeat it.
    """

    attempts: int = 8
    first: float = 0.2
    longest: float = 30.0
    level: int = logging.WARNING

    def at_most(self, other: RetryPolicy) -> RetryPolicy:
        """The stricter of two policies: the lower limit of each kind."""
        return RetryPolicy(
            min(self.attempts, other.attempts),
            min(self.first, other.first),
            min(self.longest, other.longest),
            self.level,
        )

    def quiet(self) -> RetryPolicy:
        """The same for a caller that reports an outage itself: nothing is logged above DEBUG."""
        return replace(self, level=logging.DEBUG)

    def wait_after(self, failed: int, error: BaseException) -> float | None:
        """The seconds to wait after `failed` attempts, the last of which raised `error`.

        None: another attempt can't help, or the attempts are used up.
        """
        attempts = min(self.attempts, DENIED_ATTEMPTS) if _is_denied(error) else self.attempts
        if failed >= attempts or not is_retriable(error):
            return None
        longest = self.longest if failed > _MAX_DOUBLINGS else self.first * 2.0 ** (failed - 1)
        return random.uniform(0, min(self.longest, longest))  # noqa: S311 - jitter, no secret

    def call(self, action: Callable[[], R], stop: threading.Event | None = None) -> R:
        """Call until it succeeds or the attempts are used up; waits on the calling thread.

        Set `stop` to end the wait between two attempts: no further attempt is made.

        Raises:
            Exception: the fault of the last attempt, unchanged.
        """
        failed = 0
        while True:
            try:
                return action()
            except Exception as error:
                failed += 1
                wait = self.wait_after(failed, error)
                halt = stop or threading.Event()
                if wait is None or halt.is_set():
                    raise
                # once: every attempt of an outage would only repeat it
                level = self.level if failed == 1 else logging.DEBUG
                log.log(level, "attempt %d failed and will be repeated: %s", failed, error)
                halt.wait(wait)


BROKER_RETRIES: Final = RetryPolicy()
"""Waits of half a minute at most: the group allows five minutes until the next poll."""
ELECTION_RETRIES: Final = RetryPolicy(attempts=6, first=0.1, longest=1.0)
"""Over the election of a leader, or until a new topic is known, while a person waits."""
TABLE_RETRIES: Final = RetryPolicy(attempts=150, longest=60.0)
"""Over an hour in all: a storage outage must not leave a restore half done."""
