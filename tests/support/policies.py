"""Savepoint policies for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.samples import commit
from tidegate.events import Event, SavepointsCheckRequested
from tidegate.savepoints.rules import SavepointRule, TierRule


def policy_rule(
    *tiers: TierRule,
    name: str = "default",
    tables: str = "*",
    **limits: Any,  # noqa: ANN401 - any field
) -> SavepointRule:
    """A rule with these tiers, also such as the settings refuse: they have no end, for example."""
    made = SavepointRule.model_construct(policy=name, tables=tables, **limits)
    vars(made)["tiers"] = tiers  # else they follow from the settings
    return made


def every_commit(tables: str, name: str = "default") -> SavepointRule:
    """A savepoint of every commit, kept for ever."""
    return SavepointRule(policy=name, tables=tables, when="every_commit", lifetime="forever")


def checked_after(events: Iterable[Event]) -> list[tuple[str, int]]:
    """The tables whose check was requested, and the number of the commit that caused it."""
    found = [event for event in events if isinstance(event, SavepointsCheckRequested)]
    numbers = {commit(n, event.table).event_id: n for event in found for n in range(1, 20)}
    return [(event.table, numbers[event.caused_by or ""]) for event in found]
