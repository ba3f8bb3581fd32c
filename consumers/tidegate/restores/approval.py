"""Approval of restores by a second person: for which tables, by whom, and whether it counts. Pure.

The request and its approval are messages that the restore's task carries, as they were published.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase

from tidegate.events import RestoreApproved
from tidegate.events.reasons import Reason
from tidegate.restores.plan import PlannedRestore
from tidegate.runtime.protocols import Published
from tidegate.tables.refusal import Refused
from tidegate.tables.scope import covers_place


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


def check_approval(
    rule: ApprovalRule | None, approval: Published, request: Published
) -> RestoreApproved:
    """Return the approval, which counts if the plan is the approved one.

    Raises:
        Refused: the approval does not count.
    """
    command, restore = approval.command, request.command
    if not isinstance(command, RestoreApproved) or command.request != restore.event_id:
        raise Refused(Reason.NO_SUCH_REQUEST, "the task's approval is of another request")
    if (command.table, command.location) != (restore.table, restore.location):
        raise Refused(Reason.NO_SUCH_REQUEST, "the approval is of another table or location")
    if rule is None:
        raise Refused(
            Reason.APPROVAL_NOT_NEEDED,
            "no rule of [[restores.rules]] requires an approval of restores at this location",
        )
    _check_approver(rule, approval, request)
    _check_time(rule, approval, request)
    return command


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


def _shown(rule: ApprovalRule) -> str:
    return ", ".join(rule.locations) or "all tables"


def _check_approver(rule: ApprovalRule, approval: Published, request: Published) -> None:
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


def _check_time(rule: ApprovalRule, approval: Published, request: Published) -> None:
    expires = request.at + rule.within
    if approval.at > expires:
        raise Refused(
            Reason.APPROVAL_EXPIRED,
            f"the request is of {request.at:%Y-%m-%dT%H:%M:%SZ} (broker's time) and had to be"
            f" approved by {expires:%Y-%m-%dT%H:%M:%SZ}; the approval is of"
            f" {approval.at:%Y-%m-%dT%H:%M:%SZ}",
        )
