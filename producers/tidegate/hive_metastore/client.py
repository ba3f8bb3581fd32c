"""The few calls of a Metastore that are needed, with answers as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self, TypeVar

from tidegate.errors import (
    ConfigError,
    MetastoreRefusedError,
    MissingCallError,
    MissingInMetastoreError,
    TransientError,
)
from tidegate.events import LockType, VacuumKind
from tidegate.hive.write_ids import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds
from tidegate.hive_metastore.connection import connect, interface, require_sasl
from tidegate.hive_metastore.settings import MetastoreSettings
from tidegate.hive_metastore.values import (
    ABORT_CLEAN_UP,
    REBALANCE,
    HeldTables,
    Holds,
    Lock,
    QueueEntry,
    Snapshot,
    Table,
    Transactions,
    holds_of,
)

R = TypeVar("R")
_LOCK_TYPES: Final = {
    1: LockType.SHARED_READ,
    2: LockType.SHARED_WRITE,
    3: LockType.EXCLUSIVE,
    4: LockType.EXCL_WRITE,
}
# a rebalance rewrites everything into a new base, as a major compaction does
_KINDS: Final = {1: VacuumKind.MINOR, 2: VacuumKind.MAJOR, REBALANCE: VacuumKind.MAJOR}
_TYPES: Final = {VacuumKind.MINOR: 1, VacuumKind.MAJOR: 2}
_ABORTED: Final = 2
_MISSING: Final = "NoSuchObjectException"
_REFUSALS: Final = ("MetaException", "NoSuchTxnException", "ConfigValSecurityException")
_LOCKLESS: Final = (("hive.acid.lockless.reads.enabled", "true"), ("hive.txn.read.locks", "false"))
_INSERT_ONLY: Final = 2
_CAPABILITIES: Final = (
    "HIVEFULLACIDREAD",
    "HIVEMANAGEDINSERTREAD",
    "EXTREAD",
    "HIVEMANAGESTATS",
    "HIVECACHEINVALIDATE",
)


class MetastoreClient:
    """One connection to a Metastore; made at the first call, and again after a fault.

    For one thread. Every call may raise:

    TransientError: the Metastore can't be reached, did not answer in time, or its answer was not
        whole. Nothing can be concluded from it.
    MetastoreRefusedError: it answered that it won't, for example that a table does not exist.
    """

    def __init__(
        self,
        settings: MetastoreSettings,
        called: Callable[[str], object] | None = None,
        service: object = None,
    ) -> None:
        """Take the settings, what counts the calls, and a Thrift service with other calls.

        Nothing is connected yet.

        Raises:
            ConfigError: a library is missing that the settings need.
        """
        self._settings = settings
        self._service: Any = service or interface().Metastore
        self._client: Any = None
        self._called = called
        if settings.kerberos is not None:
            require_sasl()

    def close(self) -> None:
        """Close the connection; the next call makes another one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> Self:
        """Use it in a `with` block, which closes it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
        self.close()

    def snapshot(self) -> Snapshot:
        """Look at everything once, in the order that `Snapshot` describes."""
        return Snapshot(self.uuid(), self.compactions(), self.locks(), self.transactions())

    def uuid(self) -> str:
        """The UUID of the Metastore's database: another one is another Metastore."""
        return str(_whole(self.call("get_metastore_db_uuid"), "the UUID"))

    def setting(self, name: str) -> str | None:
        """The Metastore's own value of one of its settings; None where it does not say."""
        try:
            found = str(self.call("get_config_value", name, ""))
        except MetastoreRefusedError:
            return None
        return found or None

    def reads_without_locks(self) -> bool:
        """Whether its settings let readers take no locks."""
        return any(self.setting(name) == value for name, value in _LOCKLESS)

    def locks(self, database: str | None = None) -> tuple[Lock, ...]:
        """Every lock that is held or waited for, of one database or of all.

        The request has no filter for a table on purpose: the Metastore's filters are exact, so a
        filter for a partition hides the locks on its database or its whole table.
        """
        answer = self.call("show_locks", interface().ShowLocksRequest(dbname=database))
        return tuple(_lock(row) for row in _whole(answer.locks, "the locks"))

    def transactions(self) -> Transactions:
        """The open transactions, and the aborted ones that the Metastore still remembers.

        While an id is assigned but not yet open, the call that lists heartbeats fails in Hive
        4.0.1. Then this lists the ids alone, with heartbeats of 0 (unknown).
        """
        try:
            answer = self.call("get_open_txns_info")
        except TransientError:
            return self.transaction_states()
        listed = _whole(answer.open_txns, "the transactions")
        opened = {
            _whole(row.id, "a transaction's id"): int(row.lastHeartbeatTime or 0)
            for row in listed
            if row.state != _ABORTED
        }
        aborted = frozenset(row.id for row in listed if row.state == _ABORTED)
        return Transactions(_whole(answer.txn_high_water_mark, "the high mark"), opened, aborted)

    def transaction_states(self) -> Transactions:
        """The same without heartbeats: every one is 0, unknown."""
        answer = self.call("get_open_txns")
        listed = _whole(answer.open_txns, "the transactions")
        aborted = _bits(answer.abortedBits or b"", listed)
        opened = dict.fromkeys((id_ for id_ in listed if id_ not in aborted), 0)
        return Transactions(_whole(answer.txn_high_water_mark, "the high mark"), opened, aborted)

    def compactions(
        self, database: str | None = None, table: str | None = None
    ) -> tuple[QueueEntry, ...]:
        """The queue of compactions, and the history that the Metastore retains.

        Hive 3.1.3 ignores the filter and returns those of all tables. If there is a rebalance, this
        asks for the transactions too.
        """
        return self._queue(interface().ShowCompactRequest(dbName=database, tbName=table))

    def queued(self, compaction_id: int) -> QueueEntry | None:
        """The current entry of a compaction in the queue or the history, or None."""
        # Hive 3.1.3 does not know the filter, and answers with all of them
        request = interface().ShowCompactRequest(id=compaction_id)
        found = self._queue(request)
        return next((entry for entry in found if entry.compaction_id == compaction_id), None)

    def _queue(self, request: object) -> tuple[QueueEntry, ...]:
        rows = _whole(self.call("show_compact", request).compacts, "the compactions")
        found = tuple(map(_compaction, rows))
        if not any(entry.is_doubtful for entry in found):
            return found
        transactions = self.transaction_states()
        return tuple(entry.seen_with(transactions) for entry in found)

    def write_ids(self, database: str, table: str, transactions: ValidTxns) -> ValidWriteIds:
        """The valid write ids of a table for a reader with these transactions."""
        # the transactions are always sent: Hive 3.1.3 requires them
        [found] = self.all_write_ids([f"{database}.{table}"], transactions)
        return found

    def all_write_ids(
        self, tables: Sequence[str], transactions: ValidTxns
    ) -> tuple[ValidWriteIds, ...]:
        """The valid write ids of several tables, named `database.table`, in one call."""
        request = interface().GetValidWriteIdsRequest(list(tables), str(transactions))
        answer = self.call("get_valid_write_ids", request)
        found = tuple(map(_write_ids, _whole(answer.tblValidWriteIds, "the write ids")))
        if {ids.table.lower() for ids in found} != {table.lower() for table in tables}:
            raise TransientError("the Metastore's answer is not complete: a table is missing")
        return found

    def tables(self) -> tuple[tuple[str, str], ...]:
        """Every table as database and name. One call for each database."""
        databases = _whole(self.call("get_all_databases"), "the databases")
        found = [
            (str(database), str(name))
            for database in databases
            for name in _whole(self.call("get_all_tables", database), "the tables")
        ]
        return tuple(found)

    def table(self, database: str, table: str) -> Table:
        """Where a table is, and its properties."""
        types = interface()
        request = types.GetTableRequest(
            dbName=database,
            tblName=table,
            capabilities=types.ClientCapabilities([_INSERT_ONLY]),
            processorCapabilities=list(_CAPABILITIES),
            processorIdentifier="tidegate",
        )
        found = _whole(self.call("get_table_req", request).table, "the table")
        location = _whole(found.sd, "the table's storage").location
        return Table(
            _whole(found.dbName, "the table's database"),
            _whole(found.tableName, "the table's name"),
            _whole(location, "the table's location"),
            dict(found.parameters or {}),
        )

    def partition(self, database: str, table: str, partition: str) -> Table:
        """The location and the properties of a partition, named as in `p=1/q=2`."""
        found = self.call("get_partition_by_name", database, table, partition)
        return _partition(database, table, found)

    def partitions(self, database: str, table: str) -> tuple[Table, ...]:
        """The locations and the properties of all partitions of a table; may be empty."""
        found = _whole(self.call("get_partitions", database, table, -1), "the partitions")
        return tuple(_partition(database, table, row) for row in found)

    def holds(self, database: str, table: str, partition: str | None) -> Holds:
        """The holds of a vacuum whose result readers see by now: locks, and then transactions.

        In this order, because the transaction of each listed lock that is still held is then among
        those that are open. The other way round, a lock without its transaction in the list could
        have begun in between, or be about to go.
        """
        held = HeldTables(self.locks())
        return holds_of(held, self.transactions(), (database, table, partition), None)

    def mark_cleaned(self, compaction: QueueEntry) -> None:
        """Mark a compaction as cleaned: it is "succeeded" then. Marked twice is marked once.

        The Metastore also forgets the aborted writes of the table or partition up to the
        compaction's highest write id. The caller has checked that none of their directories is
        left.
        """
        kind = _TYPES[compaction.kind or VacuumKind.MINOR]
        highest = compaction.highest_write_id
        self._mark(compaction.compaction_id, compaction.place, kind, highest)

    def mark_aborted_cleaned(
        self, database: str, table: str, highest_write_id: int, entry: int = 0
    ) -> None:
        """No directory of a table holds a row of an aborted write up to this id.

        `entry` is the Metastore's own entry for it in the queue, where there is one.
        """
        self._mark(entry, (database, table, None), ABORT_CLEAN_UP, highest_write_id)

    def _mark(
        self, entry: int, place: tuple[str, str, str | None], kind: int, highest: int
    ) -> None:
        marked = interface().CompactionInfoStruct(entry, *place, kind, highest)
        self.call("mark_cleaned", marked)

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - Thrift's types
        """Call the Metastore; see the class for the errors."""
        from thriftpy2.thrift import TApplicationException, TException  # noqa: PLC0415 - an extra

        if self._called is not None:
            self._called(name)
        try:
            if self._client is None:
                self._client = connect(self._settings, self._service)
            return getattr(self._client, name)(*arguments)
        except TException as error:
            kind, message = type(error).__name__, getattr(error, "message", None)
            text = f"the Metastore refuses {name}: {message or kind}"
            if kind == _MISSING:
                raise MissingInMetastoreError(text) from error
            if kind in _REFUSALS:
                raise MetastoreRefusedError(text) from error
            unknown = TApplicationException.UNKNOWN_METHOD
            if kind == TApplicationException.__name__ and getattr(error, "type", 0) == unknown:
                raise MissingCallError(f"the Metastore has no call {name}") from error
            self._give_up(name, error)
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a broken answer makes the decoder raise
            self._give_up(name, error)
        except BaseException:
            self.close()
            raise

    def _give_up(self, name: str, error: Exception) -> None:
        """Forget the connection: an answer that comes late would be taken for another call's."""
        self.close()
        message = getattr(error, "message", None) or str(error) or type(error).__name__
        raise TransientError(f"the Metastore did not answer {name}: {message}") from error


