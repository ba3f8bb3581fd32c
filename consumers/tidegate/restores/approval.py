"""Approval of restores by a second person: for which tables, by whom, and whether it counts. Pure.

Whether an approval counts follows from the two commands in the broker. Outcomes, which other
producers may forge, can only prevent an approval from being used.
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
    """Whether restores of the tables in some directories need an approval, by whom, and how soon.

    A rule never depends on the table's name, because the requester chooses the name in a request.
    """

    locations: tuple[str, ...]
    """Normalised directories, see `covers_place`; empty: all tables."""
    is_needed: bool
    approved_by: tuple[str, ...] = ("*",)
    """Shell patterns of the approvers' names."""
    within: timedelta = timedelta(hours=24)
    """Maximum time between the two commands, by the broker's times."""


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """Rules in order: the first that covers a table decides; by default, no approval is needed."""

    rules: tuple[ApprovalRule, ...] = ()

    def rule_of(self, *spellings: str) -> ApprovalRule | None:
        """The rule of the table at a location; None: its restores need no approval."""
        matching = (rule for rule in self.rules if covers_place(rule.locations, *spellings))
        found = next(matching, None)
        return found if found is not None and found.is_needed else None


@dataclass(frozen=True, slots=True)
class Published(Generic[C_co]):
    """A command in the broker, with its offset, the broker's time and the verified signer."""

    command: C_co
    offset: int
    at: datetime
    signed_by: SignedBy | None = None

    @property
    def who(self) -> str:
        """The verified name; without a signature, the name in the command."""
        return self.signed_by.name if self.signed_by else self.command.asked_by

    @property
    def names(self) -> frozenset[str]:
        """Every possible name of the sender, normalised for comparison."""
        signed = [self.signed_by.name] if self.signed_by else []
        return frozenset(map(compared, [self.command.asked_by, *signed]))


@dataclass(frozen=True, slots=True)
class ApprovalCase:
    """An approval, the request that it names, and the outcomes of that request.

    Each command is the first authorized record of its id on the table's partition; None: there is
    none. Only outcomes of the request's table, location and savepoint count.
    """

    approval: Published[RestoreApproved] | None
    request: Published[RestoreRequested] | None
    outcomes: Sequence[Outcome] = ()

    @property
    def is_done(self) -> bool:
        """Whether the request has its final outcome under this approval."""
        if self.approval is None:
            return False
        done = [outcome for outcome in self.outcomes if self._is_last(outcome)]
        return any(_approval_of(last) == self.approval.command.event_id for last in done)

    def check(self, rule: ApprovalRule | None) -> RestoreRequested:
        """Return the request, which may be carried out if its plan is the approved one.

        Raises:
            Refused: the approval does not count.
        """
        if rule is None:
            raise Refused(
                Reason.APPROVAL_NOT_NEEDED,
                "no rule of [[restores.rules]] requires an approval of restores at this location",
            )
        approval, request = self.approval, self.request
        if approval is None or request is None or not _belongs(approval, request):
            raise Refused(
                Reason.NO_SUCH_REQUEST,
                "before the approval, the commands topic has no accepted request with this id for"
                " this table and location",
            )
        _check_approver(rule, approval, request)
        _check_time(rule, approval, request)
        self._check_awaiting(approval.command, request.command)
        return request.command

    def _check_awaiting(self, approval: RestoreApproved, request: RestoreRequested) -> None:
        if request.plan_only:
            raise Refused(Reason.NOT_AWAITING, "the request asks only for a plan")
        for outcome in self.outcomes:
            if self._is_last(outcome):
                raise Refused(
                    Reason.NOT_AWAITING, f"the request already has its {type(outcome).__name__}"
                )
            if _approval_of(outcome) not in (None, approval.event_id):
                raise Refused(
                    Reason.NOT_AWAITING,
                    f"approval {_approval_of(outcome)} was accepted before; publish that one again"
                    " to resume the restore",
                )

    def _is_last(self, outcome: Outcome) -> bool:
        """Whether this outcome is final for its request."""
        if isinstance(outcome, RestoreRejected):  # a restore that has begun can be resumed
            return not any(isinstance(outcome, RestoreStarted) for outcome in self.outcomes)
        return isinstance(outcome, RestoreCompleted | RestorePlanned)


def check_plan(approval: RestoreApproved, plan: PlannedRestore) -> None:
    """Check that the current plan is the approved one.

    Raises:
        Refused: the plan has changed; the new one has to be reviewed and approved.
    """
    if approval.plan_id not in plan.approved_by:
        current = " or ".join(sorted(plan.approved_by))
        raise Refused(
            Reason.PLAN_CHANGED,
            f"the plan is now {current}, not {approval.plan_id}: review the new plan, then approve"
            " it",
        )


def _belongs(approval: Published[RestoreApproved], request: Published[RestoreRequested]) -> bool:
    """Whether the approval is of this request and was published after it."""
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
    if not any(fnmatchcase(approval.who, pattern) for pattern in rule.approved_by):
        raise Refused(
            Reason.NOT_AN_APPROVER,
            f"{approval.who} is not listed in approved_by of the rule for {_shown(rule)}",
        )
    if approval.names & request.names:
        raise Refused(
            Reason.OWN_APPROVAL,
            f"{approval.who} requested this restore: a second person has to approve it",
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
            f"the request is of {request.at:%Y-%m-%dT%H:%M:%SZ} (broker's time) and had to be"
            f" approved by {expires:%Y-%m-%dT%H:%M:%SZ}; the approval is of"
            f" {approval.at:%Y-%m-%dT%H:%M:%SZ}",
        )


def _approval_of(outcome: Outcome) -> str | None:
    return getattr(outcome, "approval", None)
