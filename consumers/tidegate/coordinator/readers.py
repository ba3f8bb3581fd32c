"""Readers: a vacuum waits until the last lock and transaction that it saw has ended.

A vacuum, here, is what Hive calls a compaction; its readers are those locks and transactions. A
*hold* is what a person has on a table (`tidegate.coordinator.holds`). Events may arrive in any
order, twice, or late. The end of a reader becomes a row `ended`. When a vacuum arrives and all its
readers are among those rows, its cleaning is released at once; else it becomes a row `vacuum`.
`tidegate.coordinator.memory` has the ends, and how long they are remembered.

A waiting vacuum watches one of its readers that has not ended. When that ends, it watches the next
one, until there are none. So a release costs what it sets in motion, not the number of vacuums or
of their readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tidegate.coordinator import alarms, holds, memory, quarantines, vacuums
from tidegate.coordinator.alarms import AlarmSettings, alarms_of
from tidegate.coordinator.holds import is_held
from tidegate.coordinator.memory import Limits, Reader
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE, Effects
from tidegate.coordinator.vacuums import SELECT_VACUUMS, WaitingVacuum
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
    VacuumFlag,
    WritesAborted,
)
from tidegate.events.cleanings import CleaningHeld, CleaningHoldRemoved
from tidegate.events.codec import encode
from tidegate.events.fields import to_ms

ROW_TYPES: Final = (
    *(vacuums.VACUUM, vacuums.OVERDUE),
    *(memory.ENDED, memory.DONE, memory.FORGOTTEN, memory.REMEMBERED),
    *(holds.HOLD, holds.DEFERRED, quarantines.QUARANTINE),
)
MAX_COMMAND_BYTES: Final = 900_000
"""A broker's default limit is 1 MiB, for a command with its headers."""
_MOST_BYTES_OF_A_CHARACTER: Final = 4
_AT_ONCE: Final = 1000
_READY: Final = (
    f"{SELECT_VACUUMS} indexed by vacuum_ready"
    " where tbl = ? and watch_lock is null and watch_transaction is null"
)
_RELEASED: Final = "select max(content = ?) from done indexed by done_id where tbl = ? and id = ?"
"""Whether a vacuum was released with this content (1), with others alone (0), or never (NULL)."""
_DUE: Final = (
    "select min(due) from ("
    "select min(due) due from vacuum indexed by vacuum_due where due is not null"
    " union all select min(due) from remembered indexed by remembered_due"
    " union all select min(due) from deferred indexed by deferred_due where due is not null"
    " union all select min(due) from quarantine indexed by quarantine_due)"
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

    alarms: tuple[AlarmSettings, ...] = ()
    """How long vacuums may wait before an alarm."""
    remembers: Limits = field(default_factory=Limits)  # not a setting of a deployment
    consumes: tuple[type[Event], ...] = field(default=_CONSUMES, init=False)
    row_types: Sequence[RowType] = field(default=ROW_TYPES, init=False)

    def restored(self, rows: Store) -> None:
        """Let each vacuum watch a reader, and derive when rows are due."""
        memory.restored(rows)
        for vacuum in vacuums.waiting(rows, SELECT_VACUUMS):
            reader, _ = memory.next_reader(rows, vacuum)
            due = _overdue_at(vacuum, self.alarms)
            rows.execute(
                "update vacuum set watch_lock = ?, watch_transaction = ?, due = ?"
                " where tbl = ? and id = ?",
                (*vacuums.watched(reader), due, vacuum.table, vacuum.id),
            )

    def next_due(self, rows: Store) -> int | None:
        """When the first alarm, deferred cleaning, end of a quarantine, or forgetting is due."""
        due: int | None = rows.one(_DUE)[0]
        return due

    def due(self, rows: Store, at: datetime) -> Effects:
        """Report what waits too long, release deferred cleanings, end quarantines, and forget."""
        decision = _Decision(rows, at, self)
        decision.report_overdue()
        decision.effects.commands += holds.release_due(rows, at, _AT_ONCE)
        decision.effects.commands += quarantines.request_removals(rows, at, _AT_ONCE)
        memory.forget(rows, to_ms(at), self.remembers, vacuums.listed)
        return decision.effects

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Apply one event; release the cleaning of every vacuum whose last reader has ended."""
        decision = _Decision(rows, at, self)
        effects = decision.effects
        match event:
            case LockReleased():
                decision.reader_ended(event)
            case VacuumFinished():
                decision.vacuum_finished(event)
            case WritesAborted():  # no reader reads aborted rows, so there is nothing to wait for
                effects.commands.append(aborted_command(event, at))
            case CleaningHoldRequested():
                effects.outcomes.append(holds.hold(event, rows, at))
            case CleaningHoldRemovalRequested():
                effects.commands += holds.remove_hold(event, rows, at)
                decision.release_ready(event.table)
                about = {"occurred_at": at, "source": SOURCE, "released": len(effects.commands)}
                effects.outcomes.append(CleaningHoldRemoved.about(event, **about))
            case CleaningHeld() | CleaningHoldRemoved():
                holds.rebuild(event, rows, at)
            case CleaningDeferred():
                holds.defer(event, rows, at)
            case CleaningStarted() | DirectoriesCleaned():
                quarantines.quarantine(event, rows, at)
            case CleaningUndone() | QuarantineRemoved():
                quarantines.end_quarantine(event, rows)
            case _:
                pass
        return effects


@dataclass(frozen=True, slots=True)
class _Decision:
    """Applies one event to the rows, and collects the messages to publish."""

    rows: Store
    at: datetime
    gate: ReaderGate
    effects: Effects = field(default_factory=Effects)

    def reader_ended(self, event: LockReleased) -> None:
        """A lock, a transaction, or both have ended."""
        rows, table, now = self.rows, event.table, to_ms(self.at)
        tokens = memory.reader_of(event.lock_id, event.transaction_id)
        has_many = False
        for token in tokens:  # both, before a vacuum that waits for both is looked at
            has_many |= memory.put_end(rows, event, token, now)
        freed: dict[int, tuple[WaitingVacuum, bool]] = {}
        for token in tokens:
            for vacuum in vacuums.watching(rows, table, token):
                reader, expired = memory.next_reader(rows, vacuum)
                if reader is None:
                    freed[vacuum.id] = vacuum, expired
                else:
                    vacuums.watch(rows, vacuum, reader)
        if freed and is_held(rows, table):
            for vacuum, _ in freed.values():
                vacuums.watch(rows, vacuum, None)
        else:
            self._release(freed.values())
        if has_many:
            memory.forget(rows, now, self.gate.remembers, vacuums.listed)

    def vacuum_finished(self, event: VacuumFinished) -> None:
        """A vacuum was published, perhaps not for the first time."""
        require_publishable(event)
        vacuum = WaitingVacuum.of_event(event, to_ms(self.at))
        query = f"{SELECT_VACUUMS} where tbl = ? and id = ?"
        before = next(vacuums.waiting(self.rows, query, vacuum.table, vacuum.id), None)
        if before is not None:
            self._published_again(event, before, vacuum)
            return
        [same] = self.rows.one(_RELEASED, vacuum.content, vacuum.table, vacuum.id)
        if same:
            self._published_after_release(event, vacuum)
            return
        if same is not None:
            self._flag(event, VacuumFlag.CONTENT_CHANGED)
        self._release_or_wait(vacuum)
        self._flag_forgotten(event, vacuum, vacuum.readers)

    def _published_again(
        self, event: VacuumFinished, before: WaitingVacuum, vacuum: WaitingVacuum
    ) -> None:
        """It waits already: for the readers of both publications from now on."""
        vacuum.merge(before)
        if vacuum.content != before.content:  # the later publication is the correction
            self._end_overdue(before, replaced_by=vacuum.event_id)
            self._flag(event, VacuumFlag.CONTENT_CHANGED)
        if vacuum != before:
            self._release_or_wait(vacuum)
            further = set(vacuum.readers) - set(before.readers)  # no other was forgotten
            self._flag_forgotten(event, vacuum, further)

    def _published_after_release(self, event: VacuumFinished, vacuum: WaitingVacuum) -> None:
        """Its cleaning was released: a reader that may be living is reported."""
        marks = memory.marks_of(self.rows, vacuum)
        outstanding = [it for it in vacuum.readers if self._has_not_ended(vacuum, it)]
        if not all(map(marks.may_cover, outstanding)):
            self._flag(event, VacuumFlag.HOLDS_AFTER_RELEASE)

    def _release_or_wait(self, vacuum: WaitingVacuum) -> None:
        """Release the cleaning of a vacuum, or store it: it waits for a reader or a hold's end."""
        rows, table = self.rows, vacuum.table
        reader, expired = memory.next_reader(rows, vacuum)
        if reader is None and not is_held(rows, table):
            self._release([(vacuum, expired)])
            return
        derived = *vacuums.watched(reader), _overdue_at(vacuum, self.gate.alarms)
        columns = (vacuum.since, vacuum.content)
        rows.put("vacuum", table, vacuum.id, columns, vacuum.body, derived)

    def release_ready(self, table: str) -> None:
        """Release the cleanings that waited for nothing but the end of a person's hold."""
        ready = vacuums.waiting(self.rows, _READY, table)
        self._release((vacuum, memory.next_reader(self.rows, vacuum)[1]) for vacuum in ready)

    def _release(self, freed: Iterable[tuple[WaitingVacuum, bool]]) -> None:
        """Release the cleanings of vacuums, each with whether a reader of it expired."""
        rows, now = self.rows, to_ms(self.at)
        for vacuum, expired in sorted(freed, key=lambda it: (it[0].since, it[0].event_id)):
            self._end_overdue(vacuum)
            rows.drop("vacuum", vacuum.table, vacuum.id)
            rows.put("done", vacuum.table, vacuum.content, (now, vacuum.id))
            self.effects.commands.append(vacuum.command(self.at, after_expiry=expired))

    def _flag_forgotten(
        self, event: VacuumFinished, vacuum: WaitingVacuum, readers: Iterable[Reader]
    ) -> None:
        """Report readers whose release may have been forgotten: a vacuum may wait in vain."""
        marks = memory.marks_of(self.rows, vacuum)
        if max(marks) < 0:  # nothing was ever forgotten
            return
        covered = filter(marks.may_cover, readers)
        if found := [it for it in covered if self._has_not_ended(vacuum, it)]:
            self._flag(event, VacuumFlag.RELEASE_MAY_BE_FORGOTTEN, found)

    def _has_not_ended(self, vacuum: WaitingVacuum, reader: Reader) -> bool:
        return memory.end_of(self.rows, vacuum, reader) is None

    def _flag(
        self, event: VacuumFinished, flag: VacuumFlag, readers: Sequence[Reader] = ()
    ) -> None:
        flagged = alarms.flagged(event, self.at, flag, *memory.ids_of(readers))
        self.effects.outcomes.append(flagged)

    # Alarms

    def report_overdue(self) -> None:
        """Report the vacuums that have waited too long."""
        rows, now = self.rows, to_ms(self.at)
        due = f"{SELECT_VACUUMS} indexed by vacuum_due where due <= ? order by due limit ?"
        for vacuum in vacuums.waiting(rows, due, now, _AT_ONCE):
            table, number = vacuum.table, vacuum.id
            rows.execute("update vacuum set due = null where tbl = ? and id = ?", (table, number))
            outstanding = list(vacuum.outstanding_readers(rows))
            limit = alarms_of(self.gate.alarms, table).overdue_after
            if outstanding and limit:  # without readers it waits for a person's hold
                rows.put("overdue", table, vacuum.id, (now,))
                alarm = alarms.overdue(vacuum.about(self.at), outstanding, limit)
                self.effects.outcomes.append(alarm)

    def _end_overdue(self, vacuum: WaitingVacuum, replaced_by: str | None = None) -> None:
        """End the alarm about a vacuum, if there was one."""
        if (since := vacuum.overdue_since) is not None:
            resolved = alarms.resolved(vacuum.about(self.at), since, replaced_by)
            self.effects.outcomes.append(resolved)
            self.rows.drop("overdue", vacuum.table, vacuum.id)


def _overdue_at(vacuum: WaitingVacuum, rules: tuple[AlarmSettings, ...]) -> int | None:
    """When a vacuum is to be reported as overdue; None if it was, or never."""
    is_reported = vacuum.overdue_since is not None
    return None if is_reported else alarms_of(rules, vacuum.table).overdue_at(vacuum.since)


def command_for(vacuum: VacuumFinished, at: datetime) -> CleaningReleased:
    """The command that follows once the vacuum is free; also what a dry run plans for."""
    return WaitingVacuum.of_event(vacuum, to_ms(at)).command(at)


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
    """Refuse a vacuum whose command would be too large for a topic: it would wait forever.

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
