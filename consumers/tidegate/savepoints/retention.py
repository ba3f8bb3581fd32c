"""Which savepoints of a table are due, and which may go. Pure: no I/O, no clock, no memory.

`check` is the only place that decides it: the savepoint writer applies it to a table's timeline,
`simulate` to past commits, and `savepoints list` and `config check` show what it says. Commits and
savepoints are ordered by instant, as on Hudi's timeline. Each tier has a budget of its own, so a
burst in one tier costs another tier nothing. The page for users is docs/savepoint-policies.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, Self

from tidegate.savepoints.rules import (
    OPERATIONS,
    PERIODIC,
    PolicyRule,
    Tier,
    TierRule,
    period_of,
)

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_BY_INSTANT: Final = attrgetter("instant")
_SECONDS_DIGITS: Final = 14


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed commit whose files are all there, so that it can have a savepoint."""

    instant: str
    completion: str | None = None
    operation: str | None = None
    removed: bool = False
    """Whether a person removed its savepoint: then it gets no other one by policy."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A completed savepoint on the timeline, as its own mark describes it."""

    instant: str
    since: datetime
    """When it was made: a lifetime counts from here."""
    policy: str | None = None
    """The policy that made it; None: a person made it, or the maker is unknown."""
    tiers: tuple[str, ...] = ()
    lifetime: timedelta | None = None
    """How long a person wants it kept."""
    made: str = ""
    """`since` as an instant of the table; empty: as its own instant."""

    @property
    def reach(self) -> str:
        """From here on commits may be due: earlier than the instant if that is in the future."""
        return min(self.instant, self.made or self.instant)


@dataclass(frozen=True, slots=True)
class Due:
    """A commit that has to get a savepoint, and for which tiers."""

    instant: str
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """A savepoint that may go, and why."""

    instant: str
    why: str


@dataclass(frozen=True, slots=True)
class Check:
    """What follows from a table's timeline, its rule and the time."""

    due: tuple[Due, ...] = ()
    """Oldest first."""
    withheld: tuple[Due, ...] = ()
    """Due, but the policy has as many savepoints as `max_count` allows."""
    removable: tuple[Removal, ...] = ()
    """Oldest first. Savepoints that are still to be made count for nothing."""
    unowned: tuple[str, ...] = ()
    """Savepoints of policies that no rule of this table owns. They stay."""
    next_check: datetime | None = None
    """When time alone may change the result."""


def check(
    rule: PolicyRule | None,
    savepoints: Sequence[Savepoint],
    commits: Sequence[Commit],
    now: datetime,
    *,
    held: Mapping[str, datetime | None] | None = None,
) -> Check:
    """Decide which savepoints are due and which may go.

    Args:
        rule: The table's policy, if it has one.
        savepoints: The table's completed savepoints, of all makers.
        commits: The table's commits that can have a savepoint.
        now: The time.
        held: Savepoints that may not go, with the end of that; None: it has no end.
    """
    held, ordered = held or {}, sorted(savepoints, key=_BY_INSTANT)
    own = [savepoint for savepoint in ordered if rule and rule.owns(savepoint.policy)]
    gone = {
        savepoint.instant: f"its lifetime of {savepoint.lifetime} is over"
        for savepoint in ordered
        if savepoint.policy is None
        and savepoint.lifetime is not None
        and end_of(savepoint.since, savepoint.lifetime) <= now
    }
    due: tuple[Due, ...] = ()
    withheld: tuple[Due, ...] = ()
    if rule is not None:
        why = f"no tier of policy {rule.name} keeps it any more"
        gone |= dict.fromkeys(_unkept(rule, own, now), why)
        others = {savepoint.instant for savepoint in ordered} - {s.instant for s in own}
        due = _due(rule, own, others, sorted(commits, key=_BY_INSTANT), now)
        due, withheld = _within_maximum(rule, own, due, now)
    return Check(
        due,
        withheld,
        tuple(
            Removal(instant, why) for instant, why in sorted(gone.items()) if instant not in held
        ),
        tuple(s.instant for s in ordered if s.policy and not (rule and rule.owns(s.policy))),
        min((end for end in _ends(rule, ordered, held) if end > now), default=None),
    )


def end_of(since: datetime, lifetime: timedelta) -> datetime:
    """When a lifetime ends, at most the last representable time."""
    try:
        return since + lifetime
    except OverflowError:  # a mark may have any year
        return _NEVER


