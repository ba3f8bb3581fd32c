"""Simulate a policy over past commits: which savepoints would exist. Pure: publishes nothing.

The rules are the real ones (`retention.check`). Every check is carried out at once, as by the
writer on a table with only these commits that Hudi has never cleaned.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter

from tidegate.events import CommitCompleted
from tidegate.hudi.instant import moment_of
from tidegate.savepoints.retention import Check, Commit, Savepoint, check
from tidegate.savepoints.rules import SavepointRule, rule_of

_INSTANT = attrgetter("instant")


@dataclass(frozen=True, slots=True)
class _SimulatedSavepoint:
    """A savepoint that the policy would have made; `since` is the time of the commit's event."""

    table: str
    savepoint: Savepoint
    removed_at: datetime | None = None


@dataclass(slots=True)
class _Table:
    rule: SavepointRule | None
    commits: list[Commit] = field(default_factory=list[Commit])
    """Ascending by instant."""
    savepoints: dict[str, Savepoint] = field(default_factory=dict[str, Savepoint])
    removed: list[tuple[Savepoint, datetime]] = field(
        default_factory=list[tuple[Savepoint, datetime]]
    )
    next_check: datetime | None = None

    def check(self, at: datetime) -> None:
        while (found := self._found(at)).due:
            # as the writer does: one, then it reads again
            instant, tiers = next(iter(found.due.items()))
            name = self.rule.policy if self.rule else None
            new = Savepoint(instant, moment_of(instant, UTC), at, name)
            known = self.savepoints.get(instant, new)
            self.savepoints[instant] = replace(known, tiers=(*known.tiers, *tiers))
        for instant in found.removable:
            self.removed.append((self.savepoints.pop(instant), at))
        self.next_check = self._found(at).next_check

    def _found(self, at: datetime) -> Check:
        return check(self.rule, list(self.savepoints.values()), self.commits, at)


def simulated(
    rules: Sequence[SavepointRule],
    commits: Iterable[tuple[CommitCompleted, datetime]],
    now: datetime,
) -> tuple[int, list[_SimulatedSavepoint], list[_SimulatedSavepoint]]:
    """Apply the rules to commits, and let time pass until now.

    Args:
        rules: Of the policy.
        commits: In the order of the topic, each with the broker's time of its event.
        now: The time.

    Returns:
        The number of commits; the savepoints that would exist now, by table and instant; those
        that would have been removed again, by table, in the order of removal.
    """
    tables, count = defaultdict[str, _Table](lambda: _Table(None)), 0
    for count, (commit, at) in enumerate(commits, 1):  # noqa: B007 - the last is their number
        _pass(tables, at)
        table = tables[commit.table]
        table.rule = rule_of(rules, commit.table)
        if all(known.instant != commit.instant for known in reversed(table.commits)):
            made = Commit(
                commit.instant,
                moment_of(commit.instant, UTC),
                commit.completion_time,
                commit.operation,
            )
            insort(table.commits, made, key=_INSTANT)
        table.check(at)
    _pass(tables, now)
    by_name = sorted(tables.items())
    there = [
        _SimulatedSavepoint(name, savepoint)
        for name, table in by_name
        for savepoint in sorted(table.savepoints.values(), key=_INSTANT)
    ]
    gone = [
        _SimulatedSavepoint(name, savepoint, at)
        for name, table in by_name
        for savepoint, at in table.removed
    ]
    return count, there, gone


def _pass(tables: Mapping[str, _Table], until: datetime) -> None:
    """Let time pass, for every table."""
    for table in tables.values():
        while table.next_check is not None and table.next_check <= until:
            table.check(table.next_check)
