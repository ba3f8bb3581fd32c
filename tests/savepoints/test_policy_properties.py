"""Random histories of commits, answers and time: what a policy may never do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.events import (
    CommitCompleted,
    Event,
    Outcome,
    SavepointCreated,
    SavepointRejected,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    SavepointRequested,
)
from tidegate.savepoints import (
    PolicyRule,
    SavepointPolicy,
    SavepointPolicyService,
    Tier,
    TierRule,
)
from tidegate.savepoints.policy_state import PolicyState

START = datetime(2026, 2, 27, 22, 10, tzinfo=UTC)
TABLE = "lake.sales.orders"
KEEPS = st.one_of(st.none(), st.integers(1, 4))
LIFETIMES = st.one_of(st.none(), st.integers(1, 24 * 20).map(lambda n: timedelta(hours=n)))


@st.composite
def policy_rules(draw: st.DrawFn) -> PolicyRule:
    tiers = draw(st.lists(st.sampled_from(Tier), min_size=1, max_size=5, unique=True))
    made = tuple(
        TierRule(
            tier=tier,
            keep=draw(KEEPS),
            lifetime=draw(LIFETIMES),
            commits=draw(st.integers(2, 5)),
            operations=("delete",),
        )
        for tier in tiers
    )
    maximum = draw(st.one_of(st.none(), st.integers(len(made), len(made) + 6)))
    gap = timedelta(minutes=draw(st.sampled_from((0, 0, 30, 600))))
    return PolicyRule(name="p", pattern="*", tiers=made, max_count=maximum, min_gap=gap)


@dataclass(frozen=True)
class Step:
    """Time passes, then one thing happens."""

    minutes: int
    what: str
    back: int
    """By how many commits the instant lies behind, or which commit a person saves."""


STEPS = st.lists(
    st.builds(
        Step,
        minutes=st.sampled_from((0, 1, 20, 60, 60 * 11, 60 * 24, 60 * 24 * 8)),
        what=st.sampled_from(
            ("commit", "commit", "commit", "delete", "late", "again", "person", "limited", "tick")
        ),
        back=st.integers(1, 6),
    ),
    max_size=40,
)


@dataclass
class World:
    """A table, its writer service, and people; a request is answered at once."""

    rule: PolicyRule
    refuses: Iterator[bool]
    state: PolicyState = field(default_factory=PolicyState)
    at: datetime = START
    commits: list[CommitCompleted] = field(default_factory=list[CommitCompleted])
    savepoints: dict[str, SavepointRequested] = field(default_factory=dict[str, SavepointRequested])
    requested: list[tuple[datetime, SavepointRequested]] = field(
        default_factory=list[tuple[datetime, SavepointRequested]]
    )
    removals: list[SavepointRemovalRequested] = field(
        default_factory=list[SavepointRemovalRequested]
    )
    log: list[tuple[datetime, Event | None]] = field(
        default_factory=list[tuple[datetime, Event | None]]
    )
    """What the policy was given, None for a tick."""
    said: list[str] = field(default_factory=list[str])
    refusals: int = 0

    def __post_init__(self) -> None:
        self.service = SavepointPolicyService(SavepointPolicy(rules=(self.rule,)))

    def take(self, step: Step) -> None:
        self.at += timedelta(minutes=step.minutes)
        number = len(self.commits)
        match step.what:
            case "again" if self.commits:
                self.consume(self.commits[-min(step.back, number)])
            case "late" if self.commits:
                self.consume(self.commit(self.at - timedelta(hours=step.back, seconds=number)))
            case "person" | "limited" if self.commits:
                lifetime = 3600 * step.back if step.what == "limited" else None
                self.person(self.commits[-min(step.back, number)], lifetime)
            case "tick":
                due = self.service.due(TABLE, self.state)
                if due is not None and due <= self.at:
                    self.consume(None)
            case _:
                operation = "delete" if step.what == "delete" else "upsert"
                self.consume(self.commit(self.at + timedelta(seconds=number), operation))

    def commit(self, when: datetime, operation: str = "upsert") -> CommitCompleted:
        event = CommitCompleted.model_validate(
            {
                "table": TABLE,
                "location": "/lake/orders",
                "occurred_at": when,
                "source": "writer",
                "instant": f"{when:%Y%m%d%H%M%S}{len(self.commits):03d}",
                "action": "commit",
                "operation": operation,
            }
        )
        self.commits.append(event)
        return event

    def person(self, commit: CommitCompleted, lifetime: int | None) -> None:
        request = SavepointRequested.model_validate(
            {
                "event_id": f"ana-{len(self.log)}",
                "table": TABLE,
                "location": "/lake/orders",
                "occurred_at": self.at,
                "source": "cli",
                "requested_by": "ana",
                "instant": commit.instant,
                "lifetime_seconds": lifetime,
            }
        )
        self.consume(self.save(request))

    def consume(self, event: Event | None) -> None:
        self.log.append((self.at, event))
        if event is None:
            decision = self.service.tick(TABLE, self.state, self.at)
        else:
            decision = self.service.decide(self.state, event, self.at)
        # what is written to the changelog is what is read back
        written = decision.state.model_dump_json()
        self.state = PolicyState.model_validate_json(written)
        assert self.state == decision.state
        for command in decision.commands:
            self.said.append(command.event_id)
            if isinstance(command, SavepointRequested):
                self.requested.append((self.at, command))
                self.consume(self.save(command))
            else:
                assert isinstance(command, SavepointRemovalRequested)
                self.removals.append(command)
                self.consume(self.remove(command))

    def save(self, command: SavepointRequested) -> Outcome:
        instant = command.instant
        if command.before is not None:
            below = [e.instant for e in self.commits if e.instant < command.before]
            instant = max(below, default=None)
        common = {"source": "writer", "occurred_at": self.at}
        if instant is None or (command.policy and next(self.refuses)):
            return SavepointRejected.about(command, **common, reason="missing-files", message="no")
        there = self.savepoints.setdefault(instant, command)
        mark = there.mark.model_dump() if there.mark else {}
        counts = {"partitions": 1, "files": 1, "duration_ms": 1}
        return SavepointCreated.about(command, **common, **counts, instant=instant, **mark)

    def remove(self, command: SavepointRemovalRequested) -> Outcome:
        common = {"source": "writer", "occurred_at": self.at, "instant": command.instant}
        if next(self.refuses):
            self.refusals += 1
            return SavepointRemovalRejected.about(
                command, **common, reason="restore-pending", message="no"
            )
        made = self.savepoints[command.instant]
        self.check_removal(made, command)
        del self.savepoints[command.instant]
        left = len(self.savepoints)
        return SavepointRemoved.about(command, **common, savepoints_left=left, duration_ms=1)

    def check_removal(self, made: SavepointRequested, command: SavepointRemovalRequested) -> None:
        """A person's stays, and of each tier of the policy the newest."""
        if made.policy is None:
            assert made.lifetime_seconds is not None
            assert command.by_lifetime
            return
        assert command.policy == "p"
        for tier in made.tiers:
            if self.rule.tier(tier) is not None:
                newer = [
                    instant
                    for instant, savepoint in self.savepoints.items()
                    if tier in savepoint.tiers
                    and (savepoint.occurred_at, instant) > (made.occurred_at, command.instant)
                ]
                assert newer, f"{command.instant} was the last {tier}"

    def own(self) -> list[SavepointRequested]:
        return [savepoint for savepoint in self.savepoints.values() if savepoint.policy == "p"]


