"""Removing a savepoint: the request and its outcomes."""

from __future__ import annotations

from typing import ClassVar

from pydantic import AwareDatetime, Field

from tidegate.events.base import Request
from tidegate.events.limits import Count, HudiInstant, Message, Text
from tidegate.events.names import Name
from tidegate.events.outcomes import Answer
from tidegate.events.savepoint_marks import PolicyName, TierName
from tidegate.events.verdict import Verdict


class SavepointRemovalRequested(Request, frozen=True):
    """Remove a savepoint: Hudi may clean what only it kept. The table's rows stay as they are.

    A service names the `policy` that made the savepoint, or says `by_lifetime`: it is then removed
    only if its own mark names that policy, or a lifetime that a person gave it. A person who says
    neither may remove any. `tiers` are those that the policy has: the newest of each stays.
    `attempt` counts the requests for one savepoint, from 0: a refused one is made again later.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "instant",
        "attempt",
        "caused_by",
        "source",
    )

    instant: HudiInstant
    requested_by: Name
    reason: Text
    policy: PolicyName | None = None
    by_lifetime: bool = False
    tiers: tuple[TierName, ...] = Field(default=(), max_length=20)
    attempt: Count = 0

    @property
    def asked_by(self) -> str:
        """The name in the request."""
        return self.requested_by

    @property
    def asked_why(self) -> str | None:
        """The reason in the request."""
        return self.reason


class SavepointRemoved(Answer, frozen=True):
    """The savepoint is not on the timeline any more. `already_gone`: this attempt removed nothing.

    `files` are those that it kept; `made_by` and `made_at` are what its metadata said. None: it was
    gone, or had never been completed. `savepoints_left` are the table's others.
    """

    means: ClassVar[Verdict] = Verdict.DONE

    instant: Text
    policy: Text | None = None
    tiers: tuple[Text, ...] = ()
    made_by: Name | None = None
    made_at: AwareDatetime | None = None
    files: Count | None = None
    savepoints_left: Count
    already_gone: bool = False
    duration_ms: Count


class SavepointRemovalRejected(Answer, frozen=True):
    """The savepoint was not removed. `reason` is a code of `Reason`."""

    means: ClassVar[Verdict] = Verdict.REFUSED

    instant: Text
    reason: Text
    message: Message
