"""Refusals: a check raises `Refused`, and the executor turns it into an outcome. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import ConfinementError, FormatError, ReachedByLink, TidegateError
from tidegate.events.reasons import Reason


class Refused(TidegateError):  # noqa: N818 - an expected result, not a fault
    """A check failed before anything was changed. The executor publishes it as an outcome.

    Attributes:
        reason: A fixed code, for programs.
        message: A sentence for people. Bytes of a file name that are not UTF-8 are shown escaped.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        """Take the code and the sentence."""
        self.reason = reason
        # an outcome that cannot be encoded would leave the command without any outcome
        self.message = readable(message)
        super().__init__(f"{reason}: {self.message}")

    @property
    def fields(self) -> Mapping[str, object]:
        """The two in an outcome."""
        return {"reason": self.reason, "message": self.message}


def refusal_of(error: ConfinementError | FormatError) -> Refused:
    """The refusal for a path that may not be used, or for a malformed file."""
    if isinstance(error, ReachedByLink):
        return Refused(Reason.LINK_INSIDE, str(error))
    if isinstance(error, ConfinementError):
        return Refused(Reason.OUTSIDE_WAREHOUSE, str(error))
    return Refused(Reason.UNREADABLE_TABLE, str(error))


def readable(text: str) -> str:
    """The text in valid UTF-8; bytes of a file name that are not UTF-8 become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
