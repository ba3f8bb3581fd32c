"""Savepoints as a subject: when to check which table's retention, and condemned commits.

The savepoint writer decides on the table's own timeline which savepoints are due and which may go.
Here is only the state that a timeline can't show: when to check, and which savepoint a person may
soon need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import singledispatchmethod
from typing import Final, TypeVar

from pydantic import AwareDatetime, Field, TypeAdapter

from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE, Effects
from tidegate.errors import FormatError
from tidegate.errors.commands import command_line
from tidegate.events import (
    CommitCompleted,
    CommitCondemned,
    CommitFlag,
    CommitFlagged,
    Event,
    RestoreAwaitingApproval,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    RestoreRequested,
    SavepointCreated,
    SavepointsChecked,
    SavepointsCheckRequested,
    Value,
)
from tidegate.events.fields import Location, to_ms
from tidegate.hudi.instant import is_in_the_future, is_instant
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.rules import SavepointRule, rule_of

POLICY: Final = RowType(
    "policy",
    has_body=True,
    derived=("due",),
    indexes=("policy_due on policy (due) where due is not null",),
)
SAVEPOINTABLE: Final = frozenset({"commit", "deltacommit", "replacecommit"})
"""Actions whose commits may get a savepoint by policy."""
_AT_ONCE: Final = 100
_AGAIN_AFTER: Final = timedelta(minutes=1)
"""A table that was checked is not due again at once, however late the writer's clock is."""
_WANTED_FOR: Final = timedelta(hours=24)
_LONGEST_APPROVAL: Final = timedelta(days=21)
"""The settings' limit of `approve_within`; an outcome may have any time."""
_REMEMBERED: Final = 100
_MAX_REASON: Final = 1_000
_LOCATION: Final = TypeAdapter[str](Location)
_T = TypeVar("_T")


class _Table(Value, frozen=True):
    """A table's row. Small: it is one record of the changelog."""

    location: str = ""
    cause: str = ""
    """The id of the last event: the cause of a check that time alone brings about."""
    attempt: int = 0
    """The number of checks so far."""
    next_check: AwareDatetime | None = None
    measured: str = ""
    """The day of the last check that measured."""
    wanted: dict[str, AwareDatetime] = Field(default_factory=dict[str, AwareDatetime])
    """Savepoints to which a restore may be requested soon, and until when."""
    published: tuple[str, ...] = ()
    """Published commits that no check has found on the timeline, or missing there, yet."""
    newest: str = ""
    """The latest published instant. Only for tables with a reaction to condemned commits."""
    condemned: dict[str, CommitCondemned] = Field(default_factory=dict[str, CommitCondemned])
    """Condemned commits that wait for the outcome of a check."""
    answered: dict[str, str] = Field(default_factory=dict[str, str])
    """Condemned commits that led to a request, with its id."""

    def with_(self, **fields: object) -> _Table:
        return self.model_copy(update=fields)


