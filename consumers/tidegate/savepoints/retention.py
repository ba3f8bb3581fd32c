"""Which savepoints of a table are due, and which may go. Pure: no I/O, no clock, no memory.

`check` is the only place that decides it: the savepoint writer and `plan retention` apply it to a
table's timeline, and `simulate` to past commits. Everything follows from one question: which of
some savepoints does a tier keep at this time (`_of_tier`)? A savepoint may go once no tier keeps
it. A commit is due if a tier would keep its savepoint, had it been made with the commit. So a check
makes nothing that would go, and what went is not due again. The page for users is
docs/savepoint-policies.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, Self

from tidegate.savepoints.rules import OPERATIONS, PERIODIC, SavepointRule, Tier, TierRule, period_of

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_BY_INSTANT: Final = attrgetter("instant")


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed commit whose files are all there, so that it can have a savepoint."""

    instant: str
    at: datetime
    """The instant as a time, by the writer's clock."""
    completion: str | None = None
    operation: str | None = None
    removed: bool = False
    """Whether a person removed its savepoint: then it gets no other one by policy."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A completed savepoint on the timeline, as its own mark describes it."""

    instant: str
    at: datetime
    """The instant as a time, by the writer's clock."""
    since: datetime
    """When it was made."""
    policy: str | None = None
    """The policy that made it; None: a person made it, or the maker is unknown."""
    tiers: tuple[str, ...] = ()
    lifetime: timedelta | None = None
    """How long a person wants it kept."""

    def end(self, lifetime: timedelta) -> datetime:
        """When a policy's lifetime ends. It does not begin before the commit's own time."""
        return end_of(max(self.since, self.at), lifetime)


@dataclass(frozen=True, slots=True)
class Check:
    """What follows from a table's timeline, its rule and the time."""

    due: Mapping[str, tuple[Tier, ...]] = field(default_factory=dict[str, tuple[Tier, ...]])
    """The commits that have to get a savepoint, and for which tiers; oldest first."""
    withheld: Mapping[str, tuple[Tier, ...]] = field(default_factory=dict[str, tuple[Tier, ...]])
    """Due, but the policy has as many savepoints as `max_count` allows."""
    removable: Mapping[str, str] = field(default_factory=dict[str, str])
    """The savepoints that may go, and why; oldest first. Those that are still to be made replace
    none."""
    unowned: tuple[str, ...] = ()
    """Savepoints of policies that no rule of this table owns. They stay."""
    next_check: datetime | None = None
    """When time alone may change the result."""


