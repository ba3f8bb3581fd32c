"""Unknown tables: those of which locks are released, and no vacuum has come.

After a while that is an alarm: their vacuums name another table, or are not published. The first
vacuum ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tidegate.coordinator.alarms import AlarmSettings, alarms_of
from tidegate.coordinator.rows.records import dumps
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE, Effects
from tidegate.errors.commands import command_line
from tidegate.events import (
    Event,
    LockReleased,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumFinished,
)
from tidegate.events.fields import from_ms, span, to_ms

SEEN: Final = RowType(
    "seen",
    ("since", "reported"),
    has_body=True,
    derived=("due",),
    indexes=("seen_due on seen (due) where due is not null",),
)
"""A table that events have named. Until its first vacuum: when the first release came, that event,
and when the alarm was published. From its first vacuum on, `since` is NULL."""
_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class UnknownTables:
    """A subject (see `tidegate.coordinator.subject`) that reports unknown tables."""

    alarms: tuple[AlarmSettings, ...] = ()
    """How long releases of an unknown table may come before an alarm."""
    consumes: tuple[type[Event], ...] = field(default=(LockReleased, VacuumFinished), init=False)
    row_types: Sequence[RowType] = field(default=(SEEN,), init=False)

    def restored(self, rows: Store) -> None:
        """Derive when rows are due."""
        for table, since in rows.all(
            "select tbl, since from seen where since is not null and reported is null"
        ):
            due = alarms_of(self.alarms, table).unknown_at(since)
            rows.execute("update seen set due = ? where tbl = ?", (due, table))

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Note a table's first release, and its first vacuum."""
        match event:
            case LockReleased():
                self._released(event, rows, to_ms(at))
            case VacuumFinished():
                return _known(event, rows, at)
            case _:
                pass
        return Effects()

    def next_due(self, rows: Store) -> int | None:
        """When the first alarm is due."""
        query = "select min(due) from seen indexed by seen_due where due is not null"
        due: int | None = rows.one(query)[0]
        return due

    def due(self, rows: Store, at: datetime) -> Effects:
        """Report the tables of which only releases have come for too long."""
        effects, now = Effects(), to_ms(at)
        due = rows.all(
            "select tbl, since, body from seen indexed by seen_due where due <= ?"
            " order by due limit ?",
            now,
            _AT_ONCE,
        )
        for table, since, body in due:
            limit = alarms_of(self.alarms, table).unknown_after
            rows.put("seen", table, None, (since, now), body, (None,))
            first = LockReleased.model_validate_json(body)
            effects.outcomes.append(_unknown(first, since, limit, at))
        return effects

    def _released(self, event: LockReleased, rows: Store, now: int) -> None:
        if rows.one("select 1 from seen where tbl = ?", event.table) is None:
            due = alarms_of(self.alarms, event.table).unknown_at(now)
            first = dumps(event)
            rows.put("seen", event.table, None, (now, None), first, (due,))


def _known(event: VacuumFinished, rows: Store, at: datetime) -> Effects:
    """The table has a vacuum; end the alarm that only releases of it came."""
    effects, query = Effects(), "select since, reported from seen where tbl = ?"
    since, reported = rows.one(query, event.table) or (0, None)
    if since is not None:
        rows.put("seen", event.table, None, (None, None), "", (None,))
        if reported is not None:
            ended = UnknownTableResolved.about(
                event,
                source=SOURCE,
                occurred_at=at,
                since=from_ms(since),
                unknown_since=from_ms(reported),
            )
            effects.outcomes.append(ended)
    return effects


def _unknown(first: LockReleased, since: int, limit: int, at: datetime) -> UnknownTableReleased:
    return UnknownTableReleased.about(
        first,
        occurred_at=at,
        source=SOURCE,
        since=from_ms(since),
        limit_seconds=limit,
        lock_id=first.lock_id,
        transaction_id=first.transaction_id,
        published_by=first.source,
        message=f"{first.source} publishes releases of this table, and no vacuum of it came within"
        f" {span(timedelta(seconds=limit))}: correct the name if a vacuum waits under another one:"
        f" {command_line('waiting')}",
    )
