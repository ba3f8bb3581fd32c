"""Readers: a vacuum waits until the last lock and transaction that it saw has ended.

A vacuum, here, is what Hive calls a compaction. Events may arrive in any order, twice, or late. The
end of a lock is a row for as long as a vacuum waits that lists it, and for `remember_for` besides,
because a vacuum that lists it may still be on its way. What is forgotten then leaves a mark: a
vacuum that arrives with a reader at or below the mark makes an outcome that people see, and
publishing the release again sets it free. Forgetting delays a cleaning; it never makes one unsafe,
and it is never silent.

A waiting vacuum watches one of its readers that has not ended. When that ends, it watches the next
one, until there are none. So a release costs what it sets in motion, not the number of vacuums or
of their readers. A *hold* is what a person has on a table (`tidegate.coordinator.holds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Final

from tidegate.coordinator import alarms, holds, quarantines
from tidegate.coordinator.alarms import AlarmSettings, alarms_of
from tidegate.coordinator.holds import is_held
from tidegate.coordinator.memory import DONE, FORGOTTEN, Memory, is_below, marks_of
from tidegate.coordinator.rows.records import dumps
from tidegate.coordinator.rows.store import Kind, Store
from tidegate.coordinator.subject import SOURCE, Effects
from tidegate.coordinator.vacuums import (
    ENDED,
    OVERDUE,
    VACUUM,
    Reader,
    WaitingVacuum,
    end_of,
    ids_of,
    next_reader,
    overdue_since,
    put_end,
    reader_of,
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
    DirectoriesCleaned,
    Event,
    LockReleased,
    QuarantineRemoved,
    VacuumFinished,
    WritesAborted,
)
from tidegate.events.cleanings import CleaningHeld, CleaningHoldRemoved
from tidegate.events.codec import encode
from tidegate.events.fields import to_ms

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
KINDS: Final = (
    *(VACUUM, OVERDUE, ENDED, DONE, KNOWN, UNKNOWN, FORGOTTEN),
    *(holds.HOLD, holds.DEFERRED, quarantines.QUARANTINE),
)
MAX_COMMAND_BYTES: Final = 900_000
"""A broker's default limit is 1 MiB, for a command with its headers."""
_MOST_BYTES_OF_A_CHARACTER: Final = 4
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


_SEEN: Final = (
    "select 1 from known where tbl = ? union all select 1 from unknown where tbl = ? limit 1"
)
_CONSUMES: Final[tuple[type[Event], ...]] = (
    VacuumFinished,
    LockReleased,
    WritesAborted,
    CleaningHoldRequested,
    CleaningHoldRemovalRequested,
    CleaningHeld,
    CleaningHoldRemoved,
    CleaningDeferred,
    CleaningStarted,
    CleaningUndone,
    DirectoriesCleaned,
    QuarantineRemoved,
)


