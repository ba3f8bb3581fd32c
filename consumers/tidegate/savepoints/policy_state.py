"""What the savepoint policy remembers of a table. Small: it is one record of the changelog."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from pydantic import (
    AwareDatetime,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
)

from tidegate.events import KeptSavepoint, SavepointCreated, Value
from tidegate.events.limits import HudiInstant, Location, Text
from tidegate.events.savepoint_marks import LifetimeSeconds, PolicyName, TierName
from tidegate.hudi.instant_time import is_after, is_instant, is_long_ago

REMEMBERED: Final = 256
MAX_LASTING: Final = 100
MAX_KEPT: Final = 1000
"""Savepoints remembered of a table; the oldest, because those go first."""
_LOCATION: Final = TypeAdapter[str](Location)
_WANTED_FOR: Final = timedelta(hours=24)
_LONGEST_APPROVAL: Final = timedelta(days=21)
"""As the settings limit `approve_within`: an outcome may say anything."""
_REVIEW_AFTER: Final = timedelta(hours=24)
_FIRST_WAIT: Final = timedelta(hours=1)
_LONGEST_WAIT: Final = timedelta(hours=24)


class KeptEntry(Value, frozen=True):
    """A savepoint that may have to be removed one day. Times are the broker's.

    Its fields are such that the removal can be requested: outcomes may hold other values.
    """

    instant: HudiInstant
    policy: PolicyName | None = None
    tiers: tuple[TierName, ...] = ()
    since: AwareDatetime
    lifetime_seconds: LifetimeSeconds | None = None
    cause: Text
    """The event that made it known: a removal's id derives from it."""
    asked: int = 0
    """How often its removal was requested."""
    asked_at: datetime | None = None

    @model_serializer(mode="wrap")
    def _compact(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Without what is empty: a table may have hundreds of these in one record."""
        return {name: value for name, value in handler(self).items() if value}

    @property
    def lifetime(self) -> timedelta | None:
        """How long a person wanted it kept."""
        return None if self.lifetime_seconds is None else timedelta(seconds=self.lifetime_seconds)

    def may_be_asked(self, at: datetime) -> bool:
        """Whether its removal may be requested now: not, while an answer may be on its way."""
        again = self.ask_again_at
        if again is None or self.asked_at is None:
            return True
        return again <= at or is_after(self.asked_at, at)

    @property
    def ask_again_at(self) -> datetime | None:
        """When its removal may be requested again; None: it was not requested."""
        if self.asked_at is None:
            return None
        wait: timedelta = _FIRST_WAIT * 2 ** min(self.asked - 1, 10)
        return self.asked_at + min(wait, _LONGEST_WAIT)


class TierState(Value, frozen=True):
    """The last savepoint requested for a tier."""

    period: str = ""
    request: str = ""
    """The request's id: if it is rejected, the tier is due again."""


class PolicyState(Value, frozen=True):
    """A table's commits that were considered, what was requested for them, and what there is now.

    `instants` are the last REMEMBERED, ascending. Instants order as strings, as in Hudi. Once the
    memory is full, an old instant below the least remembered one counts as considered: a late
    repeat never requests twice, at the price that a commit published more than REMEMBERED commits
    and a day late gets no savepoint by policy.

    That price is never asked of a commit that may be new: whoever fills the memory with instants of
    today can have savepoints requested twice, which the writer recognises, and never not at all.
    """

    instants: tuple[str, ...] = ()
    location: str = ""
    """Where the savepoints are."""
    commits: int = 0
    """Since the last savepoint for every N commits."""
    last_at: datetime | None = None
    """When a savepoint was last requested."""
    tiers: dict[str, TierState] = Field(default_factory=dict[str, TierState])
    kept: tuple[KeptEntry, ...] = ()
    wanted: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    """The savepoints that somebody was about to restore to, and when that was said."""
    awaited: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    """The savepoints of restores that wait for an approval, and until when that may come."""
    lasting: tuple[str, ...] = ()
    """Savepoints without a lifetime that no policy made, where condemned commits are answered: the
    newest MAX_LASTING, ascending."""
    condemned: tuple[str, ...] = ()
    """Condemned commits that were answered: the last REMEMBERED, ascending."""
    newest: str = ""
    """The latest instant published of the table, where condemned commits are answered."""
    review_asked_at: datetime | None = None
    """When the table's own list of savepoints was last asked for."""
    reviewed_at: datetime | None = None
    """When the table's savepoints were last compared with these."""

    def has(self, instant: str, at: datetime) -> bool:
        """Whether this instant was considered, or it is too old at `at` to know."""
        full = len(self.instants) == REMEMBERED
        forgotten = full and instant < self.instants[0] and is_long_ago(instant, at)
        return forgotten or instant in self.instants

    def wants_review(self, at: datetime) -> bool:
        """Whether to ask for the table's own list: once a day, an hour after no answer."""
        if self.review_asked_at is None or is_after(self.review_asked_at, at):
            return True
        is_answered = self.reviewed_at is not None and self.reviewed_at >= self.review_asked_at
        return at >= self.review_asked_at + (_REVIEW_AFTER if is_answered else _FIRST_WAIT)

    def wanted_until(self, instant: str) -> datetime | None:
        """Until when a savepoint is kept for a restore that somebody was about to request."""
        said_at, until = self.wanted.get(instant), self.awaited.get(instant)
        times = [] if said_at is None else [said_at + _WANTED_FOR]
        return max([*times, *([] if until is None else [until])], default=None)

    def is_wanted(self, instant: str, at: datetime) -> bool:
        """Whether a savepoint is kept for a restore now."""
        if (until := self.awaited.get(instant)) is not None and at < until:
            return True
        said_at = self.wanted.get(instant)
        return said_at is not None and at < said_at + _WANTED_FOR and not is_after(said_at, at)

    def with_wanted(self, instant: str, at: datetime) -> PolicyState:
        """The state after somebody showed that they may restore to a savepoint."""
        if all(each.instant != instant for each in self.kept):
            return self
        there = {i: said for i, said in self.wanted.items() if self.is_wanted(i, at)}
        return self.with_(wanted=there | {instant: at})

    def with_awaited(self, instant: str, until: datetime | None, at: datetime) -> PolicyState:
        """The state after a restore to a savepoint began to wait for an approval."""
        if until is None or all(each.instant != instant for each in self.kept):
            return self
        there = {each: time for each, time in self.awaited.items() if at < time}
        known = there.get(instant, until)
        latest = min(max(known, until), at + _LONGEST_APPROVAL)
        return self.with_(awaited=there | {instant: latest})

    def with_condemned(self, instant: str) -> PolicyState:
        """The state after a condemned commit was answered."""
        remembered = tuple(sorted((*self.condemned, instant)))[-REMEMBERED:]
        return self.with_(condemned=remembered, newest=max(self.newest, instant))

    def newest_savepoint_before(self, instant: str) -> str | None:
        """The newest savepoint of an earlier commit, of those that are known."""
        known = (*(each.instant for each in self.kept), *self.lasting)
        return max((each for each in known if each < instant), default=None)

    def without(self, instant: str) -> PolicyState:
        """The state after a savepoint was found to be gone."""
        kept = tuple(each for each in self.kept if each.instant != instant)
        lasting = tuple(each for each in self.lasting if each != instant)
        same = (len(kept), len(lasting)) == (len(self.kept), len(self.lasting))
        return self if same else self.with_(kept=kept, lasting=lasting)

    def with_(self, **fields: object) -> PolicyState:
        """The state with other fields."""
        return self.model_copy(update=fields)

    def considered(self, instant: str) -> tuple[str, ...]:
        """The memory with one more instant in it."""
        return tuple(sorted((*self.instants, instant)))[-REMEMBERED:]

    def with_created(self, event: SavepointCreated, at: datetime) -> PolicyState:
        """The state after an outcome that says that a savepoint is there."""
        known = {each.instant: each for each in self.kept}
        entries = known | {each.instant: each for each in self._made(event, at)}
        if event.reviewed:
            there = {savepoint.instant: savepoint for savepoint in event.savepoints}
            reviewed = (_reviewed(each, entries.get(i), event) for i, each in there.items())
            entries = {each.instant: each for each in reviewed}
        oldest = sorted(entries.values(), key=lambda entry: (entry.since, entry.instant))[:MAX_KEPT]
        reviewed_at = at if event.reviewed else self.reviewed_at
        kept = tuple(oldest)
        if kept == self.kept and reviewed_at == self.reviewed_at:
            return self
        location = _LOCATION.validate_python(event.location)
        return self.with_(kept=kept, location=location, reviewed_at=reviewed_at)

    def with_lasting(self, event: SavepointCreated) -> PolicyState:
        """The state after an outcome that may be of a savepoint that no policy will remove."""
        if event.policy or event.lifetime_seconds is not None or not is_instant(event.instant):
            return self
        lasting = tuple(sorted({*self.lasting, event.instant}))[-MAX_LASTING:]
        return self if lasting == self.lasting else self.with_(lasting=lasting)

    def _made(self, event: SavepointCreated, at: datetime) -> Iterable[KeptEntry]:
        if event.policy is None and event.lifetime_seconds is None:
            return
        known = next((each for each in self.kept if each.instant == event.instant), None)
        if known is not None:
            tiers = tuple(sorted({*known.tiers, *event.tiers}))
            yield known if tiers == known.tiers else known.model_copy(update={"tiers": tiers})
            return
        of_policy = event.policy is not None
        yield KeptEntry(
            instant=event.instant,
            policy=event.policy,
            tiers=tuple(sorted(event.tiers)),
            since=(event.decided_at or at) if of_policy else at,
            lifetime_seconds=event.lifetime_seconds,
            cause=event.event_id,
        )


def _reviewed(there: KeptSavepoint, known: KeptEntry | None, event: SavepointCreated) -> KeptEntry:
    """What the timeline says, and what only the policy knows: when it was asked, further tiers."""
    if known is not None and known.policy == there.policy:
        tiers = tuple(sorted({*known.tiers, *there.tiers}))
        return known if tiers == known.tiers else known.model_copy(update={"tiers": tiers})
    return KeptEntry(
        instant=there.instant,
        policy=there.policy,
        tiers=tuple(sorted(there.tiers)),
        since=(there.decided_at if there.policy else None) or there.made_at,
        lifetime_seconds=there.lifetime_seconds,
        cause=event.event_id,
    )
