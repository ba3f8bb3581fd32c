"""Decides whether a command may be executed, before anything else is done for it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidegate.events import Command
from tidegate.events.reasons import Reason
from tidegate.runtime.bus import Record


class Unauthorized(Exception):  # noqa: N818 - states a finding
    """A command may not be executed. The catcher publishes a refusal with its reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Take the code and a sentence for people."""
        super().__init__(message)
        self.reason, self.message = reason, message


class SignedBy(NamedTuple):
    """The signer of a command: its name in the settings, and the id of the key."""

    name: str
    key_id: str


class Authorization(Protocol):
    """Decides whose commands may be executed. Called from several threads."""

    def check(self, command: Command, record: Record) -> SignedBy | None:
        """The verified signer of a command that may be executed; None if it may be unsigned.

        The answer depends on the command and its record alone, never on a clock: a command that
        is read again after a crash, half executed, has the same answer.

        Raises:
            Unauthorized: the command may not be executed.
        """
        ...


class AclAlone:
    """Allows every command: the broker's access rights on the topic are the only guard."""

    def check(self, command: Command, record: Record) -> SignedBy | None:  # noqa: ARG002 - the protocol's
        """None: signatures are not checked."""
        return None


NOT_PROVEN = frozenset(
    {
        Reason.NOT_SIGNED,
        Reason.BAD_SIGNATURE,
        Reason.SIGNATURE_EXPIRED,
        Reason.KEY_NOT_ALLOWED,
    }
)
"""Refusals of unproven messages: a stranger may have written one under another command's id."""
