"""Restores: what people ask for and decide, and the outcomes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field

from tidegate.errors import validation
from tidegate.events.base import Answer, ReasonedRequest, Refusal, Request, Value, Verdict
from tidegate.events.fields import Count, HudiInstant, Message, Name, Text

RequestId = Annotated[str, Field(pattern=validation.ID)]
"""The id of a request, as `EventId`; never empty."""


class InstantRef(Value, frozen=True):
    """An instant on a Hudi timeline, with the fields of Hudi's HoodieInstantInfo."""

    instant: Text
    action: Text


class RestoreRequested(ReasonedRequest, frozen=True):
    """Roll the table back to a savepoint. This destroys every later commit.

    With `plan_only` the plan is published and nothing is changed. With `expected_plan` the restore
    is refused unless the plan made from the table as it is now has that id. `seen_up_to` is the
    latest instant that the requester knew of: the request covers no commit after it. With
    `needs_approval` it is refused where the settings ask for no approval.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "savepoint",
        "plan_only",
        "caused_by",
        "source",
    )

    savepoint: HudiInstant
    plan_only: bool = False
    expected_plan: Text | None = None
    seen_up_to: HudiInstant | None = None
    needs_approval: bool = False


class _RestorePlan(Answer, frozen=True):
    """The plan of a restore: the fields that RestorePlanned and RestoreStarted share.

    `metadata_table` says whether Hudi's metadata table is kept or dropped, and why; None without
    one.
    """

    savepoint: Text
    plan_id: Text
    instants: tuple[InstantRef, ...]
    files: Count
    bytes: Count
    metadata_table: Text | None = None


class RestorePlanned(_RestorePlan, frozen=True):
    """The plan of a requested restore; nothing was changed.

    `message` says why only a plan was made, if the request did not ask for a plan alone.
    """

    message: Text | None = None

    @property
    def verdict(self) -> Verdict:
        """Done: the plan was asked for. A `message` says why it came instead of a restore."""
        return Verdict.DONE if self.message is None else Verdict.REFUSED


class OfApproval(Answer, frozen=True):
    """An outcome of a restore: under which `approval` (its id) it was carried out, and whose.

    All are None where none was needed. `approved_by` is as the approval says, `approval_signed_by`
    the name whose key signed it; None: no signature was verified.
    """

    approval: Text | None = None
    approved_by: Name | None = None
    approval_signed_by: Name | None = None


class RestoreStarted(_RestorePlan, OfApproval, frozen=True):
    """The restore starts to change the table; `resumed` if an earlier attempt had started."""

    restore_instant: Text
    resumed: bool = False


class RestoreProgressed(OfApproval, frozen=True):
    """How far a restore is. Published at most every twenty seconds, between two instants."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "restore_instant", "instants_done")

    savepoint: Text
    restore_instant: Text
    instants_done: Count
    instants_total: Count
    files_done: Count
    files_total: Count


class RestoreCompleted(OfApproval, frozen=True):
    """The savepointed commit is the table's last completed commit again.

    With `already_done` it was before this attempt, which deleted nothing; the counts are those of
    the first time. `metadata_table` is the fate of Hudi's metadata table, and why; None
    without one, or if it is not known any more.
    """

    means: ClassVar[Verdict] = Verdict.DONE

    savepoint: Text
    restore_instant: Text
    instants: tuple[InstantRef, ...]
    files_deleted: Count
    duration_ms: Count
    already_done: bool = False
    metadata_table: Text | None = None


class RestoreRejected(Refusal, OfApproval, frozen=True):
    """The restore was refused and nothing was changed."""

    savepoint: Text


class RestoreFailed(OfApproval, frozen=True):
    """The restore started and could not finish; another request to the savepoint resumes it."""

    means: ClassVar[Verdict] = Verdict.FAILED

    savepoint: Text
    restore_instant: Text
    message: Message


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


class RestoreAwaitingApproval(_RestorePlan, frozen=True):
    """The plan of a requested restore that waits for a second person; nothing was changed.

    An approval counts if the broker has it by `expires_at`, its own time; None: it has forgotten
    the request.
    """

    means: ClassVar[Verdict] = Verdict.AWAITING

    expires_at: AwareDatetime | None = None


class RestoreApprovalRejected(Refusal, frozen=True):
    """An approval was refused. The request waits as before."""

    request: Text


class Withdrawal(ReasonedRequest, frozen=True):
    """A person wants a request to end before it has begun.

    `request` is its id. If it waits, it ends at once; a running task is stopped first.
    What has begun goes on.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "request", "caused_by", "source")

    request: RequestId


class WithdrawalRequested(Withdrawal, frozen=True):
    """The requester, or another one for the table, withdraws the request `request`."""


class RestoreDeclined(Withdrawal, frozen=True):
    """An approver rejects the restore that `request` asks for."""


class RequestWithdrawn(Answer, frozen=True):
    """The request has ended, before it changed anything. Its own outcome is a refusal."""

    means: ClassVar[Verdict] = Verdict.DONE

    request: Text


class WithdrawalRefused(Refusal, frozen=True):
    """The request goes on, or has ended. `reason` is a code of `Reason`: mostly `too-late`."""

    request: Text
