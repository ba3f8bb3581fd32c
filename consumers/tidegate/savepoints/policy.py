"""When to ask for a savepoint: a frozen policy, and the decider that applies it to commits."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import ClassVar, Final

from tidegate.events import CommitCompleted, Event, SavepointRequested, Value
from tidegate.events.base import Text
from tidegate.runtime.services import Decision

REMEMBERED: Final = 256
_SAVEPOINTABLE: Final = frozenset({"commit", "deltacommit", "replacecommit"})


class SavepointMode(StrEnum):
    """When a table gets its savepoints."""

    EVERY_COMMIT = "every_commit"
    ON_REQUEST = "on_request"


class SavepointRule(Value, frozen=True):
    """A mode for the tables whose identity matches `pattern` (`*`, `?` and `[...]`)."""

    pattern: Text
    mode: SavepointMode

    def covers(self, table: str) -> bool:
        """Whether a table (`catalog.database.table`, lower case) falls under this rule."""
        return fnmatchcase(table, self.pattern.lower())


class SavepointPolicy(Value, frozen=True):
    """Rules in order: the first that covers a table counts; a table without one is on request."""

    name: Text = "default"
    rules: tuple[SavepointRule, ...] = ()

    def mode_of(self, table: str) -> SavepointMode:
        """The mode of a table."""
        modes = (rule.mode for rule in self.rules if rule.covers(table))
        return next(modes, SavepointMode.ON_REQUEST)


class AskedInstants(Value, frozen=True):
    """A table's instants that a savepoint was asked for, ascending, the last REMEMBERED of them.

    Instants order as strings, as in Hudi. Once the memory is full, an instant below the least
    remembered one counts as asked for: a late repeat never asks twice, at the price that a commit
    told of more than REMEMBERED commits late gets no savepoint by policy.
    """

    instants: tuple[str, ...] = ()

    def has(self, instant: str) -> bool:
        """Whether a savepoint was asked for on this instant, or it is too old to know."""
        forgotten = len(self.instants) == REMEMBERED and instant < self.instants[0]
        return forgotten or instant in self.instants

    def with_(self, instant: str) -> AskedInstants:
        """The memory with one more instant in it."""
        return AskedInstants(instants=tuple(sorted((*self.instants, instant)))[-REMEMBERED:])


class SavepointPolicyService:
    """Asks for a savepoint on every commit of the tables whose policy says so, once an instant."""

    name: ClassVar[str] = "savepoint-policy"
    hears: ClassVar[tuple[type[Event], ...]] = (CommitCompleted,)
    state_type: type[AskedInstants] = AskedInstants

    def __init__(self, policy: SavepointPolicy) -> None:
        """Take the policy; it does not change while the service runs."""
        self.policy = policy

    def initial(self) -> AskedInstants:
        """Nothing asked for yet."""
        return AskedInstants()

    def decide(self, state: AskedInstants, event: Event, at: datetime) -> Decision[AskedInstants]:
        """Ask for a savepoint on a commit that can have one and was not asked for before."""
        if not isinstance(event, CommitCompleted) or not self._wants(event):
            return Decision(state)
        if state.has(event.instant):
            return Decision(state)
        request = SavepointRequested.about(
            event,
            said_by=self.name,
            occurred_at=at,
            instant=event.instant,
            requested_by=f"policy:{self.policy.name}",
        )
        return Decision(state.with_(event.instant), (request,))

    def _wants(self, commit: CommitCompleted) -> bool:
        return (
            commit.action in _SAVEPOINTABLE
            and self.policy.mode_of(commit.table) is SavepointMode.EVERY_COMMIT
        )
