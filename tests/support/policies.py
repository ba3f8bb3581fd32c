"""Savepoint policies for tests."""

from __future__ import annotations

from tidegate.savepoints import PolicyRule, Tier, TierRule


def every_commit(pattern: str, name: str = "default") -> PolicyRule:
    """A savepoint of every commit, kept for ever."""
    return PolicyRule(name=name, pattern=pattern, tiers=(TierRule(tier=Tier.EVERY_COMMIT),))