class SavepointSubject:
    """Requests the checks of tables: after a commit, after an outcome, and in time."""

    consumes: tuple[type[Event], ...] = (
        CommitCompleted,
        SavepointCreated,
        SavepointsChecked,
        RestorePlanned,
        RestoreRejected,
        RestoreFailed,
        CommitCondemned,
        RestoreAwaitingApproval,
    )
    row_types: Sequence[RowType] = (POLICY,)

    def __init__(
        self,
        rules: tuple[SavepointRule, ...] = (),
        restores: RestoreSettings | None = None,
        normalise: Callable[[str], str] = str,
    ) -> None:
        """Take the policy's rules, and those for condemned commits (by default no reaction).

        `normalise` returns a location in the spelling of the rules, or raises FormatError.
        """
        self._rules, self._restores = rules, restores or RestoreSettings()
        self._normalise = normalise

    def restored(self, rows: Store) -> None:
        """Derive when each table is due."""
        for table, body in rows.all("select tbl, body from policy"):
            due = _due(_Table.model_validate_json(body))
            rows.execute("update policy set due = ? where tbl = ?", (due, table))

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Record the event, and request what follows.

        Raises:
            FormatError: the instant of a condemned commit is later than any clock explains.
        """
        found = rows.one("select body from policy where tbl = ?", event.table)
        before = _Table() if found is None else _Table.model_validate_json(found[0])
        after, effects = self._apply(event, before, at)
        if after is not before:
            _put(rows, event.table, after)
        return effects

    def next_due(self, rows: Store) -> int | None:
        """When the next table has to be checked."""
        query = "select min(due) from policy indexed by policy_due where due is not null"
        due: int | None = rows.one(query)[0]
        return due

    def due(self, rows: Store, at: datetime) -> Effects:
        """Request the checks that are due: `due` has no other deadline, such as an alarm's."""
        query = "select tbl, body from policy indexed by policy_due where due <= ?"
        effects = Effects()
        found = rows.all(f"{query} order by due limit ?", to_ms(at), _AT_ONCE)
        for table, body in found:
            after, requested = _check(table, _Table.model_validate_json(body), at)
            _put(rows, table, after)
            effects.commands += requested.commands
        return effects

    @singledispatchmethod
    def _apply(
        self,
        event: Event,  # noqa: ARG002 - for the kinds that are consumed
        table: _Table,
        at: datetime,  # noqa: ARG002
    ) -> tuple[_Table, Effects]:
        return table, Effects()

    @_apply.register
    def _(self, event: CommitCompleted, table: _Table, at: datetime) -> tuple[_Table, Effects]:
        if self._action(event) != "nothing" and not is_in_the_future(event.instant, at):
            table = table.with_(newest=max(table.newest, event.instant))
        if rule_of(self._rules, event.table) is None or event.action not in SAVEPOINTABLE:
            return table, Effects()
        published = tuple(dict.fromkeys((*table.published, event.instant)))[-_REMEMBERED:]
        return _check(event.table, _seen(table, event).with_(published=published), at)

    @_apply.register
    def _(self, event: SavepointCreated, table: _Table, at: datetime) -> tuple[_Table, Effects]:
        if event.policy is not None or event.lifetime_seconds is None:
            return table, Effects()
        # from now on time alone may end it
        return _check(event.table, _seen(table, event), at)

    @_apply.register
    def _(self, event: SavepointsChecked, table: _Table, at: datetime) -> tuple[_Table, Effects]:
        again = event.next_check and max(event.next_check, at + _AGAIN_AFTER)
        left = tuple(it for it in table.published if it not in event.commits)
        table = _seen(table, event).with_(next_check=again, published=left)
        if event.pinned_files is not None:  # a check that measured; another may have replaced one
            table = table.with_(measured=at.date().isoformat())
        bad = table.condemned.get(event.condemned or "")
        return (table, Effects()) if bad is None else self._answer(bad, event, table, at)

    @_apply.register(RestorePlanned)
    @_apply.register(RestoreRejected)
    @_apply.register(RestoreFailed)
    def _(
        self, event: RestorePlanned | RestoreRejected | RestoreFailed, table: _Table, at: datetime
    ) -> tuple[_Table, Effects]:
        # the requester of a plan or of a restore that did not run may soon need the savepoint
        # condemned again, the commit is answered again
        if isinstance(event, RestoreRejected | RestoreFailed):
            left = {bad: by for bad, by in table.answered.items() if by != event.caused_by}
            table = table if left == table.answered else table.with_(answered=left)
        return _wanted(table, event.savepoint, at + _WANTED_FOR, at), Effects()

    @_apply.register
    def _(
        self, event: RestoreAwaitingApproval, table: _Table, at: datetime
    ) -> tuple[_Table, Effects]:
        until = min(event.expires_at or at + _WANTED_FOR, at + _LONGEST_APPROVAL)
        return _wanted(table, event.savepoint, until, at), Effects()

    @_apply.register
    def _(self, event: CommitCondemned, table: _Table, at: datetime) -> tuple[_Table, Effects]:
        if self._action(event) == "nothing" or event.instant in table.answered:
            return table, Effects()
        if is_in_the_future(event.instant, at):
            raise FormatError(
                f"the instant {event.instant} is more than a day later than the broker's time of"
                f" the event, {at:%Y-%m-%dT%H:%M:%SZ}: no writer can have completed it yet"
            )
        waiting = _last({**table.condemned, event.instant: event})
        newest = max(table.newest, event.instant)
        table = _seen(table, event).with_(condemned=waiting, newest=newest)
        return _check(event.table, table, at, event.instant)

    def _action(self, event: CommitCompleted | CommitCondemned) -> str:
        """The reaction to a condemned commit of the event's table.

        Any writer may condemn a commit, so that event alone never changes a table: the plan only
        shows what a restore would do, and the restore waits for a person's approval.
        """
        try:
            location = self._normalise(event.location)
        except FormatError:
            location = ""  # in none of the directories
        rule = self._restores.rule_of(event.table, location)
        return rule.condemned if rule else "nothing"

    def _answer(
        self, bad: CommitCondemned, check: SavepointsChecked, table: _Table, at: datetime
    ) -> tuple[_Table, Effects]:
        """Request the plan or the restore, or name the obstacle.

        The request covers no commit later than the newest one published when the commit was
        condemned (`seen_up_to`): the writer that condemned it could not have seen a later one.
        """
        waiting = {i: event for i, event in table.condemned.items() if i != bad.instant}
        table = table.with_(condemned=waiting)
        action = self._action(bad)
        flag = _flag(bad, check)
        if flag is not None:
            kind, message = flag
            flagged = CommitFlagged.about(
                check,
                source=SOURCE,
                occurred_at=at,
                instant=bad.instant,
                flag=kind,
                message=f"{bad.source} condemned the commit ({bad.reason}), but {message}",
            )
            return table, Effects(outcomes=[flagged])
        why = f"commit {bad.instant} was condemned by {bad.source}: {bad.reason}"
        request = RestoreRequested.about(
            check,
            source=SOURCE,
            occurred_at=at,
            savepoint=check.newest_before,
            requested_by=bad.source,
            reason=why[:_MAX_REASON],
            plan_only=action == "plan",
            needs_approval=action == "restore",
            seen_up_to=table.newest,
        )
        answered = _last({**table.answered, bad.instant: request.event_id})
        table = _wanted(table, request.savepoint, at + _WANTED_FOR, at)
        return table.with_(answered=answered), Effects([request])


