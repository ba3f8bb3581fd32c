"""Removing a savepoint: the request and its outcomes."""

from __future__ import annotations

from typing import ClassVar

from pydantic import AwareDatetime

from tidegate.events.base import ReasonedRequest
from tidegate.events.limits import Count, HudiInstant, Message, Text
from tidegate.events.names import Name
from tidegate.events.outcomes import Answer
from tidegate.events.verdict import Verdict


class SavepointRemovalRequested(ReasonedRequest, frozen=True):
    """Remove a savepoint: Hudi may clean what only it kept. The table's rows stay as they are.

    A person may remove any savepoint. The savepoint writer removes those whose time is over at a
    check, without such a request.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "instant", "caused_by", "source")

    instant: HudiInstant

    @property
    def asked_why(self) -> str | None:
        """The reason in the request."""
        return self.reason


class SavepointRemoved(Answer, frozen=True):
    """The savepoint is not on the timeline any more. `already_gone`: this attempt removed nothing.

    `files` are those that it kept; `made_by` and `made_at` are what its metadata said. None: it was
    gone, or had never been completed. `savepoints_left` are the table's others.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")
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

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")
    means: ClassVar[Verdict] = Verdict.REFUSED

    instant: Text
    reason: Text
    message: Message
