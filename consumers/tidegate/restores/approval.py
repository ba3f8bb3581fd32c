"""Approval of restores by a second person: whether it counts. Pure.

The request and its approval are messages that the restore's task carries, as they were published.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from tidegate.events import RestoreApproved
from tidegate.events.reasons import Reason
from tidegate.restores.plan import PlannedRestore
from tidegate.restores.settings import RestoreRule
from tidegate.runtime.protocols import Published
from tidegate.tables.refusal import Refused


def check_approval(
    rule: RestoreRule | None, approval: Published, request: Published
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


def check_plan(plan: PlannedRestore, reviewed: str, then: str) -> None:
    """Check that the current plan is the one with the reviewed id.

    Raises:
        Refused: the plan has changed; `then` is what to do once the new one is reviewed.
    """
    if reviewed not in plan.approved_by:
        current = " or ".join(sorted(plan.approved_by))
        raise Refused(
            Reason.PLAN_CHANGED,
            f"the plan is now {current}, not {reviewed}: review the new plan, then {then}",
        )


def _check_approver(rule: RestoreRule, approval: Published, request: Published) -> None:
    who = approval.signer or approval.command.asked_by
    if not any(fnmatchcase(who, pattern) for pattern in rule.approved_by):
        raise Refused(
            Reason.NOT_AN_APPROVER,
            f"{approval.named} is not listed in approved_by of the rule for"
            f" {', '.join(rule.locations) or 'all tables'}",
        )
    if shared := approval.names & request.names:
        raise Refused(
            Reason.OWN_APPROVAL,
            f"requested by {request.named}, approved by {approval.named}: both have the name"
            f" {', '.join(sorted(shared))}; a second person has to approve it",
        )
    keys = approval.signed_by, request.signed_by
    if keys[0] and keys[1] and keys[0].public.key_id == keys[1].public.key_id:
        raise Refused(
            Reason.OWN_APPROVAL, "the request and the approval are signed with the same key"
        )


def _check_time(rule: RestoreRule, approval: Published, request: Published) -> None:
    expires = request.at + rule.within
    if approval.at > expires:
        raise Refused(
            Reason.APPROVAL_EXPIRED,
            f"the request is of {request.at:%Y-%m-%dT%H:%M:%SZ} (broker's time) and had to be"
            f" approved by {expires:%Y-%m-%dT%H:%M:%SZ}; the approval is of"
            f" {approval.at:%Y-%m-%dT%H:%M:%SZ}",
        )
