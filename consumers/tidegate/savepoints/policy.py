"""The savepoint policy: a decider that requests savepoints, and their removal when it is time."""

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
from tidegate.runtime.protocols import Decision
from tidegate.savepoints.condemned import CondemnedAction, CondemnedRules, decide_on_condemned
from tidegate.savepoints.policy_state import KeptEntry, PolicyState, TierState
from tidegate.savepoints.retention import expires_at, newest_of_tiers, removals
from tidegate.savepoints.rules import PolicyRule, SavepointPolicy, Tier
from tidegate.savepoints.schedule import Wanted, periods_of, wanted

SAVEPOINTABLE: Final = frozenset({"commit", "deltacommit", "replacecommit"})
"""The actions whose commits may get a savepoint by policy."""
_GONE: Final = frozenset({Reason.NOT_OF_POLICY})
"""Refusals after which a savepoint is not the policy's business any more."""


class SavepointPolicyService:
    """Requests savepoints on commits, once an instant, and the removal of those past their time.

    A removal is decided on what the table's outcomes said: at each of them, at each commit, and
    when a lifetime ends (a tick). The writer checks it again on the table itself.
    """

    name: ClassVar[str] = "savepoint-policy"
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
    state_type: type[PolicyState] = PolicyState

    def __init__(self, policy: SavepointPolicy, condemned: CondemnedRules | None = None) -> None:
        """Take the policy, and what follows from condemned commits; by default nothing.

        Neither changes while the service runs.
        """
        self.policy, self.condemned = policy, condemned or CondemnedRules()

    def initial(self) -> PolicyState:
        """Nothing requested yet."""
        return PolicyState()

    def decide(self, state: PolicyState, event: Event, at: datetime) -> Decision[PolicyState]:
        """Request what a commit is due, and remember what there is.

        Raises:
            FormatError: the commit's instant is later than `at`, when the broker got the event: no
                clock and no time zone explains that.
        """
        decision = self._apply(event, state, at)
        removed = self._removals(event.table, decision.state, at)
        commands = (*decision.commands, *removed.commands)
        return removed._replace(commands=commands, outcomes=decision.outcomes)

    def due(self, table: str, state: PolicyState) -> datetime | None:
        """When the next lifetime ends, or a refused removal is to be requested again."""
        rule = self.policy.rule_of(table)
        newest = newest_of_tiers(rule, state.kept) if rule else frozenset[str]()
        times = (self._due(rule, state, e) for e in state.kept if e.instant not in newest)
        return min((time_ for time_ in times if time_ is not None), default=None)

    def tick(self, table: str, state: PolicyState, at: datetime) -> Decision[PolicyState]:
        """Request the removal of what has had its time."""
        return self._removals(table, state, at)

    @staticmethod
    def _due(rule: PolicyRule | None, state: PolicyState, entry: KeptEntry) -> datetime | None:
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
    ) -> Decision[PolicyState]:
        return Decision(state)

    @_apply.register
    def _(self, event: CommitCompleted, state: PolicyState, at: datetime) -> Decision[PolicyState]:
        rule = self.policy.rule_of(event.table)
        answers = self._answers_condemned(event)
        if answers and event.instant > state.newest and not is_in_the_future(event.instant, at):
            state = state.with_(newest=event.instant)
        if rule is None or event.action not in SAVEPOINTABLE:
            return Decision(state)
        if is_in_the_future(event.instant, at):
            raise FormatError(
                f"the instant {event.instant} is more than a day after the broker got the event, at"
                f" {at:%Y-%m-%dT%H:%M:%SZ}: no writer has completed it; if one has, its clock is"
                " wrong, or the topic keeps the producers' times (message.timestamp.type)"
            )
        if state.has(event.instant, at):
            return Decision(state)
        what = wanted(rule, state, event, at)
        review = state.wants_review(at)
        requests = tuple(self._requests(rule, what, event, at, review=review))
        return Decision(_after(state, event, what, requests, at), requests)

    @_apply.register
    def _(self, event: CommitCondemned, state: PolicyState, at: datetime) -> Decision[PolicyState]:
        action = self.condemned.action_of(event.table, event.location)
        return decide_on_condemned(action, state, event, at, self.name)

    @_apply.register
    def _(
        self, event: RestoreAwaitingApproval, state: PolicyState, at: datetime
    ) -> Decision[PolicyState]:
        return Decision(state.with_awaited(event.savepoint, event.expires_at, at))

    @_apply.register
    def _(self, event: SavepointCreated, state: PolicyState, at: datetime) -> Decision[PolicyState]:
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
    ) -> Decision[PolicyState]:
        lost = {tier for tier, each in state.tiers.items() if each.request == event.caused_by}
        if not lost:
            return Decision(state)
        tiers = {tier: each for tier, each in state.tiers.items() if tier not in lost}
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
    ) -> Decision[PolicyState]:
        return Decision(state.without(event.instant))

    @_apply.register
    def _(
        self,
        event: SavepointRemovalRejected,
        state: PolicyState,
        at: datetime,  # noqa: ARG002
    ) -> Decision[PolicyState]:
        return Decision(state.without(event.instant) if event.reason in _GONE else state)

    @_apply.register(RestorePlanned)
    @_apply.register(RestoreRejected)
    @_apply.register(RestoreFailed)
    def _(
        self,
        event: RestorePlanned | RestoreRejected | RestoreFailed,
        state: PolicyState,
        at: datetime,
    ) -> Decision[PolicyState]:
        # whoever asked for a plan, or was told to ask again, is about to need the savepoint
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
        if what.before:  # first: the other one may be far newer
            yield SavepointRequested.about(
                commit, **common, before=commit.instant, tiers=(Tier.BEFORE,)
            )
        if what.tiers:
            yield SavepointRequested.about(
                commit, **common, instant=commit.instant, tiers=what.tiers, review=review
            )

    def _removals(self, table: str, state: PolicyState, at: datetime) -> Decision[PolicyState]:
        rule = self.policy.rule_of(table)
        found = {removal.instant: removal.why for removal in removals(rule, state.kept, at)}
        due = [
            each
            for each in state.kept
            if each.instant in found
            and each.may_be_asked(at)
            and not state.is_wanted(each.instant, at)
        ]
        if not due:
            return Decision(state)
        asked = {each.instant for each in due}
        kept = tuple(
            each.model_copy(update={"asked": each.asked + 1, "asked_at": at})
            if each.instant in asked
            else each
            for each in state.kept
        )
        event = {"table": table, "location": state.location, "occurred_at": at}
        event["source"] = self.name
        requests = tuple(_removal(rule, event, each, found[each.instant]) for each in due)
        return Decision(state.with_(kept=kept), requests)


def _removal(
    rule: PolicyRule | None, event: Mapping[str, object], entry: KeptEntry, why: str
) -> SavepointRemovalRequested:
    """The request; `event` has the fields that all of them have."""
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
    """The state after a commit was considered, and these requests were made."""
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
