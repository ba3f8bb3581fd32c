"""Describe the savepoint rule of a table in one sentence. Pure.

The rules come from the caller's settings. A service with other settings decides differently.
"""

from __future__ import annotations

from tidegate.events.durations import span
from tidegate.savepoints.rules import SavepointPolicy, Tier, TierRule


def described_rule(policy: SavepointPolicy, table: str) -> str:
    """The rule that applies to a table, and what its tiers keep."""
    covering = next((n for n, rule in enumerate(policy.rules, 1) if rule.covers(table)), None)
    if covering is None:
        return "no rule of [[savepoints]] covers this table: savepoints on request only"
    rule = policy.rules[covering - 1]
    named = f"rule {covering} of [[savepoints]] (policy {rule.name}, tables {rule.pattern!r})"
    if not rule.tiers:
        return f"{named}: savepoints on request only"
    parts = [_described(tier) for tier in rule.tiers]
    parts += [f"at least {span(rule.min_gap)} apart"] if rule.min_gap else []
    parts += [f"at most {rule.max_count} in all"] if rule.max_count else []
    return f"{named}: {', '.join(parts)}"


def _described(tier: TierRule) -> str:
    named = f"every {tier.commits} commits" if tier.tier is Tier.EVERY_N else str(tier.tier)
    if tier.operations:
        named += f" {', '.join(tier.operations)}"
    keep = [f"the newest {tier.keep}"] if tier.keep else []
    keep += [f"for {span(tier.lifetime)}"] if tier.lifetime else []
    return f"{named} (retained: {' '.join(keep) or 'forever'})"
