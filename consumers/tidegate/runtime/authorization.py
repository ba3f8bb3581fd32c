"""Whether a command may be carried out, asked before anything else is done for it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidegate.events import Command
from tidegate.events.reasons import Reason
from tidegate.runtime.bus import Record


class Unauthorized(Exception):  # noqa: N818 - states a finding
    """A command that may not be carried out. The catcher publishes a refusal with its reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Take the code and a sentence for people."""
        super().__init__(message)
        self.reason, self.message = reason, message


class SignedBy(NamedTuple):
    """Whose key signed a command: the name in the settings, and which of that name's keys."""

    name: str
    key_id: str


class Authorization(Protocol):
    """Decides who may have commands carried out. Called from several threads."""

    def check(self, command: Command, record: Record) -> SignedBy | None:
        """Whose key signed the command, verified; None: it may be carried out unsigned.

        The answer depends on the command and its record alone, never on a clock: a command that is
        read again after a crash, half carried out, has the same answer.

        Raises:
            Unauthorized: it may not be carried out.
        """
        ...


class AclAlone:
    """Every command is carried out: the broker's access rights on the topic are the only guard."""

    def check(self, command: Command, record: Record) -> SignedBy | None:  # noqa: ARG002 - the protocol's
        """Nobody has signed it, as far as anybody looked."""
        return None


NOT_PROVEN = frozenset(
    {
        Reason.NOT_SIGNED,
        Reason.BAD_SIGNATURE,
        Reason.SIGNATURE_EXPIRED,
        Reason.KEY_NOT_ALLOWED,
    }
)
"""The refusals of messages that anybody may have written under the id of somebody's command."""
