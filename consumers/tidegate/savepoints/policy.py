"""When to request a savepoint: a frozen policy, and the decider that applies it to commits."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import ClassVar, Final

from tidegate.errors import FormatError
from tidegate.events import CommitCompleted, Event, SavepointRequested, Value
from tidegate.events.limits import Text
from tidegate.hudi.instant_time import is_in_the_future, is_long_ago
from tidegate.runtime.protocols import Decision

REMEMBERED: Final = 256
_SAVEPOINTABLE: Final = frozenset({"commit", "deltacommit", "replacecommit"})


class SavepointMode(StrEnum):
    """When a table gets its savepoints."""

    EVERY_COMMIT = "every_commit"
    ON_REQUEST = "on_request"


class PolicyRule(Value, frozen=True):
    """A mode for the tables whose identity matches `pattern` (`*`, `?` and `[...]`)."""

    pattern: Text
    mode: SavepointMode

    def covers(self, table: str) -> bool:
        """Whether this rule applies to a table (`catalog.database.table`, lower case)."""
        return fnmatchcase(table, self.pattern.lower())


class SavepointPolicy(Value, frozen=True):
    """Rules in order: the first that covers a table applies; by default ON_REQUEST."""

    name: Text = "default"
    rules: tuple[PolicyRule, ...] = ()

    def mode_of(self, table: str) -> SavepointMode:
        """The mode of a table."""
        modes = (rule.mode for rule in self.rules if rule.covers(table))
        return next(modes, SavepointMode.ON_REQUEST)


class RequestedInstants(Value, frozen=True):
    """A table's instants for which a savepoint was requested: the last REMEMBERED, ascending.

    Instants order as strings, as in Hudi. Once the memory is full, an old instant below the least
    remembered one counts as requested: a late repeat never requests twice, at the price that a
    commit published more than REMEMBERED commits and a day late gets no savepoint by policy.

    That price is never asked of a commit that may be new: whoever fills the memory with instants of
    today can have savepoints requested twice, which the writer recognises, and never not at all.
    """

    instants: tuple[str, ...] = ()

    def has(self, instant: str, at: datetime) -> bool:
        """Whether a savepoint was requested on this instant, or it is too old at `at` to know."""
        full = len(self.instants) == REMEMBERED
        forgotten = full and instant < self.instants[0] and is_long_ago(instant, at)
        return forgotten or instant in self.instants

    def with_(self, instant: str) -> RequestedInstants:
        """The memory with one more instant in it."""
        return RequestedInstants(instants=tuple(sorted((*self.instants, instant)))[-REMEMBERED:])


class SavepointPolicyService:
    """Requests a savepoint on every commit of the tables whose policy says so, once an instant."""

    name: ClassVar[str] = "savepoint-policy"
    consumes: ClassVar[tuple[type[Event], ...]] = (CommitCompleted,)
    state_type: type[RequestedInstants] = RequestedInstants

    def __init__(self, policy: SavepointPolicy) -> None:
        """Take the policy; it does not change while the service runs."""
        self.policy = policy

    def initial(self) -> RequestedInstants:
        """Nothing requested yet."""
        return RequestedInstants()

    def decide(
        self, state: RequestedInstants, event: Event, at: datetime
    ) -> Decision[RequestedInstants]:
        """Request a savepoint on a commit that can have one and has none requested.

        Raises:
            FormatError: the commit's instant is later than `at`, when the broker got the event: no
                clock and no time zone explains that.
        """
        if not isinstance(event, CommitCompleted) or not self._wants(event):
            return Decision(state)
        if is_in_the_future(event.instant, at):
            raise FormatError(
                f"the instant {event.instant} is more than a day after the broker got the event, at"
                f" {at:%Y-%m-%dT%H:%M:%SZ}: no writer has completed it; if one has, its clock is"
                " wrong, or the topic keeps the producers' times (message.timestamp.type)"
            )
        if state.has(event.instant, at):
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
