"""Savepoint policies for tests."""

from __future__ import annotations

from collections.abc import Iterable

from support.samples import commit
from tidegate.events import Event, SavepointsCheckRequested
from tidegate.savepoints.rules import PolicyRule, Tier, TierRule


def every_commit(pattern: str, name: str = "default") -> PolicyRule:
    """A savepoint of every commit, kept for ever."""
    return PolicyRule(name=name, pattern=pattern, tiers=(TierRule(tier=Tier.EVERY_COMMIT),))


def checked_after(events: Iterable[Event]) -> list[tuple[str, int]]:
    """The tables whose check was requested, and the number of the commit that caused it."""
    found = [event for event in events if isinstance(event, SavepointsCheckRequested)]
    numbers = {commit(n, event.table).event_id: n for event in found for n in range(1, 20)}
    return [(event.table, numbers[event.caused_by or ""]) for event in found]
