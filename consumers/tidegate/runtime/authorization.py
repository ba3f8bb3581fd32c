"""Decides whether an event counts, before anything else is done for it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

from tidegate.events import Event
from tidegate.events.reasons import Reason
from tidegate.runtime.bus import Record


class Unauthorized(Exception):  # noqa: N818 - states a finding
    """An event does not count. The catcher refuses a command with its reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Take the code and a sentence for people."""
        super().__init__(message)
        self.reason, self.message = reason, message


class SignedBy(NamedTuple):
    """The signer of a command: its name in the settings, and the id of the key."""

    name: str
    key_id: str


class Authorization(Protocol):
    """Decides whose commands and facts count. Called from several threads."""

    @property
    def checks_facts(self) -> bool:
        """Whether facts may be refused, so that `check` has to be called for those in `SIGNED`."""
        ...

    def check(self, command: Event, record: Record) -> SignedBy | None:
        """The verified signer of a command or fact that counts; None if it may be unsigned.

        The answer depends on the event and its record alone, never on a clock: a command that
        is read again after a crash, half executed, has the same answer.

        Raises:
            Unauthorized: it does not count.
        """
        ...


class AclAlone:
    """Allows every command: the broker's access rights on the topic are the only guard."""

    checks_facts: ClassVar[bool] = False

    def check(self, command: Event, record: Record) -> SignedBy | None:  # noqa: ARG002 - the protocol's
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