def _flag(bad: CommitCondemned, check: SavepointsChecked) -> tuple[CommitFlag, str] | None:
    """Why no restore is requested, and what to do."""
    if check.newest_before is None:
        listing = command_line("savepoints list", bad.location)
        what = f"the table has no savepoint of an earlier commit. See its savepoints: {listing}"
        return CommitFlag.NO_SAVEPOINT_BEFORE, what
    if check.later:
        later = ", ".join(check.later[:10])
        removal = command_line(
            "publish savepoint-removal", table=bad.table, savepoint=check.later[0], reason="WHY"
        )
        what = (
            f"the savepoints {later} are of that commit or of later ones, and a restore needs them"
            f" removed: {removal}. Then condemn it again"
        )
        return CommitFlag.SAVEPOINT_AFTER, what
    return None


def _check(
    name: str, table: _Table, at: datetime, condemned: str | None = None
) -> tuple[_Table, Effects]:
    """Request a check of the table that the row describes."""
    day = at.date().isoformat()
    wanted = {instant: until for instant, until in table.wanted.items() if until > at}
    request = SavepointsCheckRequested(
        table=name,
        location=table.location,
        occurred_at=at,
        source=SOURCE,
        caused_by=table.cause,
        attempt=table.attempt,
        wanted=tuple(sorted(wanted)),
        condemned=condemned,
        commits=table.published,
        measure=table.measured != day,
    )
    # without an outcome, it is checked again at the next event
    after = table.with_(attempt=table.attempt + 1, wanted=wanted, next_check=None)
    return after, Effects([request])


def _seen(table: _Table, event: Event) -> _Table:
    """The row after an event of the table.

    Raises:
        FormatError: no request can name the location: an outcome may have any.
    """
    try:
        location = _LOCATION.validate_python(event.location)
    except ValueError as error:
        raise FormatError(f"no check can be requested for this location: {error}") from error
    return table.with_(location=location, cause=event.event_id)


def _wanted(table: _Table, savepoint: str, until: datetime, at: datetime) -> _Table:
    """The row once a savepoint must stay until a time. An outcome may name anything."""
    if not is_instant(savepoint):
        return table
    there = {instant: end for instant, end in table.wanted.items() if end > at}
    there[savepoint] = max(until, there.get(savepoint, until))
    return table.with_(wanted=_last(there))


def _last(found: Mapping[str, _T]) -> dict[str, _T]:
    """The entries that were added last, so that a row stays small."""
    return dict(list(found.items())[-_REMEMBERED:])


def _due(table: _Table) -> int | None:
    ends = [*table.wanted.values(), *([table.next_check] if table.next_check else [])]
    return to_ms(min(ends)) if ends and table.cause else None


def _put(rows: Store, name: str, table: _Table) -> None:
    rows.put("policy", name, body=table.model_dump_json(), derived=(_due(table),))
