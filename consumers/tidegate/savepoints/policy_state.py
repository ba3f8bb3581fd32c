"""The savepoint policy's state of a table. Small: it is one record of the changelog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pydantic import (
    AwareDatetime,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
)

from tidegate.events import Command, KeptSavepoint, Outcome, SavepointCreated, Value
from tidegate.events.limits import HudiInstant, Location, Text
from tidegate.events.savepoint_marks import LifetimeSeconds, PolicyName, TierName
from tidegate.hudi.instant_time import is_after, is_instant, is_long_ago

REMEMBERED: Final = 256
MAX_LASTING: Final = 100
MAX_SAVEPOINTS: Final = 1000
"""Maximum of savepoints remembered per table; the oldest ones, because those are removed first."""
_LOCATION: Final = TypeAdapter[str](Location)
_WANTED_FOR: Final = timedelta(hours=24)
_LONGEST_APPROVAL: Final = timedelta(days=21)
"""The settings' limit of `approve_within`; an outcome may have any time."""
_REVIEW_AFTER: Final = timedelta(hours=24)
_FIRST_WAIT: Final = timedelta(hours=1)
_LONGEST_WAIT: Final = timedelta(hours=24)


class RememberedSavepoint(Value, frozen=True):
    """A savepoint that may have to be removed one day. Times are the broker's.

    Its fields are valid in a removal request; those of outcomes may be invalid there.
    """

    instant: HudiInstant
    policy: PolicyName | None = None
    tiers: tuple[TierName, ...] = ()
    since: AwareDatetime
    lifetime_seconds: LifetimeSeconds | None = None
    cause: Text
    """The event that made it known; the id of a removal request derives from it."""
    asked: int = 0
    """How often its removal was requested."""
    asked_at: datetime | None = None

    @model_serializer(mode="wrap")
    def _compact(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit empty fields: a table may have hundreds of savepoints in one record."""
        return {name: value for name, value in handler(self).items() if value}

    @property
    def lifetime(self) -> timedelta | None:
        """How long a person wanted it kept."""
        return None if self.lifetime_seconds is None else timedelta(seconds=self.lifetime_seconds)

    def may_be_asked(self, at: datetime) -> bool:
        """Whether its removal may be requested now: false while an outcome may be on its way."""
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
    """A table's considered commits, the requests for them, and its current savepoints.

    `instants` are the last REMEMBERED ones, ascending. Instants order as strings, as in Hudi. Once
    the memory is full, an old instant below the smallest remembered one counts as considered. So a
    late repeat never requests a second savepoint, but a commit that is published more than
    REMEMBERED commits and a day late gets no savepoint by policy.

    A recent commit is always considered. Events that fill the memory with instants of today can
    cause duplicate requests, which the writer recognises, but no missing ones.
    """

    instants: tuple[str, ...] = ()
    location: str = ""
    """The table's location."""
    commits: int = 0
    """Commits since the last savepoint of tier EVERY_N."""
    last_at: datetime | None = None
    """When a savepoint was last requested."""
    tiers: dict[str, TierState] = Field(default_factory=dict[str, TierState])
    kept: tuple[RememberedSavepoint, ...] = ()
    wanted: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    """Savepoints to which a restore may be requested soon, with the time of that sign."""
    awaited: dict[str, datetime] = Field(default_factory=dict[str, datetime])
    """Savepoints of restores that wait for approval, with the deadline of the approval."""
    lasting: tuple[str, ...] = ()
    """Savepoints without a lifetime and without a policy: the newest MAX_LASTING, ascending.
    Recorded only for tables with a reaction to condemned commits."""
    condemned: tuple[str, ...] = ()
    """Condemned commits that led to a reaction: the last REMEMBERED, ascending."""
    newest: str = ""
    """The table's latest published instant. Recorded only for tables with a reaction to condemned
    commits."""
    review_asked_at: datetime | None = None
    """When a review of the table's own savepoints was last requested."""
    reviewed_at: datetime | None = None
    """When the table's savepoints were last compared with these."""

    def has(self, instant: str, at: datetime) -> bool:
        """Whether this instant was considered, or is too old at `at` to be known."""
        full = len(self.instants) == REMEMBERED
        forgotten = full and instant < self.instants[0] and is_long_ago(instant, at)
        return forgotten or instant in self.instants

    def wants_review(self, at: datetime) -> bool:
        """Whether to request a review: once a day, or an hour after one without an outcome."""
        if self.review_asked_at is None or is_after(self.review_asked_at, at):
            return True
        is_answered = self.reviewed_at is not None and self.reviewed_at >= self.review_asked_at
        return at >= self.review_asked_at + (_REVIEW_AFTER if is_answered else _FIRST_WAIT)

    def wanted_until(self, instant: str) -> datetime | None:
        """Until when a savepoint is kept for an expected restore; None: none is expected."""
        wanted_at, until = self.wanted.get(instant), self.awaited.get(instant)
        times = [] if wanted_at is None else [wanted_at + _WANTED_FOR]
        return max([*times, *([] if until is None else [until])], default=None)

    def is_wanted(self, instant: str, at: datetime) -> bool:
        """Whether a savepoint is now kept for an expected restore."""
        if (until := self.awaited.get(instant)) is not None and at < until:
            return True
        since = self.wanted.get(instant)
        return since is not None and at < since + _WANTED_FOR and not is_after(since, at)

    def with_wanted(self, instant: str, at: datetime) -> PolicyState:
        """The state after a sign that a restore to a savepoint may be requested soon."""
        if all(savepoint.instant != instant for savepoint in self.kept):
            return self
        there = {i: since for i, since in self.wanted.items() if self.is_wanted(i, at)}
        return self.with_(wanted=there | {instant: at})

    def with_awaited(self, instant: str, until: datetime | None, at: datetime) -> PolicyState:
        """The state after a restore to a savepoint began to wait for approval."""
        if until is None or all(savepoint.instant != instant for savepoint in self.kept):
            return self
        there = {known: end for known, end in self.awaited.items() if at < end}
        latest = min(max(there.get(instant, until), until), at + _LONGEST_APPROVAL)
        return self.with_(awaited=there | {instant: latest})

    def with_condemned(self, instant: str) -> PolicyState:
        """The state after the reaction to a condemned commit."""
        remembered = tuple(sorted((*self.condemned, instant)))[-REMEMBERED:]
        return self.with_(condemned=remembered, newest=max(self.newest, instant))

    def newest_savepoint_before(self, instant: str) -> str | None:
        """The newest known savepoint of an earlier commit."""
        known = (*(savepoint.instant for savepoint in self.kept), *self.lasting)
        return max((other for other in known if other < instant), default=None)

    def without(self, instant: str) -> PolicyState:
        """The state without a savepoint that is gone."""
        kept = tuple(savepoint for savepoint in self.kept if savepoint.instant != instant)
        lasting = tuple(other for other in self.lasting if other != instant)
        same = (len(kept), len(lasting)) == (len(self.kept), len(self.lasting))
        return self if same else self.with_(kept=kept, lasting=lasting)

    def with_(self, **fields: object) -> PolicyState:
        """The state with other fields."""
        return self.model_copy(update=fields)

    def considered(self, instant: str) -> tuple[str, ...]:
        """The considered instants with one more."""
        return tuple(sorted((*self.instants, instant)))[-REMEMBERED:]

    def with_created(self, event: SavepointCreated, at: datetime) -> PolicyState:
        """The state after an outcome that reports an existing savepoint."""
        known = {savepoint.instant: savepoint for savepoint in self.kept}
        entries = known | {savepoint.instant: savepoint for savepoint in self._made(event, at)}
        if event.reviewed:
            there = {savepoint.instant: savepoint for savepoint in event.savepoints}
            reviewed = (_reviewed(found, entries.get(i), event) for i, found in there.items())
            entries = {savepoint.instant: savepoint for savepoint in reviewed}
        oldest = sorted(entries.values(), key=lambda entry: (entry.since, entry.instant))[
            :MAX_SAVEPOINTS
        ]
        reviewed_at = at if event.reviewed else self.reviewed_at
        kept = tuple(oldest)
        if kept == self.kept and reviewed_at == self.reviewed_at:
            return self
        location = _LOCATION.validate_python(event.location)
        return self.with_(kept=kept, location=location, reviewed_at=reviewed_at)

    def with_lasting(self, event: SavepointCreated) -> PolicyState:
        """The state after an outcome whose savepoint no service may remove."""
        if event.policy or event.lifetime_seconds is not None or not is_instant(event.instant):
            return self
        lasting = tuple(sorted({*self.lasting, event.instant}))[-MAX_LASTING:]
        return self if lasting == self.lasting else self.with_(lasting=lasting)

    def _made(self, event: SavepointCreated, at: datetime) -> Iterable[RememberedSavepoint]:
        if event.policy is None and event.lifetime_seconds is None:
            return
        known = next((known for known in self.kept if known.instant == event.instant), None)
        if known is not None:
            tiers = tuple(sorted({*known.tiers, *event.tiers}))
            yield known if tiers == known.tiers else known.model_copy(update={"tiers": tiers})
            return
        of_policy = event.policy is not None
        yield RememberedSavepoint(
            instant=event.instant,
            policy=event.policy,
            tiers=tuple(sorted(event.tiers)),
            since=(event.decided_at or at) if of_policy else at,
            lifetime_seconds=event.lifetime_seconds,
            cause=event.event_id,
        )


class Decision(NamedTuple):
    """What follows from one event: the table's next state, and what to publish."""

    state: PolicyState
    commands: Sequence[Command] = ()
    outcomes: Sequence[Outcome] = ()


def _reviewed(
    there: KeptSavepoint, known: RememberedSavepoint | None, event: SavepointCreated
) -> RememberedSavepoint:
    """The timeline's savepoint, merged with the policy's own record: requests, further tiers."""
    if known is not None and known.policy == there.policy:
        tiers = tuple(sorted({*known.tiers, *there.tiers}))
        return known if tiers == known.tiers else known.model_copy(update={"tiers": tiers})
    return RememberedSavepoint(
        instant=there.instant,
        policy=there.policy,
        tiers=tuple(sorted(there.tiers)),
        since=(there.decided_at if there.policy else None) or there.made_at,
        lifetime_seconds=there.lifetime_seconds,
        cause=event.event_id,
    )
