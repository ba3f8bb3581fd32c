"""How long the ends of readers, and released vacuums, are remembered.

After an event of its table, an end is forgotten if it is older than `remember_for` by the broker's
time, or has `remember_most` newer ones on its table. An end that a waiting vacuum lists is renewed
instead. What is forgotten leaves a mark. Waiting vacuums are never forgotten.

Not every event is followed by a check: a table's first one after a restart is, and then the first
one a sixteenth of `remember_for` after the last check, or the one that makes a 64th of
`remember_most` since then. A table without events is never checked. Ends are not forgotten while
they are fewer than the vacuums that wait, because all of these have to be read for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from tidegate.coordinator import vacuums
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.vacuums import SELECT_VACUUMS, Reader, Token, WaitingVacuum

DONE: Final = RowType(
    "done",
    ("at", "id"),
    key="content",
    indexes=("done_at on done (tbl, at)", "done_id on done (tbl, id)"),
)
"""A publication of a vacuum whose cleaning was released; corrected ones have the same id."""
FORGOTTEN: Final = RowType("forgotten", ("lock_mark", "transaction_mark"), key="epoch")
"""The `Marks` of a table, by the epoch of the Metastore that assigned the ids; 0: any epoch."""
_CHECKS_BY_TIME: Final = 16
_CHECKS_BY_COUNT: Final = 64
_DONE_LIMIT: Final = 4096
"""A vacuum that is published again after it was forgotten is released again, with the id that its
command had; once its ends are forgotten too, it waits, flagged, until they are published again."""
_MARKS: Final = (
    "select coalesce(max(lock_mark), -1), coalesce(max(transaction_mark), -1) from forgotten"
    " where tbl = ?"
)
_WAITING: Final = f"{SELECT_VACUUMS} where tbl = ?"


class Marks(NamedTuple):
    """The highest ids of a lock and of a transaction whose end was forgotten; -1 if none was."""

    lock: int
    transaction: int

    def may_cover(self, reader: Reader) -> bool:
        """Whether the end of a reader may have been forgotten."""
        return any(vacuums.id_of(token) <= self[vacuums.is_transaction(token)] for token in reader)


def marks_of(rows: Store, vacuum: WaitingVacuum) -> Marks:
    """The marks of the Metastore's epoch in which the ids of a vacuum's readers were assigned."""
    epoch = vacuums.epoch_of(vacuum.metastore)
    which, keys = ("", ()) if epoch is None else (" and epoch in (0, ?)", (_key(epoch),))
    return Marks._make(rows.one(f"{_MARKS}{which}", vacuum.table, *keys))


def forget(rows: Store, table: str, now: int, remember_for: timedelta, remember_most: int) -> None:
    """Forget what is too old, or too much, if a check of the table is due with this event."""
    remember_ms = remember_for // timedelta(milliseconds=1)
    last, events = rows.last_checks.get(table, (0, 0))
    next_by_time = last + remember_ms // _CHECKS_BY_TIME
    if now < next_by_time and events < remember_most // _CHECKS_BY_COUNT:
        rows.last_checks[table] = last, events + 1
        return
    rows.last_checks[table] = now, 0
    old = _oldest(rows, "ended", "token", table, now - remember_ms, remember_most)
    [waiting] = rows.one("select count(*) from vacuum where tbl = ?", table)
    if old and len(old) >= waiting:
        _forget_ends(rows, table, now, old)
    for content in _oldest(rows, "done", "content", table, now - remember_ms, _DONE_LIMIT):
        rows.drop("done", table, content)


def _forget_ends(rows: Store, table: str, now: int, old: Sequence[Token]) -> None:
    """Forget ends, but renew those that a waiting vacuum lists; leave marks of the others."""
    listed = {
        token
        for vacuum in vacuums.waiting(rows, _WAITING, table)
        for reader in vacuum.readers
        for token in reader
    }
    forgotten = defaultdict[str | None, list[Token]](list)
    for token in old:
        end = vacuums.End._make(rows.one(vacuums.END_ROW, table, token))
        if token in listed:
            rows.put("ended", table, token, (now, *end))
            continue
        rows.drop("ended", table, token)
        for epoch in (None,) if end.epochs is None else end.epochs.split():
            forgotten[epoch].append(token)
    for epoch, tokens in forgotten.items():
        key = _key(epoch)
        before = Marks._make(rows.one(f"{_MARKS} and epoch = ?", table, key))
        locks, transactions = vacuums.ids_of([tuple(tokens)])
        marks = max([before.lock, *locks]), max([before.transaction, *transactions])
        rows.put("forgotten", table, key, marks)


def _key(epoch: str | None) -> int:
    return 0 if epoch is None else int(epoch, 16)


def _oldest(  # noqa: PLR0913, PLR0917 - the parts of a query
    rows: Store, kind: str, key: str, table: str, before: int, limit: int
) -> list[int]:
    """The keys of a table's oldest rows: those from before a time, and those beyond the limit."""
    index = f"from {kind} indexed by {kind}_at where tbl = ?"
    [count] = rows.one(f"select count(*) {index}", table)
    [old] = rows.one(f"select count(*) {index} and at < ?", table, before)
    found = rows.all(f"select {key} {index} order by at limit ?", table, max(old, count - limit))
    return [number for (number,) in found]
