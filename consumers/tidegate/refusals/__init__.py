"""Refusals: the answer no, as a value and as what carries it up. Pure.

Every service that may refuse lists its reason codes in the module that gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tidegate.errors import TidegateError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a command is not carried out: a fixed code for programs, a sentence for people.

    What is no Unicode in the sentence, as a file's name may be, is shown escaped.
    """

    reason: str
    message: str

    def __post_init__(self) -> None:
        """An outcome that can't be written would leave the command without an answer."""
        object.__setattr__(self, "message", readable(self.message))


def readable(text: str) -> str:
    """A text as it can be written in UTF-8: bytes of a name that are none are shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class Refused(TidegateError):  # noqa: N818 - an expected answer, not a fault
    """A check said no, and nothing was changed. The catcher answers with `refusal`."""

    def __init__(self, reason: str, message: str) -> None:
        """Take the code and the sentence."""
        super().__init__(f"{reason}: {message}")
        self.refusal = Refusal(reason, message)


def granted(answer: T | Refusal) -> T:
    """Give what a check granted.

    Raises:
        Refused: the answer was no.
    """
    if isinstance(answer, Refusal):
        raise Refused(answer.reason, answer.message)
    return answer
