"""Readers: a vacuum waits until the last lock and transaction that it saw has ended.

A vacuum, here, is what Hive calls a compaction. Events may arrive in any order, twice, or late. The
end of a lock is a row for as long as a vacuum waits that lists it, and for `remember_for` besides,
because a vacuum that lists it may still be on its way. What is forgotten then leaves a mark: a
vacuum that arrives with a hold at or below the mark makes an outcome that people see, and
publishing the release again sets it free. Forgetting delays a cleaning; it never makes one unsafe,
and it is never silent.

A waiting vacuum watches one of its holds that has not ended. When that hold ends, it watches the
next one, until there are none. So a release costs what it sets in motion, not the number of vacuums
or of their holds. A hold is named by tokens: an even number for a lock, an odd one for a
transaction. A lock that belongs to a transaction has two, because it ends with either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from tidegate.coordinator import alarms, holds
from tidegate.coordinator.alarms import SOURCE
from tidegate.coordinator.holds import is_held
from tidegate.coordinator.settings import AlarmSettings, alarms_of
from tidegate.coordinator.store import Kind, Store, dumps
from tidegate.coordinator.subject import Effects, milliseconds
from tidegate.coordinator.vacuums import (
    ENDED,
    OVERDUE,
    VACUUM,
    Hold,
    WaitingVacuum,
    end,
    ended,
    expired_of,
    has_ended,
    next_hold,
    overdue_ms,
    state_of,
    tokens_of,
    waiting,
    watch,
    watched,
)
from tidegate.errors import PermanentError
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    Event,
    LockReleased,
    QuarantineRemoved,
    VacuumFinished,
    WritesAborted,
)
from tidegate.events.cleanings import CleaningHoldRemoved
from tidegate.events.codec import encode

DONE: Final = Kind("done", ("at",), key="id", indexes=("done_at on done (tbl, at)",))
"""The identity, or the content, of a vacuum whose cleaning was released."""
KNOWN: Final = Kind("known")
"""A table of which a vacuum came."""
UNKNOWN: Final = Kind(
    "unknown",
    ("since", "reported"),
    has_body=True,
    derived=("due",),
    indexes=("unknown_due on unknown (due) where due is not null",),
)
"""A table of which only releases came: the first of them, and when that was reported."""
FORGOTTEN: Final = Kind("forgotten", ("lock_mark", "transaction_mark"), key="metastore")
"""The highest ids of a lock and of a transaction whose end was forgotten (-1: none was), by the
state of the Metastore that gave them out; 0: any."""
KINDS: Final = (
    *(VACUUM, OVERDUE, ENDED, DONE, KNOWN, UNKNOWN, FORGOTTEN),
    *(holds.DEFERRED, holds.QUARANTINE),
)
CHUNK: Final = 128
"""Events of a table between two checks whether something can be forgotten, at least."""
MAX_COMMAND_BYTES: Final = 900_000
"""A broker's default limit is 1 MiB, for a command with its headers."""
_MOST_BYTES_OF_A_CHARACTER: Final = 4
_DONE_LIMIT: Final = 2 * 4096
"""Two for each vacuum: beyond these a repeat is released again, with the id that it had."""
_AT_ONCE: Final = 1000
_WAITING: Final = "select tbl, id, since, content, body from vacuum"
_WATCHING: Final = {
    0: f"{_WAITING} indexed by vacuum_lock where tbl = ? and watch_lock = ?",
    1: f"{_WAITING} indexed by vacuum_transaction where tbl = ? and watch_transaction = ?",
}
"""By the lowest bit of a token."""
_READY: Final = (
    f"{_WAITING} indexed by vacuum_ready"
    " where tbl = ? and watch_lock is null and watch_transaction is null"
)
_DUE: Final = (
    "select min(due) from ("
    "select min(due) due from vacuum indexed by vacuum_due where due is not null"
    " union all select min(due) from unknown indexed by unknown_due where due is not null"
    " union all select min(due) from deferred indexed by deferred_due where due is not null"
    " union all select min(due) from quarantine indexed by quarantine_due)"
)


