"""What people decide about a request: approve it, reject it, withdraw it; and the outcomes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field

from tidegate.errors import validation
from tidegate.events.base import ReasonedRequest, Request
from tidegate.events.limits import Message, Text
from tidegate.events.names import Name
from tidegate.events.outcomes import Answer, RestorePlan
from tidegate.events.verdict import Verdict

RequestId = Annotated[str, Field(pattern=validation.ID)]
"""The id of a request, as `EventId`; never empty."""


class RestoreApproved(Request, frozen=True):
    """A second person approves the restore that `request` asks for, by the plan `plan_id`.

    It counts only for that request, that plan, and for a time after the request. The requester
    of the restore cannot approve it.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "request",
        "plan_id",
        "caused_by",
        "source",
    )

    request: RequestId
    plan_id: Text
    approved_by: Name
    reason: Text

    @property
    def asked_by(self) -> str:
        """The name in the approval."""
        return self.approved_by

    @property
    def asked_why(self) -> str | None:
        """The reason in the approval."""
        return self.reason


class RestoreAwaitingApproval(RestorePlan, frozen=True):
    """The plan of a requested restore that waits for a second person; nothing was changed.

    An approval counts if the broker has it by `expires_at`, its own time; None: it has forgotten
    the request.
    """

    means: ClassVar[Verdict] = Verdict.AWAITING

    expires_at: AwareDatetime | None = None


class RestoreApprovalRejected(Answer, frozen=True):
    """An approval was refused. `reason` is a code of `Reason`. The request waits as before."""

    means: ClassVar[Verdict] = Verdict.REFUSED

    request: Text
    reason: Text
    message: Message


class Withdrawal(ReasonedRequest, frozen=True):
    """A person wants a request to end before it has begun.

    `request` is its id. If it waits, it ends at once; a task that is under way is stopped first.
    What has begun goes on.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "request", "caused_by", "source")

    request: RequestId

    @property
    def asked_why(self) -> str | None:
        """The reason in the withdrawal."""
        return self.reason


class WithdrawalRequested(Withdrawal, frozen=True):
    """The requester, or another one for the table, withdraws the request `request`."""


class RestoreDeclined(Withdrawal, frozen=True):
    """An approver rejects the restore that `request` asks for."""


class RequestWithdrawn(Answer, frozen=True):
    """The request has ended, before it changed anything. Its own outcome is a refusal."""

    means: ClassVar[Verdict] = Verdict.DONE

    request: Text


class WithdrawalRefused(Answer, frozen=True):
    """The request goes on, or has ended. `reason` is a code of `Reason`: mostly `too-late`."""

    means: ClassVar[Verdict] = Verdict.REFUSED

    request: Text
    reason: Text
    message: Message
