"""The savepoint policy: requests savepoints, and their removal when it is due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import singledispatchmethod
from typing import ClassVar, Final

from pydantic import ValidationError

from tidegate.errors import FormatError
from tidegate.events import (
    CommitCompleted,
    CommitCondemned,
    Event,
    RestoreAwaitingApproval,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    SavepointCreated,
    SavepointRejected,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    SavepointRequested,
)
from tidegate.events.reasons import Reason
from tidegate.hudi.instant_time import is_in_the_future
from tidegate.savepoints.condemned import CondemnedAction, CondemnedRules, decide_on_condemned
from tidegate.savepoints.policy_state import Decision, PolicyState, RememberedSavepoint, TierState
from tidegate.savepoints.retention import expires_at, newest_of_tiers, removals
from tidegate.savepoints.rules import PolicyRule, SavepointPolicy, Tier
from tidegate.savepoints.schedule import Wanted, periods_of, wanted

SAVEPOINTABLE: Final = frozenset({"commit", "deltacommit", "replacecommit"})
"""Actions whose commits may get a savepoint by policy."""
_GONE: Final = frozenset({Reason.NOT_OF_POLICY})
"""Refusals after which the policy no longer manages a savepoint."""


class SavepointPolicyService:
    """Requests savepoints on commits, once per instant, and the removal of expired savepoints.

    A removal is decided from the table's outcomes: at every outcome, at every commit, and when a
    lifetime ends (a tick). The writer checks it again on the table itself.
    """

    name: ClassVar[str] = "coordinator"
    consumes: ClassVar[tuple[type[Event], ...]] = (
        CommitCompleted,
        SavepointCreated,
        SavepointRejected,
        SavepointRemoved,
        SavepointRemovalRejected,
        RestorePlanned,
        RestoreRejected,
        RestoreFailed,
        CommitCondemned,
        RestoreAwaitingApproval,
    )

    def __init__(self, policy: SavepointPolicy, condemned: CondemnedRules | None = None) -> None:
        """Take the policy and the rules for condemned commits (by default no reaction).

        Neither changes while the service runs.
        """
        self.policy, self.condemned = policy, condemned or CondemnedRules()

    def initial(self) -> PolicyState:
        """The state before the first event."""
        return PolicyState()

    def decide(self, state: PolicyState, event: Event, at: datetime) -> Decision:
        """Request the savepoints and removals that are due, and record the event.

        Raises:
            FormatError: the commit's instant is so much later than `at`, the broker's time of the
                event, that neither clocks nor time zones explain the difference.
        """
        decision = self._apply(event, state, at)
        removed = self._removals(event.table, decision.state, at)
        commands = (*decision.commands, *removed.commands)
        return removed._replace(commands=commands, outcomes=decision.outcomes)

    def due(self, table: str, state: PolicyState) -> datetime | None:
        """When the next lifetime ends, or a refused removal is requested again."""
        rule = self.policy.rule_of(table)
        newest = newest_of_tiers(rule, state.kept) if rule else frozenset[str]()
        times = (self._due(rule, state, e) for e in state.kept if e.instant not in newest)
        return min((time_ for time_ in times if time_ is not None), default=None)

    def tick(self, table: str, state: PolicyState, at: datetime) -> Decision:
        """Request the removal of expired savepoints."""
        return self._removals(table, state, at)

    @staticmethod
    def _due(
        rule: PolicyRule | None, state: PolicyState, entry: RememberedSavepoint
    ) -> datetime | None:
        due = entry.ask_again_at or expires_at(rule, entry)
        wanted_until = state.wanted_until(entry.instant)
        return due if due is None or wanted_until is None else max(due, wanted_until)

    def _answers_condemned(self, event: CommitCompleted | SavepointCreated) -> bool:
        action = self.condemned.action_of(event.table, event.location)
        return action is not CondemnedAction.NOTHING

    @singledispatchmethod
    def _apply(
        self,
        event: Event,  # noqa: ARG002 - for the kinds that are consumed
        state: PolicyState,
        at: datetime,  # noqa: ARG002
    ) -> Decision:
        return Decision(state)

    @_apply.register
    def _(self, event: CommitCompleted, state: PolicyState, at: datetime) -> Decision:
        rule = self.policy.rule_of(event.table)
        answers = self._answers_condemned(event)
        if answers and event.instant > state.newest and not is_in_the_future(event.instant, at):
            state = state.with_(newest=event.instant)
        if rule is None or event.action not in SAVEPOINTABLE:
            return Decision(state)
        if is_in_the_future(event.instant, at):
            raise FormatError(
                f"the instant {event.instant} is more than a day later than the broker's time of"
                f" the event, {at:%Y-%m-%dT%H:%M:%SZ}: no writer can have completed it yet. Check"
                " the writer's clock, and that the topic has message.timestamp.type=LogAppendTime"
            )
        if state.has(event.instant, at):
            return Decision(state)
        what = wanted(rule, state, event, at)
        review = state.wants_review(at)
        requests = tuple(self._requests(rule, what, event, at, review=review))
        return Decision(_after(state, event, what, requests, at), requests)

    @_apply.register
    def _(self, event: CommitCondemned, state: PolicyState, at: datetime) -> Decision:
        action = self.condemned.action_of(event.table, event.location)
        return decide_on_condemned(action, state, event, at, self.name)

    @_apply.register
    def _(self, event: RestoreAwaitingApproval, state: PolicyState, at: datetime) -> Decision:
        return Decision(state.with_awaited(event.savepoint, event.expires_at, at))

    @_apply.register
    def _(self, event: SavepointCreated, state: PolicyState, at: datetime) -> Decision:
        if self._answers_condemned(event):
            state = state.with_lasting(event)
        try:
            return Decision(state.with_created(event, at))
        except ValidationError as error:  # an outcome's fields are wider than the state's
            raise FormatError(f"the savepoint can't be remembered: {error}") from error

    @_apply.register
    def _(
        self,
        event: SavepointRejected,
        state: PolicyState,
        at: datetime,  # noqa: ARG002
    ) -> Decision:
        lost = {tier for tier, last in state.tiers.items() if last.request == event.caused_by}
        if not lost:
            return Decision(state)
        tiers = {tier: last for tier, last in state.tiers.items() if tier not in lost}
        rule = self.policy.rule_of(event.table)
        every = rule.tier(Tier.EVERY_N) if rule and Tier.EVERY_N in lost else None
        commits = max(state.commits, every.commits - 1) if every else state.commits
        return Decision(state.with_(tiers=tiers, commits=commits))

    @_apply.register
    def _(
        self,
        event: SavepointRemoved,
        state: PolicyState,
        at: datetime,  # noqa: ARG002
    ) -> Decision:
        return Decision(state.without(event.instant))

    @_apply.register
    def _(
        self,
        event: SavepointRemovalRejected,
        state: PolicyState,
        at: datetime,  # noqa: ARG002
    ) -> Decision:
        return Decision(state.without(event.instant) if event.reason in _GONE else state)

    @_apply.register(RestorePlanned)
    @_apply.register(RestoreRejected)
    @_apply.register(RestoreFailed)
    def _(
        self,
        event: RestorePlanned | RestoreRejected | RestoreFailed,
        state: PolicyState,
        at: datetime,
    ) -> Decision:
        # the requester of a plan or of a restore that did not run may soon need the savepoint
        return Decision(state.with_wanted(event.savepoint, at))

    def _requests(
        self,
        rule: PolicyRule,
        what: Wanted,
        commit: CommitCompleted,
        at: datetime,
        *,
        review: bool,
    ) -> Iterator[SavepointRequested]:
        common = {"source": self.name, "occurred_at": at, "policy": rule.name}
        common["requested_by"] = f"policy:{rule.name}"
        if what.before:  # first: the commit's own savepoint may be far newer
            yield SavepointRequested.about(
                commit, **common, before=commit.instant, tiers=(Tier.BEFORE,)
            )
        if what.tiers:
            yield SavepointRequested.about(
                commit, **common, instant=commit.instant, tiers=what.tiers, review=review
            )

    def _removals(self, table: str, state: PolicyState, at: datetime) -> Decision:
        rule = self.policy.rule_of(table)
        found = {removal.instant: removal.why for removal in removals(rule, state.kept, at)}
        due = [
            savepoint
            for savepoint in state.kept
            if savepoint.instant in found
            and savepoint.may_be_asked(at)
            and not state.is_wanted(savepoint.instant, at)
        ]
        if not due:
            return Decision(state)
        asked = {savepoint.instant for savepoint in due}
        kept = tuple(
            savepoint.model_copy(update={"asked": savepoint.asked + 1, "asked_at": at})
            if savepoint.instant in asked
            else savepoint
            for savepoint in state.kept
        )
        event = {"table": table, "location": state.location, "occurred_at": at}
        event["source"] = self.name
        requests = tuple(
            _removal(rule, event, savepoint, found[savepoint.instant]) for savepoint in due
        )
        return Decision(state.with_(kept=kept), requests)


def _removal(
    rule: PolicyRule | None, event: Mapping[str, object], entry: RememberedSavepoint, why: str
) -> SavepointRemovalRequested:
    """The removal request; `event` has the fields that all requests share."""
    tiers = tuple(tier.tier for tier in rule.tiers) if rule and entry.policy else ()
    return SavepointRemovalRequested.model_validate(
        {
            **event,
            "caused_by": entry.cause,
            "instant": entry.instant,
            "requested_by": f"policy:{entry.policy}" if entry.policy else event["source"],
            "reason": why,
            "policy": entry.policy,
            "by_lifetime": entry.policy is None,
            "tiers": tiers,
            "attempt": entry.asked,
        }
    )


def _after(
    state: PolicyState,
    commit: CommitCompleted,
    what: Wanted,
    requests: tuple[SavepointRequested, ...],
    at: datetime,
) -> PolicyState:
    """The state after a commit was considered and led to these requests."""
    fields: dict[str, object] = {"instants": state.considered(commit.instant)}
    fields["commits"] = 0 if Tier.EVERY_N in what.tiers else state.commits + 1
    if requests:
        fields["last_at"] = at
    if what.tiers:
        if requests[-1].review:
            fields["review_asked_at"] = at
        made = {
            str(tier): TierState(period=period, request=requests[-1].event_id)
            for tier, period in periods_of(what.tiers, at)
        }
        fields["tiers"] = state.tiers | made
    return state.with_(**fields)
