"""Holds of people on tables, and cleanings that were not confirmed: those are released again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegate.coordinator.rows.records import dumps, hashed, loads
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE
from tidegate.events import CleaningDeferred, CleaningHoldRequested, Command
from tidegate.events.cleanings import (
    CleaningHeld,
    CleaningHoldRemovalRequested,
    CleaningHoldRemoved,
)
from tidegate.events.fields import to_ms
from tidegate.events.refusals import released_again

HOLD: Final = RowType("hold", ("since",), has_body=True)
DEFERRED: Final = RowType(
    "deferred",
    ("due",),
    key="id",
    has_body=True,
    indexes=("deferred_due on deferred (due) where due is not null",),
)


@dataclass(frozen=True, slots=True)
class _TableHold:
    """A person's hold on a table."""

    since: int
    """Milliseconds of the broker's time."""
    event_id: str
    requested_by: str
    reason: str
    signed_by: str | None


def hold_on(rows: Store, table: str) -> _TableHold | None:
    """The hold on a table; None: the table is not held."""
    found = rows.one("select since, body from hold where tbl = ?", table)
    return None if found is None else _TableHold(found[0], *loads(found[1]))


def holds(rows: Store) -> Iterator[tuple[str, _TableHold, int]]:
    """Each held table with its hold, and how many cleanings are deferred."""
    query = (
        "select tbl, since, body, (select count(*) from deferred where deferred.tbl = hold.tbl)"
        " from hold"
    )
    for table, since, body, deferred in rows.all(query):
        yield table, _TableHold(since, *loads(body)), deferred


def is_held(rows: Store, table: str) -> bool:
    """Whether a person holds the table."""
    return rows.one("select 1 from hold where tbl = ?", table) is not None


def hold(event: CleaningHoldRequested, rows: Store, at: datetime) -> CleaningHeld:
    """Hold the table; a second hold replaces the first."""
    held = CleaningHeld.about(event, occurred_at=at, source=SOURCE).to(event)
    store(held, rows, at)
    return held


def rebuild(event: CleaningHeld | CleaningHoldRemoved, rows: Store, at: datetime) -> None:
    """Rebuild a hold from its outcome: its request may no longer be on its topic."""
    table, request = event.table, hashed(event.caused_by or "")
    if rows.one("select 1 from used where tbl = ? and id = ?", table, request) is not None:
        return  # the request was applied to these rows, and perhaps later ones too
    if isinstance(event, CleaningHeld):
        store(event, rows, at)
    elif (found := hold_on(rows, table)) is not None and found.since <= to_ms(at):
        rows.drop("hold", table)


def store(event: CleaningHeld, rows: Store, at: datetime) -> None:
    """Store a hold as its outcome has it; once more when the outcome names the signer."""
    body = [event.caused_by, event.requested_by, event.why, event.signed_by]
    rows.put("hold", event.table, columns=(to_ms(at),), body=dumps(body))


def remove_hold(event: CleaningHoldRemovalRequested, rows: Store, at: datetime) -> list[Command]:
    """Hold the table no more, and release again what was deferred."""
    rows.drop("hold", event.table)
    deferred = rows.all("select id, body from deferred where tbl = ? order by id", event.table)
    for number, _ in deferred:
        rows.drop("deferred", event.table, number)
    found = (CleaningDeferred.model_validate_json(body) for _, body in deferred)
    return [released_again(cleaning, at, SOURCE) for cleaning in found]


def defer(event: CleaningDeferred, rows: Store, at: datetime) -> None:
    """Remember a cleaning that the second source did not confirm."""
    due = None if is_held(rows, event.table) else to_ms(at) + event.retry_after_ms
    body = dumps(event)
    rows.put("deferred", event.table, hashed(event.caused_by or ""), (due,), body)


def release_due(rows: Store, at: datetime, limit: int) -> list[Command]:
    """Release deferred cleanings that are due again, unless their table is held meanwhile."""
    due = rows.all(
        "select tbl, id, body from deferred indexed by deferred_due where due <= ?"
        " order by due limit ?",
        to_ms(at),
        limit,
    )
    released: list[Command] = []
    for table, number, body in due:
        if is_held(rows, table):
            rows.put("deferred", table, number, (None,), body)
        else:
            rows.drop("deferred", table, number)
            event = CleaningDeferred.model_validate_json(body)
            released.append(released_again(event, at, SOURCE))
    return released
