"""Simulate a policy over past commits: which savepoints would exist. Pure: publishes nothing.

The policy is the real one. Every request is carried out at once, as by the writer on a table
with only these commits that Hudi has never cleaned.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.errors import FormatError
from tidegate.events import (
    CommitCompleted,
    Event,
    Outcome,
    SavepointCreated,
    SavepointMark,
    SavepointRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    SavepointRequested,
)
from tidegate.events.reasons import Reason
from tidegate.savepoints.policy import SavepointPolicyService
from tidegate.savepoints.policy_state import PolicyState

_WRITER = "savepoint-writer"


@dataclass(frozen=True, slots=True)
class SimulatedSavepoint:
    """A savepoint that the policy would have made."""

    table: str
    instant: str
    mark: SavepointMark
    made_at: datetime
    """The broker's time of the commit that caused it."""
    removed_at: datetime | None = None


@dataclass(slots=True)
class _Table:
    state: PolicyState
    commits: list[str] = field(default_factory=list[str])
    """Their instants, ascending."""
    savepoints: dict[str, SimulatedSavepoint] = field(default_factory=dict[str, SimulatedSavepoint])
    removed: list[SimulatedSavepoint] = field(default_factory=list[SimulatedSavepoint])
    due: datetime | None = None


class Simulation:
    """Order of calls: `commit` for every commit in topic order, then `until`, then the results.

    Removals that become due between two commits are carried out in between.
    """

    def __init__(self, service: SavepointPolicyService) -> None:
        """Take the policy."""
        self.service = service
        self.refused: list[tuple[CommitCompleted, str]] = []
        """Commits that would have become dead letters, and why."""
        self._tables: defaultdict[str, _Table] = defaultdict(lambda: _Table(service.initial()))

    def commit(self, commit: CommitCompleted, at: datetime) -> None:
        """Apply a commit whose event has the broker's time `at`."""
        self.until(at)
        table = self._tables[commit.table]
        place = bisect_left(table.commits, commit.instant)
        if commit.instant not in table.commits[place : place + 1]:
            insort(table.commits, commit.instant)
        try:
            self._decide(table, commit, at)
        except FormatError as error:
            self.refused.append((commit, str(error)))

    def until(self, now: datetime) -> None:
        """Let time pass, for every table."""
        for name, table in self._tables.items():
            while table.due is not None and table.due <= now:
                at = table.due
                decision = self.service.tick(name, table.state, at)
                table.state = decision.state
                self._answer(table, decision.commands, at)
                due = self.service.due(name, table.state)
                table.due = due if due is None or due > at else None

    def savepoints(self) -> Iterator[SimulatedSavepoint]:
        """The savepoints that would exist now, by table and instant."""
        for _, table in sorted(self._tables.items()):
            yield from (savepoint for _, savepoint in sorted(table.savepoints.items()))

    def removed(self) -> Iterator[SimulatedSavepoint]:
        """The savepoints that would have been removed again, by table, in the order of removal."""
        for _, table in sorted(self._tables.items()):
            yield from table.removed

    def _decide(self, table: _Table, event: Event, at: datetime) -> None:
        decision = self.service.decide(table.state, event, at)
        table.state = decision.state
        self._answer(table, decision.commands, at)
        table.due = self.service.due(event.table, table.state)

    def _answer(self, table: _Table, commands: Iterable[Event], at: datetime) -> None:
        for command in commands:
            if isinstance(command, SavepointRequested):
                self._decide(table, self._made(table, command, at), at)
            elif isinstance(command, SavepointRemovalRequested):
                self._decide(table, self._removed(table, command, at), at)

    def _made(self, table: _Table, command: SavepointRequested, at: datetime) -> Outcome:
        instant = command.instant
        if command.before is not None:
            place = bisect_left(table.commits, command.before)
            instant = table.commits[place - 1] if place else None
        common = {"source": _WRITER, "occurred_at": at}
        if instant is None or command.mark is None:
            return SavepointRejected.about(
                command, **common, reason=Reason.NO_SUCH_COMMIT, message="no commit precedes it"
            )
        there = table.savepoints.get(instant)
        mark = there.mark if there else command.mark
        merged = tuple(dict.fromkeys((*mark.tiers, *command.tiers)))
        mark = SavepointMark.model_validate(mark.model_dump() | {"tiers": merged})
        made_at = there.made_at if there else at
        table.savepoints[instant] = SimulatedSavepoint(command.table, instant, mark, made_at)
        return SavepointCreated.about(
            command,
            **common,
            instant=instant,
            partitions=0,
            files=0,
            already_there=there is not None,
            duration_ms=0,
            **mark.model_dump(),
        )

    @staticmethod
    def _removed(
        table: _Table, command: SavepointRemovalRequested, at: datetime
    ) -> SavepointRemoved:
        gone = table.savepoints.pop(command.instant, None)
        if gone is not None:
            table.removed.append(
                SimulatedSavepoint(gone.table, gone.instant, gone.mark, gone.made_at, at)
            )
        return SavepointRemoved.about(
            command,
            source=_WRITER,
            occurred_at=at,
            instant=command.instant,
            savepoints_left=len(table.savepoints),
            duration_ms=0,
        )
