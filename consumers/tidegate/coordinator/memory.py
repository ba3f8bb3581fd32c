"""The ends of readers, how long they are remembered, and which vacuums were released.

An end is remembered for seven days by the broker's time, unless its table has 2**18 newer ones
(`Limits`). What is older is forgotten every ten hours, and whenever a table has 4,096 new ends,
also while a backlog is read, because a backlog can be of any length. Forgetting has to read all
waiting vacuums of the table, so old ends stay while they are fewer than those. An end that a
waiting vacuum lists is renewed instead; waiting vacuums are never forgotten. What is forgotten
leaves a mark: a vacuum with a reader at or below the mark is flagged by an outcome that people see,
and publishing the release again sets it free. So forgetting delays a cleaning; it never makes one
unsafe, and is never silent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegate.coordinator.rows.records import hashed
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.events import LockReleased, ReleaseReason

if TYPE_CHECKING:
    from tidegate.coordinator.vacuums import WaitingVacuum

Token = int
"""Names what can end, by one integer that is the key of its row: a lock by twice its id, a
transaction by twice its id plus one."""
Reader = tuple[Token, ...]
"""What a vacuum waits for. A lock that belongs to a transaction ends with either of the two."""
ENDED: Final = RowType(
    "ended", ("at", "expired", "epochs"), key="token", indexes=("ended_at on ended (tbl, at)",)
)
"""A lock or transaction that has ended: when by the broker's time, and the fields of `End`."""
_END_ROW: Final = "select expired, epochs from ended where tbl = ? and token = ?"
DONE: Final = RowType(
    "done",
    ("at", "id"),
    key="content",
    indexes=("done_at on done (tbl, at)", "done_id on done (tbl, id)"),
)
"""A publication of a vacuum whose cleaning was released; corrected ones have the same id."""
FORGOTTEN: Final = RowType("forgotten", ("lock_mark", "transaction_mark"), key="epoch")
"""The `Marks` of a table, by the epoch of the Metastore that assigned the ids; 0: any epoch."""
REMEMBERED: Final = RowType(
    "remembered", derived=("due",), indexes=("remembered_due on remembered (due)",)
)
"""When `forget` is due for a table. Derived: not in the changelog."""
_DUE_AFTER_MS: Final = 36_000_000
_DUE_WITH: Final = 4096
_DUE_AT: Final = (
    "insert into remembered values (?, ?)"
    " on conflict (tbl) do update set due = min(due, excluded.due)"
)
_TABLES_AT_ONCE: Final = 10
_DONE_LIMIT: Final = 4096
"""A vacuum that is published again after it was forgotten is released again, with the id that its
command had; once its ends are forgotten too, it waits, flagged, until they are published again."""
_MARKS: Final = (
    "select coalesce(max(lock_mark), -1), coalesce(max(transaction_mark), -1) from forgotten"
    " where tbl = ?"
)


class Limits(NamedTuple):
    """How long the ends of readers are remembered, and how many. Tests make them smaller."""

    age: timedelta = timedelta(days=7)
    number: int = 2**18
    """Of one table."""


def reader_of(lock_id: int | None, transaction_id: int | None) -> Reader:
    """The reader with this lock, transaction, or both."""
    lock = () if lock_id is None else (2 * lock_id,)
    return lock if transaction_id is None else (*lock, 2 * transaction_id + 1)


def is_transaction(token: Token) -> bool:
    """Whether a token names a transaction; else a lock."""
    return bool(token & 1)


def id_of(token: Token) -> int:
    """The id of the lock or transaction that a token names."""
    return token >> 1


def ids_of(readers: Iterable[Reader]) -> tuple[list[int], list[int]]:
    """The ids of the locks and of the transactions of readers."""
    tokens = sorted({token for reader in readers for token in reader})
    locks = [id_of(token) for token in tokens if not is_transaction(token)]
    return locks, [id_of(token) for token in tokens if is_transaction(token)]


class End(NamedTuple):
    """How a lock or a transaction ended."""

    expired: int
    """1 if it expired, 0 if its reader ended it."""
    epochs: str | None
    """The epochs of the Metastore in which its id was assigned (`epoch_of`); None: any."""


def end_of(rows: Store, vacuum: WaitingVacuum, reader: Reader) -> End | None:
    """How a vacuum's reader ended, expired if its lock or transaction did; None if it has not."""
    found, epoch = None, epoch_of(vacuum.metastore)
    for token in reader:
        if (row := rows.one(_END_ROW, vacuum.table, token)) is None:
            continue
        end = End._make(row)
        # a Metastore that was restored from a backup assigns ids again: earlier ends don't count
        if epoch is None or end.epochs is None or epoch in end.epochs.split():
            found = end if found is None or end.expired else found
    return found