_MARKS: Final = (
    "select coalesce(max(lock_mark), -1), coalesce(max(transaction_mark), -1) from forgotten"
    " where tbl = ?"
)
_SEEN: Final = (
    "select 1 from known where tbl = ? union all select 1 from unknown where tbl = ? limit 1"
)
_CONSUMES: Final[tuple[type[Event], ...]] = (
    VacuumFinished,
    LockReleased,
    WritesAborted,
    CleaningHoldRequested,
    CleaningHoldRemovalRequested,
    CleaningDeferred,
    CleaningStarted,
    CleaningUndone,
    QuarantineRemoved,
)


@dataclass(frozen=True, slots=True)
class ReaderGate:
    """A subject (see `tidegate.coordinator.subject`) that releases a vacuum's cleaning.

    Ended locks and transactions are remembered for `remember_for` of the broker's time, and about
    `remember_most` of them a table, the oldest forgotten first; those that a waiting vacuum lists
    are remembered beyond that. Waiting vacuums are never forgotten.
    """

    remember_for: timedelta = timedelta(days=7)
    remember_most: int = 2**18
    alarms: tuple[AlarmSettings, ...] = ()
    """How long vacuums may wait, and releases of unknown tables may come, before an alarm."""
    consumes: tuple[type[Event], ...] = field(default=_CONSUMES, init=False)
    kinds: Sequence[Kind] = field(default=KINDS, init=False)

    def restored(self, rows: Store) -> None:
        """Let each vacuum watch a hold, and derive when rows are due."""
        for vacuum in waiting(rows, _WAITING):
            table = vacuum.table
            due = (
                None
                if overdue_ms(rows, vacuum)
                else alarms_of(self.alarms, table).overdue_at(vacuum.since)
            )
            hold = next_hold(rows, vacuum)
            rows.execute(
                "update vacuum set watch_lock = ?, watch_transaction = ?, due = ?"
                " where tbl = ? and id = ?",
                (*watched(hold), due, table, vacuum.id),
            )
        for table, since in rows.all("select tbl, since from unknown where reported is null"):
            due = alarms_of(self.alarms, table).unknown_at(since)
            rows.execute("update unknown set due = ? where tbl = ?", (due, table))

    def next_due(self, rows: Store) -> int | None:
        """When a vacuum is overdue, or the time of a quarantine is over."""
        due: int | None = rows.one(_DUE)[0]
        return due

    def due(self, rows: Store, at: datetime) -> Effects:
        """Report what has waited too long by now, and end quarantines."""
        effects = Effects()
        self._report_overdue(rows, at, effects)
        self._report_unknown(rows, at, effects)
        holds.release_due(rows, at, _AT_ONCE, effects)
        holds.request_removals(rows, at, _AT_ONCE, effects)
        return effects

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Apply one event; release every vacuum that it sets free."""
        effects = Effects()
        match event:
            case LockReleased():
                self._release(event, rows, at, effects)
                self._forget_now_and_then(rows, event.table, milliseconds(at))
            case VacuumFinished():
                self._vacuum(event, rows, at, effects)
                self._forget_now_and_then(rows, event.table, milliseconds(at))
            case WritesAborted():  # it waits for nothing: no reader reads what it left
                effects.commands.append(aborted_command(event, at))
            case CleaningHoldRequested():
                effects.outcomes.append(holds.hold(event, rows, at))
            case CleaningHoldRemovalRequested():
                holds.remove_hold(event, rows, at, effects)
                _free(rows, waiting(rows, _READY, event.table), at, effects)
                about = {"occurred_at": at, "source": SOURCE, "released": len(effects.commands)}
                effects.outcomes.append(CleaningHoldRemoved.about(event, **about))
            case CleaningDeferred():
                holds.defer(event, rows, at)
            case CleaningStarted():
                holds.quarantine(event, rows, at)
            case CleaningUndone() | QuarantineRemoved():
                holds.end_quarantine(event, rows)
            case _:
                pass
        return effects

    def _release(self, event: LockReleased, rows: Store, at: datetime, effects: Effects) -> None:
        """A lock, a transaction, or both have ended."""
        table, now = event.table, milliseconds(at)
        tokens = tokens_of(event)
        if rows.one(_SEEN, table, table) is None:
            due = alarms_of(self.alarms, table).unknown_at(now)
            first = dumps(event.model_dump(mode="json"))
            rows.put("unknown", table, None, (now, None), first, (due,))
        freed: dict[int, WaitingVacuum] = {}
        for token in tokens:
            end(rows, event, token, now)
        for token in tokens:
            for vacuum in waiting(rows, _WATCHING[token & 1], table, token):
                hold = next_hold(rows, vacuum)
                watch(rows, vacuum, hold)
                if hold is None:
                    freed[vacuum.id] = vacuum
        if freed:
            _free(rows, freed.values(), at, effects)

    def _vacuum(self, event: VacuumFinished, rows: Store, at: datetime, effects: Effects) -> None:
        """A vacuum was published, perhaps not for the first time."""
        require_publishable(event)
        now = WaitingVacuum.of_event(event, milliseconds(at))
        self._table_known(event, rows, at, effects)
        before = next(
            waiting(rows, f"{_WAITING} where tbl = ? and id = ?", now.table, now.id), None
        )
        if before is not None:
            self._published_again(event, rows, before, now, at, effects)
            return
        if _is_done(rows, now.table, now.content):
            marks = _marks(rows, now)
            if any(not (_is_below(marks, it) or has_ended(rows, now, it)) for it in now.holds):
                effects.outcomes.append(alarms.holds_after_release(event, at))
            return
        if _is_done(rows, now.table, now.id):
            effects.outcomes.append(alarms.content_changed(event, at))
        self._wait_or_free(rows, now, at, effects)
        _flag_forgotten(event, rows, now, now.holds, at, effects)

    def _table_known(
        self, event: VacuumFinished, rows: Store, at: datetime, effects: Effects
    ) -> None:
        """A vacuum came: if only releases of the table were known, that is over."""
        table = event.table
        if rows.one("select 1 from known where tbl = ?", table) is not None:
            return
        rows.put("known", table)
        found = rows.one("select since, reported from unknown where tbl = ?", table)
        rows.drop("unknown", table)
        if found is not None and found[1] is not None:
            since, reported = found
            effects.outcomes.append(alarms.known(event, since, reported, at))

    def _wait_or_free(
        self, rows: Store, vacuum: WaitingVacuum, at: datetime, effects: Effects
    ) -> None:
        """Store a vacuum with what it watches, or release its cleaning if it waits for nothing."""
        hold = next_hold(rows, vacuum)
        if hold is None and not is_held(rows, vacuum.table):
            _free(rows, [vacuum], at, effects)
            return
        overdue = overdue_ms(rows, vacuum)
        due = None if overdue else alarms_of(self.alarms, vacuum.table).overdue_at(vacuum.since)
        columns = (vacuum.since, vacuum.content)
        rows.put("vacuum", vacuum.table, vacuum.id, columns, vacuum.body, (*watched(hold), due))

    def _published_again(  # noqa: PLR0913, PLR0917 - the decision's context
        self,
        event: VacuumFinished,
        rows: Store,
        before: WaitingVacuum,
        now: WaitingVacuum,
        at: datetime,
        effects: Effects,
    ) -> None:
        """A writer and a bridge may have seen different holds: wait for those of both."""
        known = {lock.lock_id: lock for lock in before.locks}
        for lock in now.locks:
            if lock.lock_id not in known or known[lock.lock_id].transaction_id is None:
                known[lock.lock_id] = lock
        now.locks, now.since = tuple(known.values()), before.since
        now.transactions = tuple(dict.fromkeys((*before.transactions, *now.transactions)))
        if before.content != now.content:  # the later publication is the correction
            if (overdue := overdue_ms(rows, before)) is not None:
                effects.outcomes.append(alarms.resolved(before.about(at), overdue, now.event_id))
            rows.drop("overdue", now.table, now.id)
            effects.outcomes.append(alarms.content_changed(event, at))
        else:
            now.event_id, now.vacuum = before.event_id, before.vacuum
        if now != before:
            self._wait_or_free(rows, now, at, effects)
            further = set(now.holds) - set(before.holds)  # the others were never forgotten
            _flag_forgotten(event, rows, now, further, at, effects)

    def _report_overdue(self, rows: Store, at: datetime, effects: Effects) -> None:
        due = f"{_WAITING} indexed by vacuum_due where due <= ? order by due limit ?"
        for vacuum in waiting(rows, due, milliseconds(at), _AT_ONCE):
            table, number = vacuum.table, vacuum.id
            rows.execute("update vacuum set due = null where tbl = ? and id = ?", (table, number))
            outstanding = list(vacuum.outstanding_readers(rows))
            limit = alarms_of(self.alarms, table).overdue_after
            if outstanding and limit:  # without readers it waits for a person's hold
                rows.put("overdue", table, vacuum.id, (milliseconds(at),))
                effects.outcomes.append(alarms.overdue(vacuum.about(at), outstanding, limit))

    def _report_unknown(self, rows: Store, at: datetime, effects: Effects) -> None:
        due = rows.all(
            "select tbl, since, body from unknown indexed by unknown_due where due <= ?"
            " order by due limit ?",
            milliseconds(at),
            _AT_ONCE,
        )
        for table, since, body in due:
            limit = alarms_of(self.alarms, table).unknown_after
            rows.put("unknown", table, None, (since, milliseconds(at)), body, (None,))
            first = LockReleased.model_validate_json(body)
            effects.outcomes.append(alarms.unknown(first, since, limit, at))

    def _forget_now_and_then(self, rows: Store, table: str, now: int) -> None:
        last, events = rows.checked.get(table, (0, 0))
        remember_ms = self.remember_for // timedelta(milliseconds=1)
        if events < max(CHUNK, self.remember_most // 64) and now - last < remember_ms // 16:
            rows.checked[table] = last, events + 1
            return
        rows.checked[table] = now, 0
        self._forget_ended(rows, table, now, now - remember_ms)
        for number in _oldest(rows, "done", "id", table, now - remember_ms, _DONE_LIMIT):
            rows.drop("done", table, number)

    def _forget_ended(self, rows: Store, table: str, now: int, before: int) -> None:
        """Forget what is old, but not what a waiting vacuum lists; leave a mark of the rest."""
        old = _oldest(rows, "ended", "token", table, before, self.remember_most)
        [count] = rows.one("select count(*) from vacuum where tbl = ?", table)
        if not old or len(old) < count:  # it reads all waiting vacuums: not for a few
            return
        needed = {
            token
            for vacuum in waiting(rows, f"{_WAITING} where tbl = ?", table)
            for hold in vacuum.holds
            for token in hold
        }
        marks = defaultdict[str | None, list[int]](lambda: [-1, -1])
        for token in old:
            expired, metastores = ended(rows, table, token)
            if token in needed:
                rows.put("ended", table, token, (now, expired, metastores))
                continue
            rows.drop("ended", table, token)
            for state in (None,) if metastores is None else metastores.split():
                mark = marks[state][token & 1]
                marks[state][token & 1] = max(mark, token >> 1)
        for state, raised in marks.items():
            _raise_marks(rows, table, state, raised)


def command_for(vacuum: VacuumFinished, at: datetime) -> CleaningReleased:
    """The command that follows once the vacuum is free; also what a dry run plans for."""
    return _command(WaitingVacuum.of_event(vacuum, milliseconds(at)), at)


def aborted_command(event: WritesAborted, at: datetime) -> AbortedCleaningReleased:
    """The command to remove what aborted writes left."""
    return AbortedCleaningReleased.about(
        event,
        source=SOURCE,
        occurred_at=at,
        partition=event.partition,
        valid_write_ids=event.valid_write_ids,
        content=event.content,
    )


def require_publishable(event: VacuumFinished) -> None:
    """Refuse a vacuum at once whose command no topic would take: it would wait without end.

    Raises:
        PermanentError: the command would be too large.
    """
    characters = len(event.valid_write_ids) + sum(map(len, event.directories))
    if characters * _MOST_BYTES_OF_A_CHARACTER <= MAX_COMMAND_BYTES:
        return
    size = len(encode(command_for(event, event.occurred_at)))
    if size > MAX_COMMAND_BYTES:
        raise PermanentError(
            f"the command to clean after this vacuum would have {size} bytes; at most"
            f" {MAX_COMMAND_BYTES} can be published"
        )


def _command(
    vacuum: WaitingVacuum, at: datetime, *, after_expiry: bool = False
) -> CleaningReleased:
    """Derived from the vacuum alone, but for the time: its id does not depend on who came last."""
    return CleaningReleased(
        table=vacuum.table,
        occurred_at=at,
        source=SOURCE,
        caused_by=vacuum.event_id,
        after_expiry=after_expiry,
        last_lock_id=max([lock.lock_id for lock in vacuum.locks], default=None),
        last_transaction_id=max(vacuum.transactions, default=None),
        **vacuum.vacuum._asdict(),
    )


def _free(rows: Store, vacuums: Iterable[WaitingVacuum], at: datetime, effects: Effects) -> None:
    """Release the cleanings of vacuums that wait for nothing more, unless the table is held."""
    for vacuum in sorted(vacuums, key=attrgetter("since", "event_id")):
        table = vacuum.table
        if is_held(rows, table):
            return
        if (overdue := overdue_ms(rows, vacuum)) is not None:
            effects.outcomes.append(alarms.resolved(vacuum.about(at), overdue))
        rows.drop("overdue", table, vacuum.id)
        rows.drop("vacuum", table, vacuum.id)
        for done in (vacuum.id, vacuum.content):
            rows.put("done", table, done, (milliseconds(at),))
        expired = any(expired_of(rows, vacuum, token) for hold in vacuum.holds for token in hold)
        effects.commands.append(_command(vacuum, at, after_expiry=expired))


def _is_done(rows: Store, table: str, number: int) -> bool:
    return rows.one("select 1 from done where tbl = ? and id = ?", table, number) is not None


Marks = Sequence[int]
"""The highest ids of a lock and of a transaction whose end was forgotten; -1: none was."""


def _marks(rows: Store, vacuum: WaitingVacuum) -> Marks:
    """Those that count for a vacuum: ids of another state of its Metastore are of other readers."""
    state = state_of(vacuum.metastore)
    which, keys = ("", ()) if state is None else (" and metastore in (0, ?)", (int(state, 16),))
    marks: Marks = rows.one(f"{_MARKS}{which}", vacuum.table, *keys)
    return marks


def _is_below(marks: Marks, hold: Hold) -> bool:
    return any(token >> 1 <= marks[token & 1] for token in hold)


def _flag_forgotten(  # noqa: PLR0913, PLR0917 - the decision's context
    event: VacuumFinished,
    rows: Store,
    vacuum: WaitingVacuum,
    among: Iterable[Hold],
    at: datetime,
    effects: Effects,
) -> None:
    """Report the holds for whose release a vacuum may wait in vain, because it was forgotten."""
    marks = _marks(rows, vacuum)
    if max(marks) < 0:  # nothing was ever forgotten
        return
    found = [it for it in among if _is_below(marks, it) and not has_ended(rows, vacuum, it)]
    if found:
        effects.outcomes.append(alarms.may_be_forgotten(event, at, found))


def _raise_marks(rows: Store, table: str, state: str | None, marks: Marks) -> None:
    key = 0 if state is None else int(state, 16)
    before = rows.one(f"{_MARKS} and metastore = ?", table, key)
    rows.put("forgotten", table, key, [*map(max, before, marks)])


def _oldest(  # noqa: PLR0913, PLR0917 - the parts of a query
    rows: Store, kind: str, key: str, table: str, before: int, limit: int
) -> list[int]:
    """The keys of a table's oldest rows: those from before a time, and those beyond the limit."""
    index = f"from {kind} indexed by {kind}_at where tbl = ?"
    [count] = rows.one(f"select count(*) {index}", table)
    [old] = rows.one(f"select count(*) {index} and at < ?", table, before)
    found = rows.all(f"select {key} {index} order by at limit ?", table, max(old, count - limit))
    return [number for (number,) in found]
