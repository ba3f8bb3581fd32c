"""A Metastore as a model in memory, for properties of the bridge's pure core."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tidegate.events import LockHold, VacuumFinished, VacuumKind
from tidegate.hive_metastore.values import Lock, QueueEntry, Snapshot, Transactions

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def lock(
    lock_id: int, database: str = "sales", table: str | None = "orders", **fields: object
) -> Lock:
    return Lock(lock_id, database, table, **fields)  # type: ignore[arg-type]


def snapshot(
    *locks: Lock,
    open_txns: Sequence[int] = (),
    aborted: Sequence[int] = (),
    mark: int = 100,
    compactions: Sequence[QueueEntry] = (),
    metastore: str = "uuid-1",
) -> Snapshot:
    transactions = Transactions(mark, dict.fromkeys(open_txns, 0), frozenset(aborted))
    return Snapshot(metastore, tuple(compactions), locks, transactions)


def vacuum(
    locks: Sequence[int | LockHold] = (),
    open_txns: Sequence[int] = (),
    table: str = "hive.sales.orders",
    **fields: object,
) -> VacuumFinished:
    holds = [hold if isinstance(hold, LockHold) else LockHold(lock_id=hold) for hold in locks]
    return VacuumFinished.model_validate(
        {
            "table": table,
            "location": "/wh/orders",
            "occurred_at": NOON,
            "source": "test",
            "kind": VacuumKind.MINOR,
            "directories": ("delta_0000001_0000003_v0000009",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": "sales.orders:3:9223372036854775807::",
            "own_lock_id": 0,
            "own_transaction_id": 9,
            "locks": (LockHold(lock_id=0), *holds),
            "open_transactions": tuple(open_txns),
        }
        | fields
    )