@lru_cache(maxsize=1_000)
def epoch_of(metastore: str | None) -> str | None:
    """A hash of a Metastore's name, which changes with a restore from a backup; None: unknown."""
    return None if metastore is None else f"{hashed(metastore):x}"


def put_end(rows: Store, event: LockReleased, token: Token, now: int) -> bool:
    """Store the end of what a token names; a repeat adds its epoch, and renews the time.

    Returns:
        Whether the table has so many new ends that `forget` has to follow.
    """
    expired, epochs = int(event.reason is ReleaseReason.EXPIRED), epoch_of(event.metastore)
    row, has_many = rows.one(_END_ROW, event.table, token), False
    if row is None:
        rows.new_ends[event.table] += 1
        new = rows.new_ends[event.table]
        has_many = new >= _DUE_WITH
        if new == 1 or has_many:
            rows.execute(_DUE_AT, (event.table, 0 if has_many else now + _DUE_AFTER_MS))
    else:
        before = End._make(row)
        expired |= before.expired
        if before.epochs is None or epochs is None:
            epochs = None
        else:
            epochs = " ".join(sorted({*before.epochs.split(), epochs}))
    rows.put("ended", event.table, token, (now, expired, epochs))
    return has_many


def next_reader(rows: Store, vacuum: WaitingVacuum) -> tuple[Reader | None, bool]:
    """The first reader that has not ended, and whether one before it expired; None if all ended."""
    expired = False
    for reader in vacuum.readers:
        end = end_of(rows, vacuum, reader)
        if end is None:
            return reader, expired
        expired |= bool(end.expired)
    return None, expired


class Marks(NamedTuple):
    """The highest ids of a lock and of a transaction whose end was forgotten; -1 if none was."""

    lock: int
    transaction: int

    def may_cover(self, reader: Reader) -> bool:
        """Whether the end of a reader may have been forgotten."""
        return any(id_of(token) <= self[is_transaction(token)] for token in reader)


def marks_of(rows: Store, vacuum: WaitingVacuum) -> Marks:
    """The marks of the Metastore's epoch in which the ids of a vacuum's readers were assigned."""
    epoch = epoch_of(vacuum.metastore)
    which, keys = ("", ()) if epoch is None else (" and epoch in (0, ?)", (_key(epoch),))
    return Marks._make(rows.one(f"{_MARKS}{which}", vacuum.table, *keys))


def restored(rows: Store) -> None:
    """Let every table be due: how many of its ends are new is not known."""
    rows.execute(
        "insert or ignore into remembered"
        " select tbl, 0 from (select tbl from ended union select tbl from done)"
    )


def forget(
    rows: Store, now: int, limits: Limits, listed: Callable[[Store, str], set[Token]]
) -> None:
    """Forget what is too old, or too much, of the tables that are due.

    `listed` returns what the waiting vacuums of a table list: those ends are renewed.
    """
    before = now - limits.age // timedelta(milliseconds=1)
    due = "select tbl from remembered indexed by remembered_due where due <= ? order by due limit ?"
    for (table,) in rows.all(due, now, _TABLES_AT_ONCE):
        rows.new_ends[table] = 0
        next_due = now + _DUE_AFTER_MS
        rows.execute("update remembered set due = ? where tbl = ?", (next_due, table))
        old = _oldest(rows, "ended", "token", table, before, limits.number)
        [waiting] = rows.one("select count(*) from vacuum where tbl = ?", table)
        if len(old) >= waiting:  # all of these have to be read for it
            _forget_ends(rows, table, now, old, listed(rows, table))
        for content in _oldest(rows, "done", "content", table, before, _DONE_LIMIT):
            rows.drop("done", table, content)


def _forget_ends(
    rows: Store, table: str, now: int, old: Sequence[Token], listed: set[Token]
) -> None:
    """Forget ends, but renew those that a waiting vacuum lists; leave marks of the others."""
    forgotten = defaultdict[str | None, list[Token]](list)
    for token in old:
        end = End._make(rows.one(_END_ROW, table, token))
        if token in listed:
            rows.put("ended", table, token, (now, *end))
            continue
        rows.drop("ended", table, token)
        for epoch in (None,) if end.epochs is None else end.epochs.split():
            forgotten[epoch].append(token)
    _leave_marks(rows, table, forgotten)


def _leave_marks(rows: Store, table: str, forgotten: Mapping[str | None, Sequence[Token]]) -> None:
    for epoch, tokens in forgotten.items():
        key = _key(epoch)
        before = Marks._make(rows.one(f"{_MARKS} and epoch = ?", table, key))
        locks, transactions = ids_of([tuple(tokens)])
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
