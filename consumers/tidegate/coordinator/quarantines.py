"""Quarantines: the directories that cleanings have moved aside, until their time has passed.

The cleaner reports that it is about to move directories before it moves the first; from then on the
time of their quarantine runs, even if the cleaning dies half way. When it has passed, by the
broker's time, the removal is requested; and again, at growing intervals, until the cleaner reports
that nothing is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tidegate.coordinator.holds import is_held
from tidegate.coordinator.rows.records import dumps, hashed, loads
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE
from tidegate.events import (
    CleaningMode,
    CleaningStarted,
    CleaningUndone,
    Command,
    DirectoriesCleaned,
    QuarantineRemovalRequested,
    QuarantineRemoved,
)
from tidegate.events.fields import to_ms

QUARANTINE: Final = RowType(
    "quarantine",
    ("due", "requested", "undone"),
    key="id",
    has_body=True,
    indexes=("quarantine_due on quarantine (due)",),
)
_AGAIN_MS: Final = 3_600_000
_MAX_DOUBLINGS: Final = 4
"""So it is requested every 16 hours at least."""
_QUARANTINES: Final = "select tbl, id, due, requested, undone, body from quarantine"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What one cleaning has moved into quarantine."""

    table: str
    id: int
    due: int
    """When its time ends; or, once its removal was requested, when it is requested again."""
    requested: int
    """How often its removal was requested."""
    undone: int
    """1: everything was put back, and only the record is left."""
    cleaning: str
    started: str
    """The id of the CleaningStarted."""
    location: str
    partition: str | None
    sizes: Mapping[str, tuple[int, int]]
    """By part of the CleaningStarted how many directories, and how many bytes."""

    @property
    def directories(self) -> int:
        """How many directories wait to be removed."""
        return 0 if self.undone else sum(count for count, _ in self.sizes.values())

    @property
    def bytes(self) -> int:
        """How many bytes they have."""
        return 0 if self.undone else sum(size for _, size in self.sizes.values())


def quarantines(rows: Store) -> list[Quarantine]:
    """All quarantines."""
    return [_of_row(row) for row in rows.all(_QUARANTINES)]


def quarantine(event: CleaningStarted | DirectoriesCleaned, rows: Store, at: datetime) -> None:
    """Record a started cleaning; if repeated, it moves the rest, and its time begins anew.

    The end of a cleaning counts where its start is among the dead letters.
    """
    if event.mode != CleaningMode.QUARANTINE or event.keep_ms is None or not event.directories:
        return
    before = _quarantine_of(rows, event.table, event.caused_by or "")
    if isinstance(event, DirectoriesCleaned) and before is not None:
        return
    part, now = str(event.part or 1), (len(event.directories), event.bytes)
    sizes = {} if before is None or before.undone else dict(before.sizes)
    count, size = sizes.get(part, now)
    sizes[part] = max(now, (count, size))
    started = event.event_id if before is None or part == "1" else before.started
    cleaning, due = event.caused_by or "", to_ms(at) + event.keep_ms
    if before is not None and before.requested:
        _drop_queued(event.table, _removal(before, at).event_id, rows)
    elif before is not None:  # a copy never shortens it
        due = max(due, before.due)
    row = (event.table, hashed(cleaning), due, 0, 0)
    _put_quarantine(
        rows, Quarantine(*row, cleaning, started, event.location, event.partition, sizes)
    )


def end_quarantine(event: CleaningUndone | QuarantineRemoved, rows: Store) -> None:
    """A quarantine was put back, or removed."""
    if isinstance(event, CleaningUndone):  # the cleaning may have been stopped, or deferred
        _drop_queued(event.table, event.cleaning, rows)
    found = _quarantine_of(rows, event.table, event.cleaning)
    if found is None:
        return
    if isinstance(event, CleaningUndone):
        _put_quarantine(rows, replace(found, undone=1))
    elif event.parts is None or event.part == event.parts:
        rows.drop("quarantine", event.table, found.id)


def request_removals(rows: Store, at: datetime, limit: int) -> list[Command]:
    """Request the removal of due quarantines, unless its table is held meanwhile."""
    now = to_ms(at)
    due = rows.all(
        f"{_QUARANTINES} indexed by quarantine_due where due <= ? order by due limit ?", now, limit
    )
    requested: list[Command] = []
    for found in map(_of_row, due):
        if is_held(rows, found.table):
            _put_quarantine(rows, replace(found, due=now + _AGAIN_MS))
            continue
        wait = _AGAIN_MS << min(found.requested, _MAX_DOUBLINGS)
        _put_quarantine(rows, replace(found, due=now + wait, requested=found.requested + 1))
        requested.append(_removal(found, at))
    return requested


def _removal(found: Quarantine, at: datetime) -> QuarantineRemovalRequested:
    return QuarantineRemovalRequested(
        table=found.table,
        location=found.location,
        partition=found.partition,
        caused_by=found.started,
        occurred_at=at,
        source=SOURCE,
        cleaning=found.cleaning,
    )


def _drop_queued(table: str, command: str, rows: Store) -> None:
    """Remove a command from the queue of `tidegate.coordinator.tasks`."""
    for number, body in rows.all("select id, body from queued where tbl = ?", table):
        if loads(body)[0] == command:  # the first field of `tasks.Queued`
            rows.drop("queued", table, number)


def _quarantine_of(rows: Store, table: str, cleaning: str) -> Quarantine | None:
    row = rows.one(f"{_QUARANTINES} where tbl = ? and id = ?", table, hashed(cleaning))
    return None if row is None else _of_row(row)


def _put_quarantine(rows: Store, row: Quarantine) -> None:
    fields = [row.cleaning, row.started, row.location, row.partition, row.sizes]
    columns = (row.due, row.requested, row.undone)
    rows.put("quarantine", row.table, row.id, columns, dumps(fields))


def _of_row(row: tuple[str, int, int, int, int, str]) -> Quarantine:
    return Quarantine(*row[:5], *loads(row[5]))
