"""How long the ends of readers, and released vacuums, are remembered.

Ended locks and transactions are remembered for `remember_for` of the broker's time, and about
`remember_most` of them a table, the oldest forgotten first; those that a waiting vacuum lists are
remembered beyond that. What is forgotten leaves a mark. Waiting vacuums are never forgotten.

What can be forgotten is checked with the first event of a table that comes a sixteenth of
`remember_for` after the last check, or CHECK_EVERY events after it (a 64th of `remember_most` where
that is more); and at once after a restart. Nothing goes while less could go than vacuums wait,
because all of those are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from weakref import WeakKeyDictionary

from tidegate.coordinator.rows.store import Kind, Store
from tidegate.coordinator.vacuums import Reader, WaitingVacuum, ended, state_of, waiting

DONE: Final = Kind("done", ("at",), key="id", indexes=("done_at on done (tbl, at)",))
"""The identity, or the content, of a vacuum whose cleaning was released."""
FORGOTTEN: Final = Kind("forgotten", ("lock_mark", "transaction_mark"), key="metastore")
"""The highest ids of a lock and of a transaction whose end was forgotten (-1: none was), by the
state of the Metastore that gave them out; 0: any."""
CHECK_EVERY: Final = 128
"""Events of a table between two checks of what can be forgotten, at least."""
_DONE_LIMIT: Final = 2 * 4096
"""Two for each vacuum: beyond these a repeat is released again, with the id that it had."""
_MARKS: Final = (
    "select coalesce(max(lock_mark), -1), coalesce(max(transaction_mark), -1) from forgotten"
    " where tbl = ?"
)
_WAITING: Final = "select tbl, id, since, content, body from vacuum where tbl = ?"


@dataclass(frozen=True, slots=True)
class Memory:
    """Forgets what is old; its rows are of any number of partitions."""

    remember_for: timedelta = timedelta(days=7)
    remember_most: int = 2**18
    _checked: WeakKeyDictionary[Store, dict[str, tuple[int, int]]] = field(
        default_factory=WeakKeyDictionary[Store, dict[str, tuple[int, int]]],
        init=False,
        repr=False,
        compare=False,
    )
    """By table when it was last checked, and the events since."""

    def forget(self, rows: Store, table: str, now: int) -> None:
        """Forget what can be forgotten, with an event of the table, if a check is due."""
        checked = self._checked.setdefault(rows, {})
        last, events = checked.get(table, (0, 0))
        remember_ms = self.remember_for // timedelta(milliseconds=1)
        if events < max(CHECK_EVERY, self.remember_most // 64) and now - last < remember_ms // 16:
            checked[table] = last, events + 1
            return
        checked[table] = now, 0
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
            for vacuum in waiting(rows, _WAITING, table)
            for reader in vacuum.readers
            for token in reader
        }
        marks = defaultdict[str | None, list[int]](lambda: [-1, -1])
        for token in old:
            end = ended(rows, table, token)
            if end is not None and token in needed:
                rows.put("ended", table, token, (now, *end))
                continue
            rows.drop("ended", table, token)
            metastores = None if end is None else end.metastores
            for state in (None,) if metastores is None else metastores.split():
                mark = marks[state][token & 1]
                marks[state][token & 1] = max(mark, token >> 1)
        for state, raised in marks.items():
            _raise_marks(rows, table, state, raised)


Marks = Sequence[int]
"""The highest ids of a lock and of a transaction whose end was forgotten; -1: none was."""


def marks_of(rows: Store, vacuum: WaitingVacuum) -> Marks:
    """Those that count for a vacuum: ids of another state of its Metastore are of other readers."""
    state = state_of(vacuum.metastore)
    which, keys = ("", ()) if state is None else (" and metastore in (0, ?)", (int(state, 16),))
    marks: Marks = rows.one(f"{_MARKS}{which}", vacuum.table, *keys)
    return marks


def is_below(marks: Marks, reader: Reader) -> bool:
    """Whether the end of a reader may have been forgotten."""
    return any(token >> 1 <= marks[token & 1] for token in reader)


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