def _whole(part: R | None, what: str) -> R:
    """A part of an answer; one that is missing makes the answer worthless, not empty."""
    if part is None:
        raise TransientError(f"the Metastore's answer is not whole: {what} is missing")
    return part


def _partition(database: str, table: str, found: Any) -> Table:  # noqa: ANN401 - as above
    location = _whole(found.sd, "the partition's storage").location
    place = _whole(location, "the partition's location")
    return Table(database, table, str(place), dict(found.parameters or {}))


def _write_ids(found: Any) -> ValidWriteIds:  # noqa: ANN401 - as above
    invalid = _whole(found.invalidWriteIds, "the invalid write ids")
    aborted = _bits(found.abortedBits or b"", invalid)
    opened = [write_id for write_id in invalid if write_id not in aborted]
    return ValidWriteIds(
        str(_whole(found.fullTableName, "the table of the write ids")),
        _whole(found.writeIdHighWaterMark, "the high mark of the write ids"),
        min(opened, default=NOTHING_OPEN),
        IdRanges.of(*opened),
        IdRanges.of(*aborted),
    )


def _lock(row: Any) -> Lock:  # noqa: ANN401 - as above
    lock_id, database, table, txn = row.lockid, row.dbname, row.tablename, row.txnid
    if lock_id is None or database is None:
        raise TransientError("the Metastore's answer is not whole: a lock's id or database")
    owner = f"{row.user or '?'}@{row.hostname or '?'}"
    return Lock(
        lock_id,
        database.lower(),
        table.lower() if table else None,
        row.partname or None,
        _LOCK_TYPES.get(row.type),
        txn or None,
        row.lastheartbeat or 0,
        f"{owner} (transaction {txn})" if txn else owner,
        row.acquiredat or 0,
    )


def _compaction(row: Any) -> QueueEntry:  # noqa: ANN401 - as above
    highest = row.hightestWriteId or row.hightestTxnId or 0
    return QueueEntry(
        int(row.id or 0),
        _whole(row.dbname, "a compaction's database").lower(),
        _whole(row.tablename, "a compaction's table").lower(),
        row.partitionname or None,
        _KINDS.get(row.type),
        _whole(row.state, "a compaction's state"),
        int(highest),
        row.txnId or None,
        row.nextTxnId or None,
        int(row.commitTime or 0),
        int(row.type or 0),
    )


def _bits(bits: bytes | str, ids: Iterable[int]) -> frozenset[int]:
    """The ids whose bit is set; bit 0 is the lowest one of the first byte."""
    raw = bits.encode("latin-1") if isinstance(bits, str) else bits
    number = int.from_bytes(raw, "little")
    return frozenset(id_ for place, id_ in enumerate(ids) if number >> place & 1)