def check(
    rule: SavepointRule | None,
    savepoints: Iterable[Savepoint],
    commits: Iterable[Commit],
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
    own = [saved for saved in ordered if rule and rule.owns(saved.policy)]
    ended = {saved.instant: saved for saved in ordered if _has_ended(saved, now)}
    gone = {at: f"its lifetime of {saved.lifetime} is over" for at, saved in ended.items()}
    due, withheld = dict[str, tuple[Tier, ...]](), dict[str, tuple[Tier, ...]]()
    planned = set[str]()
    if rule is not None:
        stay = {saved.instant for saved in ordered} - {saved.instant for saved in own} - set(ended)
        found = _due(rule, own, _Commits.of(commits, stay), now)
        planned = {new.instant for new, _ in found}
        # a person's savepoint whose lifetime has ended stays while it would be created again
        new = [(new, tiers) for new, tiers in found if new.instant not in ended]
        due, withheld = _within_maximum(rule, own, new, now)
        kept = _kept(rule, own, now)
        why = f"no tier of policy {rule.policy} keeps it any more"
        gone |= {saved.instant: why for saved in own if saved not in kept}
    return Check(
        due,
        withheld,
        {at: gone[at] for at in sorted(gone) if at not in planned | held.keys()},
        tuple(s.instant for s in ordered if s.policy and not (rule and rule.owns(s.policy))),
        min((end for end in _ends(rule, ordered, held) if end > now), default=None),
    )


def end_of(since: datetime, lifetime: timedelta) -> datetime:
    """When a lifetime ends, at most the last representable time."""
    try:
        return since + lifetime
    except OverflowError:  # a mark may have any year
        return _NEVER


def kept_until(rule: SavepointRule | None, savepoint: Savepoint) -> datetime | None:
    """When the last of its lifetimes ends; None: it has none, or it is unknown."""
    if savepoint.policy is None:
        lifetime = savepoint.lifetime
        return None if lifetime is None else end_of(savepoint.since, lifetime)
    if rule is None or not rule.owns(savepoint.policy):
        return None
    lifetimes = [tier.lifetime for tier in rule.tiers if _serves(tier, savepoint)]
    known = [lifetime for lifetime in lifetimes if lifetime is not None]
    return savepoint.end(max(known)) if known and len(known) == len(lifetimes) else None


def _has_ended(savepoint: Savepoint, now: datetime) -> bool:
    """Whether it is a person's, and the lifetime that the person set has ended."""
    lifetime = savepoint.lifetime
    if savepoint.policy is not None or lifetime is None:
        return False
    return end_of(savepoint.since, lifetime) <= now


def _serves(tier: TierRule, savepoint: Savepoint) -> bool:
    """Whether a savepoint of the policy counts for a tier.

    Any does for a period and for every commit. For the others its mark names its purposes.
    """
    return tier.tier in PERIODIC or tier.tier is Tier.EVERY_COMMIT or tier.tier in savepoint.tiers


def _of_tier(tier: TierRule, own: Sequence[Savepoint], now: datetime) -> list[Savepoint]:
    """The savepoints that a tier keeps: the newest one, and those whose lifetime is not over.

    Of a period it is the first of these, and of all that the newest `keep`. Without the others
    the result is the same: a removal changes nothing else.
    """
    serving = [saved for saved in own if _serves(tier, saved)]
    lifetime = tier.lifetime
    found = [s for s in serving if lifetime is None or s.end(lifetime) > now or s is serving[-1]]
    if tier.tier in PERIODIC:
        first = {period_of(tier.tier, saved.instant): saved for saved in reversed(found)}
        found = sorted(first.values(), key=_BY_INSTANT)
    return found[-(tier.keep or 0) :]


def _kept(rule: SavepointRule, own: Sequence[Savepoint], now: datetime) -> list[Savepoint]:
    """The savepoints that a tier keeps, and the policy's newest."""
    kept = {saved.instant for tier in rule.tiers for saved in _of_tier(tier, own, now)}
    return [saved for saved in own if saved.instant in kept or saved is own[-1]]


def _ends(
    rule: SavepointRule | None, savepoints: Sequence[Savepoint], held: Mapping[str, datetime | None]
) -> Iterator[datetime]:
    """The times at which a savepoint may begin to be removable."""
    yield from (until for until in held.values() if until is not None)
    lifetimes = [tier.lifetime for tier in rule.tiers if tier.lifetime] if rule else []
    for saved in savepoints:
        if saved.policy is None and saved.lifetime is not None:
            yield end_of(saved.since, saved.lifetime)
            yield from (end_of(saved.at, lifetime) for lifetime in lifetimes)
        elif rule is not None and rule.owns(saved.policy):
            yield from (saved.end(lifetime) for lifetime in lifetimes)


@dataclass(frozen=True, slots=True)
class _Commits:
    """A table's commits, oldest first."""

    all: Sequence[Commit]
    excluded: AbstractSet[str]
    """Those that may not get a savepoint of the policy."""

    @classmethod
    def of(cls, commits: Iterable[Commit], saved: Collection[str]) -> _Commits:
        ordered = sorted(commits, key=_BY_INSTANT)
        return cls(ordered, {*saved, *(commit.instant for commit in ordered if commit.removed)})

    def before(self, number: int) -> Commit | None:
        """The newest earlier commit that had completed when this one completed."""
        end = self.all[number].completion or self.all[number].instant
        earlier = (self.all[n] for n in range(number - 1, -1, -1))
        return next((c for c in earlier if (c.completion or c.instant) <= end), None)

    def newest(self, tier: TierRule) -> datetime:
        """From here on a tier makes savepoints if it has none."""
        if not self.all:
            return _NEVER
        last = len(self.all) - 1
        before = self.before(last) if tier.tier is Tier.BEFORE else None
        return (before or self.all[last]).at


def _due(
    rule: SavepointRule, own: Sequence[Savepoint], commits: _Commits, now: datetime
) -> list[tuple[Savepoint, tuple[Tier, ...]]]:
    """The savepoints that have to be made, oldest first, and for which tiers.

    A new savepoint may serve another tier, too, and so decide what that tier selects next.
    """
    after, added = {saved.instant: saved for saved in own}, dict[str, list[Tier]]()
    moments = {commit.instant: commit.at for commit in commits.all}
    while True:
        kept = _kept(rule, sorted(after.values(), key=_BY_INSTANT), now)
        found = [
            (instant, tier)
            for instant, tier in _wanted(rule, kept, commits, now)
            if instant not in after or not _serves(tier, after[instant])
        ]
        if not found:
            break
        for instant, tier in found:
            new = after.get(instant) or Savepoint(instant, moments[instant], now, rule.policy)
            after[instant] = replace(new, tiers=(*new.tiers, tier.tier))
            added.setdefault(instant, []).append(tier.tier)
    order = dict.fromkeys(tier.tier for tier in rule.tiers)
    return [
        (new, tuple(tier for tier in order if tier in added[new.instant]))
        for new in kept
        if new.instant in added
    ]


def _wanted(
    rule: SavepointRule, kept: Sequence[Savepoint], commits: _Commits, now: datetime
) -> Iterator[tuple[str, TierRule]]:
    """The commits that a tier selects and of which it would keep a savepoint."""
    gaps = _Gaps(rule.min_gap or timedelta(0), sorted(s.at for s in kept))
    there = {s.instant for s in kept}
    tiers = [_Selection.of(tier, kept, commits, now) for tier in rule.tiers]
    for tier in tiers:
        if tier.rule.tier in OPERATIONS:
            for commit in tier.lasting(tier.of_operations(commits, now), now):
                gaps.add(commit.at)
                there.add(commit.instant)
                yield commit.instant, tier.rule
    selected = [(tier, list[Commit]()) for tier in tiers if tier.rule.tier not in OPERATIONS]
    for commit in commits.all:
        is_near = commit.instant not in there and gaps.has(commit.at)
        is_free = commit.instant not in commits.excluded and not is_near
        for tier, found in selected:
            is_before = commit.at < tier.reach
            if is_before and not tier.kept:
                continue  # the tier begins now, perhaps within a period
            if tier.selects(commit, is_free=is_free) and not is_before:
                found.append(commit)
        if any(found[-1:] == [commit] for _, found in selected):
            gaps.add(commit.at)
    for tier, found in selected:
        yield from ((commit.instant, tier.rule) for commit in tier.lasting(found, now))


@dataclass(slots=True)
class _Selection:
    """What a tier selects of one commit after the other."""

    rule: TierRule
    kept: Sequence[Savepoint]
    """The savepoints that it keeps."""
    reach: datetime
    """It selects none before: the time of its oldest savepoint, or of the newest commit.

    Operations: unless it would keep the savepoint for its lifetime."""
    saved: AbstractSet[str]
    """The commits whose savepoints serve it."""
    periods: set[str]
    since: int
    """EVERY_N: the commits since the last one that was saved for the tier."""

    @classmethod
    def of(cls, tier: TierRule, own: Sequence[Savepoint], commits: _Commits, now: datetime) -> Self:
        kept = _of_tier(tier, own, now)
        # a savepoint of a commit of the future counts from when it was made
        reach = min((min(s.at, s.since) for s in kept), default=commits.newest(tier))
        saved = {saved.instant for saved in own if _serves(tier, saved)}
        is_periodic = tier.tier in PERIODIC
        periods = {period_of(tier.tier, s.instant) for s in own} if is_periodic else set[str]()
        first = commits.all[0].instant if commits.all else ""
        since = 0 if any(instant < first for instant in saved) else tier.commits
        return cls(tier, kept, reach, saved, periods, since)

    def of_operations(self, commits: _Commits, now: datetime) -> Iterator[Commit]:
        """The commits to save because of operations: of each, however many a check finds."""
        lifetime = self.rule.lifetime
        for number, commit in enumerate(commits.all):
            if self.rule.matches(commit.operation):
                is_before = self.rule.tier is Tier.BEFORE
                target = commits.before(number) if is_before else commit
                if target is None or target.instant in commits.excluded:
                    continue
                # the reach alone would lose what precedes the tier's first savepoint
                if target.at >= self.reach or not lifetime or end_of(target.at, lifetime) > now:
                    yield target

    def selects(self, commit: Commit, *, is_free: bool) -> bool:
        """Whether the tier selects the next commit; `is_free`: it may get a savepoint."""
        if self.rule.tier is Tier.EVERY_COMMIT:
            return is_free
        if self.rule.tier is Tier.EVERY_N:
            self.since += 1
            is_due = self.since >= self.rule.commits and is_free
            if is_due or commit.removed or commit.instant in self.saved:
                self.since = 0
            return is_due
        period = period_of(self.rule.tier, commit.instant)
        is_due = is_free and period not in self.periods
        if is_due:
            self.periods.add(period)
        return is_due

    def lasting(self, selected: Iterable[Commit], now: datetime) -> list[Commit]:
        """Those of which it would keep a savepoint that had been made with the commit."""
        new = {commit.instant: commit for commit in selected if commit.instant not in self.saved}
        mark = (self.rule.tier,)
        made = [
            Savepoint(commit.instant, commit.at, commit.at, None, mark) for commit in new.values()
        ]
        found = _of_tier(self.rule, sorted([*self.kept, *made], key=_BY_INSTANT), now)
        return [new[saved.instant] for saved in found if saved.instant in new]


@dataclass(slots=True)
class _Gaps:
    """The times of the policy's savepoints, by their instants."""

    least: timedelta
    moments: list[datetime]

    def has(self, at: datetime) -> bool:
        """Whether a time is too near to another savepoint."""
        if not self.least:
            return False
        place = bisect_left(self.moments, at)
        near = self.moments[max(0, place - 1) : place + 1]
        return any(abs(at - other) < self.least for other in near)

    def add(self, at: datetime) -> None:
        insort(self.moments, at)


def _within_maximum(
    rule: SavepointRule,
    own: Sequence[Savepoint],
    due: Iterable[tuple[Savepoint, tuple[Tier, ...]]],
    now: datetime,
) -> tuple[dict[str, tuple[Tier, ...]], dict[str, tuple[Tier, ...]]]:
    """The due and the withheld ones: a maximum refuses new ones, it removes none."""
    made, withheld = dict[str, tuple[Tier, ...]](), dict[str, tuple[Tier, ...]]()
    there = {saved.instant: saved for saved in own}
    for new, tiers in due:
        after = there | {new.instant: new}
        kept = _kept(rule, sorted(after.values(), key=_BY_INSTANT), now)
        if new.instant in there or rule.max_count is None or len(kept) <= rule.max_count:
            made[new.instant] = tiers
            there = after
        else:
            withheld[new.instant] = tiers
    return made, withheld
