"""A state of the world, as values that are cheap to compare."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

from support.acid import state_seen
from support.interleavings.scenario import DATABASE, TABLE
from tidegate.hive.obsolete import FoundDirectory, NotEnoughHistory, _AcidState
from tidegate.hive.write_ids import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds

Row = tuple[Literal["i"], int] | tuple[Literal["d"], int, int]
"""A row that a write id inserted, named by it; or a write id's deletion of such a row."""


class Directory(NamedTuple):
    """An ACID directory. Rows None: it is empty, because its removal was cut short."""

    name: str
    rows: frozenset[Row] | None


Directories = tuple[Directory, ...]


class Write(NamedTuple):
    """A write id's transaction, and how it stands; `deletes` is the write id of the row.

    Where it `overwrites`, its rows are all that is left: Hive's INSERT OVERWRITE writes a base.
    """

    txn: int
    stands: Literal["open", "committed", "aborted"]
    deletes: int | None = None
    overwrites: bool = False


class Snapshot(NamedTuple):
    """What a reader that compiles now sees: transactions and write ids.

    Of the transactions only those that write and compact, so that equal views are equal values.
    """

    high: int
    open: tuple[int, ...]
    writes: tuple[Write, ...]

    @property
    def write_ids(self) -> ValidWriteIds:
        """As the Metastore would say it for a reader of this snapshot."""
        return _write_ids(self)

    @property
    def txns(self) -> ValidTxns:
        """As the Metastore would say it."""
        return _txns(self)

    @property
    def rows(self) -> frozenset[int]:
        """What it has to read, by the history alone."""
        return _expected(self)


class Reader(NamedTuple):
    """A query: `new`, `compiled`, `locked`, `listed`, `dead` (its lock is held), `done`."""

    phase: str = "new"
    txn: int = 0
    snapshot: Snapshot | None = None
    chosen: tuple[str, ...] = ()


class Vacuum(NamedTuple):
    """A compaction: `new`, `begun`, `written`, `visible`, or `none` if nothing is to be done."""

    phase: str = "new"
    txn: int = 0
    next_txn: int | None = None
    highest: int = 0
    chosen: tuple[str, ...] = ()
    made: tuple[Directory, ...] = ()


class Looking(NamedTuple):
    """A bridge amid a look: what it has asked for so far."""

    visible: tuple[int, ...]
    """The vacuums whose results were visible."""
    locks: tuple[int, ...] | None = None
    """The readers whose locks were held, and -1 for the writer's."""
    open: tuple[int, ...] | None = None
    """The open transactions, where a broken bridge asks for them too early."""


class Removing(NamedTuple):
    """A cleaner amid a plan: the phases of directories left, and what each was when planned."""

    phases: tuple[tuple[str, ...], ...]
    planned: Directories
    products: Directories


class World(NamedTuple):
    """Everything. Ids of transactions and write ids are never used again.

    Transactions that open between two others that write or compact are in the order of the readers,
    not of time: nothing compares them with each other, and so fewer worlds differ.
    """

    epoch: int
    """How many transactions that write or compact have begun, and vacuums have committed."""
    writes: tuple[Write, ...]
    directories: Directories
    readers: tuple[Reader, ...]
    vacuums: tuple[Vacuum, ...]
    looking: Looking | None = None
    vacuum_topic: tuple[int, ...] = ()
    """Events that the gate has not read yet, by number (see `Model.events`)."""
    lock_topic: tuple[int, ...] = ()
    lagging: str | None = None
    """The topic that the gate does not get to read for now."""
    published: frozenset[int] = frozenset()
    gate: int = 0
    """The gate's records, by number."""
    commands: tuple[int, ...] = ()
    """Commands that the cleaner has not finished."""
    removing: Removing | None = None
    zombie: Removing | None = None
    """A cleaner that was taken for dead and goes on."""
    faults: int = 0


@cache
def _write_ids(snapshot: Snapshot) -> ValidWriteIds:
    opened: list[int] = []
    aborted: list[int] = []
    for number, write in enumerate(snapshot.writes, 1):
        if write.txn > snapshot.high or write.txn in snapshot.open or write.stands == "open":
            opened.append(number)
        elif write.stands == "aborted":
            aborted.append(number)
    return ValidWriteIds(
        f"{DATABASE}.{TABLE}",
        len(snapshot.writes),
        min(opened, default=NOTHING_OPEN),
        IdRanges.of(*opened),
        IdRanges.of(*aborted),
    )


@cache
def _txns(snapshot: Snapshot) -> ValidTxns:
    aborted = (write.txn for write in snapshot.writes if write.stands == "aborted")
    return ValidTxns(
        snapshot.high,
        min(snapshot.open, default=NOTHING_OPEN),
        IdRanges.of(*snapshot.open),
        IdRanges.of(*aborted),
    )


@cache
def _expected(snapshot: Snapshot) -> frozenset[int]:
    valid = snapshot.write_ids
    written = {
        number: write for number, write in enumerate(snapshot.writes, 1) if valid.is_valid(number)
    }
    first = max((number for number, write in written.items() if write.overwrites), default=0)
    deleted = {write.deletes for write in written.values() if write.deletes}
    return frozenset(number for number in written if number >= first) - deleted


@cache
def chosen(directories: Directories, snapshot: Snapshot) -> _AcidState | None:
    """What a reader would read that lists now; None: it would fail.

    It goes by files, so it does not see an empty directory.
    """
    found = [
        FoundDirectory.named(directory.name)
        for directory in directories
        if directory.rows is not None
    ]
    try:
        return state_seen(found, snapshot.write_ids, snapshot.txns)
    except NotEnoughHistory:
        return None


@cache
def rows_of(directories: Directories, names: frozenset[str], ids: ValidWriteIds) -> frozenset[int]:
    """The rows that remain of what valid write ids inserted, without what they deleted."""
    found: set[int] = set()
    gone: set[int] = set()
    for directory in directories:
        if directory.name in names and directory.rows is not None:
            for row in directory.rows:
                if ids.is_valid(row[1]):
                    (found if row[0] == "i" else gone).add(row[-1])
    return frozenset(found - gone)


def reads(directories: Directories, snapshot: Snapshot) -> frozenset[int] | None:
    """The rows that a reader would get that lists now; None: it would fail."""
    state = chosen(directories, snapshot)
    if state is None:
        return None
    names = frozenset((*state.current, state.base) if state.base else state.current)
    return rows_of(directories, names, snapshot.write_ids)


def sorted_directories(directories: Iterable[Directory]) -> Directories:
    """In one order, so that equal disks are equal."""
    return tuple(sorted(directories, key=lambda directory: directory.name))