def kept_until(rule: PolicyRule | None, savepoint: Savepoint) -> datetime | None:
    """When the last of its lifetimes ends; None: it has none, or it is unknown."""
    if savepoint.policy is None:
        lifetime = savepoint.lifetime
        return None if lifetime is None else end_of(savepoint.since, lifetime)
    if rule is None or not rule.owns(savepoint.policy):
        return None
    lifetimes = [tier.lifetime for tier in rule.tiers if _serves(tier, savepoint)]
    known = [lifetime for lifetime in lifetimes if lifetime is not None]
    return end_of(savepoint.since, max(known)) if known and len(known) == len(lifetimes) else None


def _serves(tier: TierRule, savepoint: Savepoint) -> bool:
    """Whether a savepoint of the policy counts for a tier.

    Any does for a period and for every commit. For the others its mark names its purposes.
    """
    return tier.tier in PERIODIC or tier.tier is Tier.EVERY_COMMIT or tier.tier in savepoint.tiers


def _of_tier(tier: TierRule, own: Sequence[Savepoint]) -> list[Savepoint]:
    """The savepoints that a tier counts, oldest first: of a period the first one."""
    found = [savepoint for savepoint in own if _serves(tier, savepoint)]
    if tier.tier not in PERIODIC:
        return found
    first = {period_of(tier.tier, s.instant): s for s in reversed(found)}
    return sorted(first.values(), key=_BY_INSTANT)


def _kept(tier: TierRule, own: Sequence[Savepoint], now: datetime) -> Iterator[str]:
    """The savepoints that a tier keeps; always the newest one."""
    found = _counted(tier, own)
    oldest = _reach(tier, found, now)
    for savepoint in found:
        if savepoint.instant >= oldest or savepoint is found[-1]:
            yield savepoint.instant


def _counted(tier: TierRule, own: Sequence[Savepoint]) -> list[Savepoint]:
    return _of_tier(tier, own)[-(tier.keep or 0) :]


def _reach(tier: TierRule, counted: Sequence[Savepoint], now: datetime) -> str:
    """The instant from which on a tier keeps savepoints and makes them; empty: it has none.

    A savepoint whose lifetime is over stays while an earlier one lives: if it went, its commit
    would be due again at once.
    """
    lifetime = tier.lifetime
    living = [s.reach for s in counted if lifetime is None or end_of(s.since, lifetime) > now]
    return min(living) if living else max((s.reach for s in counted), default="")


def _unkept(rule: PolicyRule, own: Sequence[Savepoint], now: datetime) -> list[str]:
    kept = {instant for tier in rule.tiers for instant in _kept(tier, own, now)}
    kept |= {savepoint.instant for savepoint in own[-1:]}
    return [savepoint.instant for savepoint in own if savepoint.instant not in kept]


def _ends(
    rule: PolicyRule | None,
    savepoints: Sequence[Savepoint],
    held: Mapping[str, datetime | None],
) -> Iterator[datetime]:
    """The times at which a savepoint may begin to be removable."""
    yield from (until for until in held.values() if until is not None)
    for savepoint in savepoints:
        if savepoint.policy is None and savepoint.lifetime is not None:
            yield end_of(savepoint.since, savepoint.lifetime)
        elif rule is not None and rule.owns(savepoint.policy):
            for tier in rule.tiers:
                if tier.lifetime is not None and _serves(tier, savepoint):
                    yield end_of(savepoint.since, tier.lifetime)


def _due(
    rule: PolicyRule,
    own: Sequence[Savepoint],
    others: AbstractSet[str],
    commits: Sequence[Commit],
    now: datetime,
) -> tuple[Due, ...]:
    """The commits that have to get a savepoint, oldest first.

    A tier reaches back to its oldest savepoint, and without one only to the newest commit.
    """
    found = dict[str, list[Tier]]()
    excluded = others | {commit.instant for commit in commits if commit.removed}
    steps = [_Step.of(tier, own, commits, now) for tier in rule.tiers]
    gaps = _Gaps(rule.min_gap, sorted(_moment(savepoint.instant) for savepoint in own))
    for number, commit in enumerate(commits):
        in_gap = commit.instant not in excluded and gaps.has(commit.instant)
        for step in steps:
            target = step.target(number, in_gap=in_gap)
            if target is not None and target not in excluded:
                found.setdefault(target, []).append(step.tier.tier)
        if commit.instant in found:
            gaps.add(commit.instant)
        for step in steps:
            step.passed(commit, saved=commit.instant in found)
    after = _with_due(rule, own, found, now)
    kept = {instant for tier in rule.tiers for instant in _kept(tier, after, now)}
    ordered = sorted(found.items())
    return tuple(Due(at, tuple(dict.fromkeys(tiers))) for at, tiers in ordered if at in kept)


def _with_due(
    rule: PolicyRule, own: Sequence[Savepoint], due: Mapping[str, Sequence[Tier]], now: datetime
) -> list[Savepoint]:
    """The savepoints as they will be, oldest first."""
    there = {savepoint.instant: savepoint for savepoint in own}
    for instant, tiers in due.items():
        new = there.get(instant) or Savepoint(instant, now, rule.name)
        there[instant] = replace(new, tiers=(*new.tiers, *tiers))
    return sorted(there.values(), key=_BY_INSTANT)


