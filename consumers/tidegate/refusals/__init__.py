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
    """Why a command is not carried out: a fixed code for programs, a sentence for people."""

    reason: str
    message: str


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
