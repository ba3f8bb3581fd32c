"""What the settings say of restores: approvals, and what follows from condemned commits."""

from __future__ import annotations

from datetime import timedelta

from tidegate.restores import ApprovalRule, ApprovalRules
from tidegate.savepoints import CondemnedAction, CondemnedRule, CondemnedRules
from tidegate.service.settings import Settings


def approval_rules(settings: Settings) -> ApprovalRules:
    """Which restores need the approval of a second person."""
    rules = (
        ApprovalRule(
            each.tables,
            each.approval,
            each.approved_by,
            timedelta(seconds=each.approve_within),
        )
        for each in settings.restores.rules
    )
    return ApprovalRules(tuple(rules))


def condemned_rules(settings: Settings) -> CondemnedRules:
    """What follows from condemned commits."""
    rules = (
        CondemnedRule(tables=each.tables, action=CondemnedAction(each.condemned))
        for each in settings.restores.rules
    )
    return CondemnedRules(rules=tuple(rules))
