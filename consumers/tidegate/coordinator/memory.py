"""How long the ends of readers, and released vacuums, are remembered.

Ended locks and transactions are remembered for `remember_for` of the broker's time, and about
`remember_most` of them for each table; the oldest are forgotten first. Those that a waiting vacuum
lists are renewed instead. What is forgotten leaves a mark. Waiting vacuums are never forgotten.

A table is checked with its first event after a restart, then with the first event a sixteenth of
`remember_for` after the last check, or the event that makes a 64th of `remember_most` since then.
The check is skipped while it could remove fewer rows than vacuums wait: it has to read all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from tidegate.coordinator import vacuums
from tidegate.coordinator.rows.row_type import RowType
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.vacuums import SELECT_VACUUMS, Reader, WaitingVacuum

DONE: Final = RowType("done", ("at",), key="id", indexes=("done_at on done (tbl, at)",))
"""The identity, or the content, of a vacuum whose cleaning was released."""
FORGOTTEN: Final = RowType("forgotten", ("lock_mark", "transaction_mark"), key="epoch")
"""The highest ids of a lock and of a transaction whose end was forgotten (-1 if none was), by the
epoch of the Metastore that assigned them; 0: any epoch."""
_DONE_LIMIT: Final = 2 * 4096
"""Two for each vacuum: beyond these a repeat is released again, with the id that it had."""
_MARKS: Final = (
    "select coalesce(max(lock_mark), -1), coalesce(max(transaction_mark), -1) from forgotten"
    " where tbl = ?"
)
_WAITING: Final = f"{SELECT_VACUUMS} where tbl = ?"


def forget(rows: Store, table: str, now: int, remember_for: timedelta, remember_most: int) -> None:
    """Forget what is too old, or too much, if a check of the table is due with this event."""
    last, events = rows.last_checks.get(table, (0, 0))
    remember_ms = remember_for // timedelta(milliseconds=1)
    if events < remember_most // 64 and now - last < remember_ms // 16:
        rows.last_checks[table] = last, events + 1
        return
    rows.last_checks[table] = now, 0
    old = _oldest(rows, "ended", "token", table, now - remember_ms, remember_most)
    [count] = rows.one("select count(*) from vacuum where tbl = ?", table)
    if old and len(old) >= count:
        _forget_ended(rows, table, now, old)
    for number in _oldest(rows, "done", "id", table, now - remember_ms, _DONE_LIMIT):
        rows.drop("done", table, number)


def _forget_ended(rows: Store, table: str, now: int, old: Sequence[int]) -> None:
    """Forget ends, but renew those that a waiting vacuum lists; leave a mark of the others."""
    needed = {
        token
        for vacuum in vacuums.waiting(rows, _WAITING, table)
        for reader in vacuum.readers
        for token in reader
    }
    marks = defaultdict[str | None, list[int]](lambda: [-1, -1])
    for token in old:
        end = vacuums.ended(rows, table, token)
        if end is not None and token in needed:
            rows.put("ended", table, token, (now, *end))
            continue
        rows.drop("ended", table, token)
        for epoch in (None,) if end is None or end.epochs is None else end.epochs.split():
            mark, kind = marks[epoch], vacuums.is_transaction(token)
            mark[kind] = max(mark[kind], vacuums.id_of(token))
    for epoch, raised in marks.items():
        key = _key(epoch)
        before = rows.one(f"{_MARKS} and epoch = ?", table, key)
        rows.put("forgotten", table, key, [*map(max, before, raised)])


Marks = Sequence[int]
"""The highest ids of a lock and of a transaction whose end was forgotten; -1 if none was."""


def marks_of(rows: Store, vacuum: WaitingVacuum) -> Marks:
    """The marks of the Metastore's epoch in which the ids of a vacuum's readers were assigned."""
    epoch = vacuums.epoch_of(vacuum.metastore)
    which, keys = ("", ()) if epoch is None else (" and epoch in (0, ?)", (_key(epoch),))
    marks: Marks = rows.one(f"{_MARKS}{which}", vacuum.table, *keys)
    return marks


def may_be_forgotten(marks: Marks, reader: Reader) -> bool:
    """Whether the end of a reader may have been forgotten."""
    return any(vacuums.id_of(token) <= marks[vacuums.is_transaction(token)] for token in reader)


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