@dataclass(slots=True)
class _Step:
    """What a tier wants of one commit after the other, in the order of their instants."""

    tier: TierRule
    commits: Sequence[Commit]
    oldest: str
    """The tier reaches back to here."""
    saved: frozenset[str]
    """The commits that have a savepoint which counts for the tier."""
    periods: set[str]
    since: int
    """EVERY_N: the commits since the tier's last savepoint."""

    @classmethod
    def of(
        cls, tier: TierRule, own: Sequence[Savepoint], commits: Sequence[Commit], now: datetime
    ) -> Self:
        serving = [savepoint for savepoint in own if _serves(tier, savepoint)]
        newest = commits[-1].instant if commits else ""
        if commits and tier.tier is Tier.BEFORE:
            before = _before(commits, len(commits) - 1)
            newest = before.instant if before else newest
        # a savepoint before all that the tier keeps would be removed at once
        oldest = _reach(tier, _counted(tier, own), now) or newest
        periodic = tier.tier in PERIODIC
        periods = {period_of(tier.tier, s.instant) for s in own} if periodic else set[str]()
        saved = frozenset(savepoint.instant for savepoint in serving)
        first = commits[0].instant if commits else ""
        since = 0 if any(instant < first for instant in saved) else tier.commits
        return cls(tier, commits, oldest, saved, periods, since)

    def target(self, number: int, *, in_gap: bool) -> str | None:
        """The instant to save because of a commit; None: there is none."""
        commit = self.commits[number]
        if commit.instant < self.oldest:
            return None
        if self.tier.tier in OPERATIONS:
            wanted = self.tier.matches(commit.operation)
        elif in_gap:
            wanted = False
        elif self.tier.tier in PERIODIC:
            wanted = period_of(self.tier.tier, commit.instant) not in self.periods
        else:
            wanted = self.tier.tier is Tier.EVERY_COMMIT or self.since + 1 >= self.tier.commits
        if not wanted:
            return None
        saved = _before(self.commits, number) if self.tier.tier is Tier.BEFORE else commit
        if saved is None or saved.instant in self.saved or saved.instant < self.oldest:
            return None
        return saved.instant

    def passed(self, commit: Commit, *, saved: bool) -> None:
        """Go on to the next commit; `saved`: this one gets a savepoint of the policy."""
        if saved and self.tier.tier in PERIODIC:
            self.periods.add(period_of(self.tier.tier, commit.instant))
        counts = saved or commit.instant in self.saved or commit.removed
        self.since = 0 if counts else self.since + 1


def _before(commits: Sequence[Commit], number: int) -> Commit | None:
    """The newest commit before another one that had completed when that one completed."""
    end = commits[number].completion or commits[number].instant
    earlier = (commits[n] for n in range(number - 1, -1, -1))
    return next((c for c in earlier if (c.completion or c.instant) <= end), None)


@dataclass(slots=True)
class _Gaps:
    """The times of the policy's savepoints, by their instants."""

    least: timedelta
    moments: list[datetime]

    def has(self, instant: str) -> bool:
        """Whether an instant is too near to another savepoint."""
        if not self.least:
            return False
        at = _moment(instant)
        place = bisect_left(self.moments, at)
        near = self.moments[max(0, place - 1) : place + 1]
        return any(abs(at - other) < self.least for other in near)

    def add(self, instant: str) -> None:
        insort(self.moments, _moment(instant))


def _moment(instant: str) -> datetime:
    try:
        return datetime.strptime(f"{instant[:_SECONDS_DIGITS]}+0000", "%Y%m%d%H%M%S%z")
    except ValueError:  # an instant is digits, which need not be a time
        return _NEVER


def _within_maximum(
    rule: PolicyRule, own: Sequence[Savepoint], due: Sequence[Due], now: datetime
) -> tuple[tuple[Due, ...], tuple[Due, ...]]:
    """The due and the withheld ones: a maximum refuses new ones, it removes none."""
    if rule.max_count is None:
        return tuple(due), ()
    made, withheld = list[Due](), list[Due]()
    there = list(own)
    known = {savepoint.instant for savepoint in own}
    for found in due:
        new = Savepoint(found.instant, now, rule.name, found.tiers)
        after = sorted([*there, new], key=_BY_INSTANT)
        left = len(after) - len(_unkept(rule, after, now))
        if found.instant in known or left <= rule.max_count:
            made.append(found)
            there = after
        else:
            withheld.append(found)
    return tuple(made), tuple(withheld)
