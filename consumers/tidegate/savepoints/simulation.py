"""Simulate a policy over past commits: which savepoints would exist. Pure: publishes nothing.

The rules are the real ones (`retention.check`). Every check is carried out at once, as by the
writer on a table with only these commits that Hudi has never cleaned.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter

from tidegate.events import CommitCompleted
from tidegate.hudi.instant import moment_of
from tidegate.savepoints.retention import Check, Commit, Savepoint, check
from tidegate.savepoints.rules import SavepointPolicy, SavepointRule

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


class Simulation:
    """Order of calls: `commit` for every commit in topic order, then `until`, then the results."""

    def __init__(self, policy: SavepointPolicy) -> None:
        """Take the policy."""
        self._policy = policy
        self._tables = defaultdict[str, _Table](lambda: _Table(None))

    def commit(self, commit: CommitCompleted, at: datetime) -> None:
        """Apply a commit whose event has the broker's time `at`."""
        self.until(at)
        table = self._tables[commit.table]
        table.rule = self._policy.rule_of(commit.table)
        if all(known.instant != commit.instant for known in reversed(table.commits)):
            made = Commit(
                commit.instant,
                moment_of(commit.instant, UTC),
                commit.completion_time,
                commit.operation,
            )
            insort(table.commits, made, key=_INSTANT)
        table.check(at)

    def until(self, now: datetime) -> None:
        """Let time pass, for every table."""
        for table in self._tables.values():
            while table.next_check is not None and table.next_check <= now:
                table.check(table.next_check)

    def savepoints(self) -> Iterator[_SimulatedSavepoint]:
        """The savepoints that would exist now, by table and instant."""
        for name, table in sorted(self._tables.items()):
            found = sorted(table.savepoints.values(), key=_INSTANT)
            yield from (_SimulatedSavepoint(name, savepoint) for savepoint in found)

    def removed(self) -> Iterator[_SimulatedSavepoint]:
        """The savepoints that would have been removed again, by table, in the order of removal."""
        for name, table in sorted(self._tables.items()):
            yield from (_SimulatedSavepoint(name, gone, at) for gone, at in table.removed)