def play(rule: PolicyRule, steps: list[Step], refusals: list[bool]) -> World:
    world = World(rule, iter([*refusals, *[False] * 10_000]))
    for step in steps:
        world.take(step)
        if rule.max_count is not None and not world.refusals:
            assert len(world.own()) <= rule.max_count
    return world


REFUSALS = st.lists(st.booleans(), max_size=12)


@settings(max_examples=150, deadline=None)
@given(rule=policy_rules(), steps=STEPS, refusals=REFUSALS)
def test_whatever_happens_the_rules_of_a_policy_hold(
    rule: PolicyRule, steps: list[Step], refusals: list[bool]
) -> None:
    world = play(rule, steps, refusals)

    # each commit is saved for its own sake at most once
    saved = [request.instant for _, request in world.requested if request.instant is not None]
    assert len(saved) == len(set(saved))
    # routine savepoints keep their distance from any savepoint before
    for (earlier, one), (later, other) in pairwise(world.requested):
        if set(other.tiers) - {Tier.BEFORE, Tier.AFTER} and one.caused_by != other.caused_by:
            assert later - earlier >= rule.min_gap
    # no request has the id of another
    assert len(world.said) == len(set(world.said))


@settings(max_examples=60, deadline=None)
@given(rule=policy_rules(), steps=STEPS, refusals=REFUSALS)
def test_a_replay_decides_the_same_and_a_repeat_nothing(
    rule: PolicyRule, steps: list[Step], refusals: list[bool]
) -> None:
    world = play(rule, steps, refusals)
    service, state, said = world.service, PolicyState(), list[str]()
    for at, event in world.log:
        decide = (
            service.tick(TABLE, state, at) if event is None else service.decide(state, event, at)
        )
        state = decide.state
        said += [command.event_id for command in decide.commands]
    assert sorted(said) == sorted(world.said)
    assert state == world.state

    for _, event in world.log:
        if isinstance(event, CommitCompleted):
            again = service.decide(state, event, world.at)
            assert [e for e in again.commands if isinstance(e, SavepointRequested)] == []


@settings(max_examples=60, deadline=None)
@given(rule=policy_rules(), steps=STEPS)
def test_once_time_has_passed_only_what_each_tier_keeps_is_left(
    rule: PolicyRule, steps: list[Step]
) -> None:
    world = play(rule, steps, [])
    world.at += timedelta(days=400)
    while (due := world.service.due(TABLE, world.state)) is not None and due <= world.at:
        world.consume(None)

    for request in world.own():
        tiers = [found for name in request.tiers if (found := rule.tier(name))]
        newest = all(
            other.occurred_at <= request.occurred_at
            for other in world.own()
            if set(other.tiers) & set(request.tiers)
        )
        assert (
            newest or any(tier.lifetime is None for tier in tiers) or _newest_of_one(world, request)
        )
    people = [savepoint for savepoint in world.savepoints.values() if savepoint.policy is None]
    assert all(person.lifetime_seconds is None for person in people)


def _newest_of_one(world: World, request: SavepointRequested) -> bool:
    return any(
        all(o.occurred_at <= request.occurred_at for o in world.own() if tier in o.tiers)
        for tier in request.tiers
    )
