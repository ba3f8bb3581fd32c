"""Approval of restores by a second person: for which tables, by whom, and whether one counts. Pure.

What counts is decided from the two commands as the broker has them. Outcomes, which others may
forge, can only keep an approval from being used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from tidegate.events import (
    Command,
    Outcome,
    RestoreApproved,
    RestoreCompleted,
    RestorePlanned,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.events.names import compared
from tidegate.events.reasons import Reason
from tidegate.restores.plan import PlannedRestore
from tidegate.runtime.authorization import SignedBy
from tidegate.tables.refusal import Refused
from tidegate.tables.scope import covers_place

C_co = TypeVar("C_co", bound=Command, covariant=True)


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Whether restores of the tables in some directories need an approval; whose, and how soon.

    Never by the table's name: its catalog is what the requester says.
    """

    locations: tuple[str, ...]
    """Normalised directories, see `covers_place`; empty: all tables."""
    is_needed: bool
    approved_by: tuple[str, ...] = ("*",)
    """Shell patterns of names."""
    within: timedelta = timedelta(hours=24)
    """By the broker's times of the two commands."""


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """Rules in order: the first that covers a table decides; without one, none is needed."""

    rules: tuple[ApprovalRule, ...] = ()

    def rule_of(self, *spellings: str) -> ApprovalRule | None:
        """The rule of the table at a location, if its restores need an approval."""
        matching = (rule for rule in self.rules if covers_place(rule.locations, *spellings))
        found = next(matching, None)
        return found if found is not None and found.is_needed else None


@dataclass(frozen=True, slots=True)
class Published(Generic[C_co]):
    """A command as the broker has it: when and where it was appended, and whose key signed it."""

    command: C_co
    offset: int
    at: datetime
    signed_by: SignedBy | None = None

    @property
    def who(self) -> str:
        """The verified name; without a signature, what the command itself says."""
        return self.signed_by.name if self.signed_by else self.command.asked_by

    @property
    def names(self) -> frozenset[str]:
        """Every name that the command may be of, as they are compared."""
        signed = [self.signed_by.name] if self.signed_by else []
        return frozenset(map(compared, [self.command.asked_by, *signed]))


@dataclass(frozen=True, slots=True)
class ApprovalCase:
    """An approval, the request that it names, and the outcomes of that request.

    Both are the first records of their ids on the table's partition that are authorized; None:
    there is none. Only outcomes count that are about the request's table, location and savepoint.
    """

    approval: Published[RestoreApproved] | None
    request: Published[RestoreRequested] | None
    outcomes: Sequence[Outcome] = ()

    @property
    def is_done(self) -> bool:
        """Whether the request has its last outcome, under this very approval."""
        if self.approval is None:
            return False
        done = [outcome for outcome in self.outcomes if self._is_last(outcome)]
        return any(_approval_of(each) == self.approval.command.event_id for each in done)

    def check(self, rule: ApprovalRule | None) -> RestoreRequested:
        """The request, which may be carried out if the plan is the approved one.

        Raises:
            Refused: the approval does not count, and why.
        """
        if rule is None:
            raise Refused(
                Reason.APPROVAL_NOT_NEEDED,
                "no rule of [[restores.rules]] asks for an approval of restores at this location",
            )
        approval, request = self.approval, self.request
        if approval is None or request is None or not _belongs(approval, request):
            raise Refused(
                Reason.NO_SUCH_REQUEST,
                "the commands topic has no accepted request of this id for this table and location"
                " before the approval",
            )
        _check_approver(rule, approval, request)
        _check_time(rule, approval, request)
        self._check_awaiting(approval.command, request.command)
        return request.command

    def _check_awaiting(self, approval: RestoreApproved, request: RestoreRequested) -> None:
        if request.plan_only:
            raise Refused(Reason.NOT_AWAITING, "the request asks for a plan alone")
        for outcome in self.outcomes:
            if self._is_last(outcome):
                raise Refused(Reason.NOT_AWAITING, f"the request has its {type(outcome).__name__}")
            if _approval_of(outcome) not in (None, approval.event_id):
                raise Refused(
                    Reason.NOT_AWAITING,
                    f"approval {_approval_of(outcome)} was accepted before: published again, it"
                    " resumes the restore",
                )

    def _is_last(self, outcome: Outcome) -> bool:
        """Whether nothing more is done for a request that has this outcome."""
        if isinstance(outcome, RestoreRejected):  # one that was begun can be resumed
            return not any(isinstance(outcome, RestoreStarted) for outcome in self.outcomes)
        return isinstance(outcome, RestoreCompleted | RestorePlanned)


def check_plan(approval: RestoreApproved, plan: PlannedRestore) -> None:
    """Check that the plan made now is the one that was approved.

    Raises:
        Refused: it is another; the new one has to be looked at and approved.
    """
    if approval.plan_id not in plan.approved_by:
        current = " or ".join(sorted(plan.approved_by))
        raise Refused(
            Reason.PLAN_CHANGED,
            f"the plan is {current} by now, not {approval.plan_id}: look at it again, then approve"
            " that one",
        )


def _belongs(approval: Published[RestoreApproved], request: Published[RestoreRequested]) -> bool:
    """Whether the approval is of this request, which was there before it."""
    ours, theirs = approval.command, request.command
    return (
        ours.request == theirs.event_id
        and (ours.table, ours.location) == (theirs.table, theirs.location)
        and request.offset < approval.offset
    )


def _shown(rule: ApprovalRule) -> str:
    return ", ".join(rule.locations) or "all tables"


def _check_approver(
    rule: ApprovalRule, approval: Published[RestoreApproved], request: Published[RestoreRequested]
) -> None:
    if not any(fnmatchcase(approval.who, each) for each in rule.approved_by):
        raise Refused(
            Reason.NOT_AN_APPROVER,
            f"{approval.who} is not listed in approved_by of the rule for {_shown(rule)}",
        )
    if approval.names & request.names:
        raise Refused(
            Reason.OWN_APPROVAL,
            f"{approval.who} asked for this restore: a second person has to approve it",
        )
    keys = approval.signed_by, request.signed_by
    if keys[0] and keys[1] and keys[0].key_id == keys[1].key_id:
        raise Refused(
            Reason.OWN_APPROVAL, "the request and the approval are signed with the same key"
        )


def _check_time(
    rule: ApprovalRule, approval: Published[RestoreApproved], request: Published[RestoreRequested]
) -> None:
    expires = request.at + rule.within
    if approval.at > expires:
        raise Refused(
            Reason.APPROVAL_EXPIRED,
            f"the broker got the request at {request.at:%Y-%m-%dT%H:%M:%SZ} and the approval at"
            f" {approval.at:%Y-%m-%dT%H:%M:%SZ}: it had to have it by {expires:%Y-%m-%dT%H:%M:%SZ}",
        )


def _approval_of(outcome: Outcome) -> str | None:
    return getattr(outcome, "approval", None)