@dataclass(frozen=True, slots=True)
class ReaderGate:
    """A subject (see `tidegate.coordinator.subject`) that releases a vacuum's cleaning."""

    memory: Memory = field(default_factory=Memory)
    """How long ended readers are remembered."""
    alarms: tuple[AlarmSettings, ...] = ()
    """How long vacuums may wait, and releases of unknown tables may come, before an alarm."""
    consumes: tuple[type[Event], ...] = field(default=_CONSUMES, init=False)
    kinds: Sequence[Kind] = field(default=KINDS, init=False)

    def restored(self, rows: Store) -> None:
        """Let each vacuum watch a reader, and derive when rows are due."""
        for vacuum in waiting(rows, _WAITING):
            rows.execute(
                "update vacuum set watch_lock = ?, watch_transaction = ?, due = ?"
                " where tbl = ? and id = ?",
                (*self._derived(rows, vacuum, next_reader(rows, vacuum)), vacuum.table, vacuum.id),
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
        quarantines.request_removals(rows, at, _AT_ONCE, effects)
        return effects

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Apply one event; release every vacuum that it sets free."""
        effects = Effects()
        match event:
            case LockReleased():
                self._release(event, rows, at, effects)
                self.memory.forget(rows, event.table, to_ms(at))
            case VacuumFinished():
                self._vacuum(event, rows, at, effects)
                self.memory.forget(rows, event.table, to_ms(at))
            case WritesAborted():  # it waits for nothing: no reader reads what it left
                effects.commands.append(aborted_command(event, at))
            case CleaningHoldRequested():
                holds.hold(event, rows, at, effects)
            case CleaningHoldRemovalRequested():
                holds.remove_hold(event, rows, at, effects)
                _free(rows, waiting(rows, _READY, event.table), at, effects)
                about = {"occurred_at": at, "source": SOURCE, "released": len(effects.commands)}
                effects.outcomes.append(CleaningHoldRemoved.about(event, **about))
            case CleaningHeld() | CleaningHoldRemoved():
                holds.known(event, rows, at)
            case CleaningDeferred():
                holds.defer(event, rows, at)
            case CleaningStarted() | DirectoriesCleaned():
                quarantines.quarantine(event, rows, at)
            case CleaningUndone() | QuarantineRemoved():
                quarantines.end_quarantine(event, rows)
            case _:
                pass
        return effects

    def _release(self, event: LockReleased, rows: Store, at: datetime, effects: Effects) -> None:
        """A lock, a transaction, or both have ended."""
        table, now = event.table, to_ms(at)
        if rows.one(_SEEN, table, table) is None:
            due = alarms_of(self.alarms, table).unknown_at(now)
            first = dumps(event.model_dump(mode="json"))
            rows.put("unknown", table, None, (now, None), first, (due,))
        freed: dict[int, WaitingVacuum] = {}
        tokens = reader_of(event.lock_id, event.transaction_id)
        for token in tokens:
            put_end(rows, event, token, now)
        for token in tokens:
            for vacuum in waiting(rows, _WATCHING[token & 1], table, token):
                reader = next_reader(rows, vacuum)
                watch(rows, vacuum, reader)
                if reader is None:
                    freed[vacuum.id] = vacuum
        if freed:
            _free(rows, freed.values(), at, effects)

    def _vacuum(self, event: VacuumFinished, rows: Store, at: datetime, effects: Effects) -> None:
        """A vacuum was published, perhaps not for the first time."""
        require_publishable(event)
        vacuum = WaitingVacuum.of_event(event, to_ms(at))
        table = vacuum.table
        self._table_known(event, rows, at, effects)
        query = f"{_WAITING} where tbl = ? and id = ?"
        if before := next(waiting(rows, query, table, vacuum.id), None):
            self._published_again(event, rows, before, vacuum, at, effects)
            return
        if _is_done(rows, table, vacuum.content):
            marks = marks_of(rows, vacuum)
            if any(
                not is_below(marks, it) and end_of(rows, vacuum, it) is None
                for it in vacuum.readers
            ):
                effects.outcomes.append(alarms.holds_after_release(event, at))
            return
        if _is_done(rows, table, vacuum.id):
            effects.outcomes.append(alarms.content_changed(event, at))
        self._wait_or_free(rows, vacuum, at, effects)
        _flag_forgotten(event, rows, vacuum, vacuum.readers, at, effects)

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
        reader = next_reader(rows, vacuum)
        if reader is None and not is_held(rows, vacuum.table):
            _free(rows, [vacuum], at, effects)
            return
        columns, derived = (vacuum.since, vacuum.content), self._derived(rows, vacuum, reader)
        rows.put("vacuum", vacuum.table, vacuum.id, columns, vacuum.body, derived)

    def _derived(
        self, rows: Store, vacuum: WaitingVacuum, reader: Reader | None
    ) -> tuple[int | None, ...]:
        """What the row of a vacuum derives: what it watches, and when it is overdue."""
        is_reported = overdue_since(rows, vacuum) is not None
        due = None if is_reported else alarms_of(self.alarms, vacuum.table).overdue_at(vacuum.since)
        return *watched(reader), due

    def _published_again(  # noqa: PLR0913, PLR0917 - the decision's context
        self,
        event: VacuumFinished,
        rows: Store,
        before: WaitingVacuum,
        vacuum: WaitingVacuum,
        at: datetime,
        effects: Effects,
    ) -> None:
        """A writer and a bridge may have seen different readers: wait for those of both."""
        known = {lock.lock_id: lock for lock in before.locks}
        for lock in vacuum.locks:
            if lock.lock_id not in known or known[lock.lock_id].transaction_id is None:
                known[lock.lock_id] = lock
        vacuum.locks, vacuum.since = tuple(known.values()), before.since
        vacuum.transactions = tuple(dict.fromkeys((*before.transactions, *vacuum.transactions)))
        if before.content != vacuum.content:  # the later publication is the correction
            _end_overdue(rows, before, at, effects, replaced_by=vacuum.event_id)
            effects.outcomes.append(alarms.content_changed(event, at))
        else:
            vacuum.event_id, vacuum.vacuum = before.event_id, before.vacuum
        if vacuum != before:
            self._wait_or_free(rows, vacuum, at, effects)
            further = set(vacuum.readers) - set(before.readers)  # no other was forgotten
            _flag_forgotten(event, rows, vacuum, further, at, effects)

    def _report_overdue(self, rows: Store, at: datetime, effects: Effects) -> None:
        due = f"{_WAITING} indexed by vacuum_due where due <= ? order by due limit ?"
        for vacuum in waiting(rows, due, to_ms(at), _AT_ONCE):
            table, number = vacuum.table, vacuum.id
            rows.execute("update vacuum set due = null where tbl = ? and id = ?", (table, number))
            outstanding = list(vacuum.outstanding_readers(rows))
            limit = alarms_of(self.alarms, table).overdue_after
            if outstanding and limit:  # without readers it waits for a person's hold
                rows.put("overdue", table, vacuum.id, (to_ms(at),))
                effects.outcomes.append(alarms.overdue(vacuum.about(at), outstanding, limit))

    def _report_unknown(self, rows: Store, at: datetime, effects: Effects) -> None:
        due = rows.all(
            "select tbl, since, body from unknown indexed by unknown_due where due <= ?"
            " order by due limit ?",
            to_ms(at),
            _AT_ONCE,
        )
        for table, since, body in due:
            limit = alarms_of(self.alarms, table).unknown_after
            rows.put("unknown", table, None, (since, to_ms(at)), body, (None,))
            first = LockReleased.model_validate_json(body)
            effects.outcomes.append(alarms.unknown(first, since, limit, at))


def command_for(vacuum: VacuumFinished, at: datetime) -> CleaningReleased:
    """The command that follows once the vacuum is free; also what a dry run plans for."""
    return _command(WaitingVacuum.of_event(vacuum, to_ms(at)), at)


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
        _end_overdue(rows, vacuum, at, effects)
        rows.drop("vacuum", table, vacuum.id)
        for done in (vacuum.id, vacuum.content):
            rows.put("done", table, done, (to_ms(at),))
        ends = (end_of(rows, vacuum, reader) for reader in vacuum.readers)
        expired = any(end.expired for end in ends if end is not None)
        effects.commands.append(_command(vacuum, at, after_expiry=expired))


def _end_overdue(
    rows: Store,
    vacuum: WaitingVacuum,
    at: datetime,
    effects: Effects,
    replaced_by: str | None = None,
) -> None:
    """End the alarm about a vacuum, if there was one."""
    if (since := overdue_since(rows, vacuum)) is not None:
        effects.outcomes.append(alarms.resolved(vacuum.about(at), since, replaced_by))
        rows.drop("overdue", vacuum.table, vacuum.id)


def _is_done(rows: Store, table: str, number: int) -> bool:
    return rows.one("select 1 from done where tbl = ? and id = ?", table, number) is not None


def _flag_forgotten(  # noqa: PLR0913, PLR0917 - the decision's context
    event: VacuumFinished,
    rows: Store,
    vacuum: WaitingVacuum,
    among: Iterable[Reader],
    at: datetime,
    effects: Effects,
) -> None:
    """Report the readers whose release may have been forgotten: a vacuum may wait in vain."""
    marks = marks_of(rows, vacuum)
    if max(marks) < 0:  # nothing was ever forgotten
        return
    found = [it for it in among if is_below(marks, it) and end_of(rows, vacuum, it) is None]
    if found:
        effects.outcomes.append(alarms.may_be_forgotten(event, at, *ids_of(found)))
