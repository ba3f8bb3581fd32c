"""Vacuums of a small ACID table, and the ends of their locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from support.acid import IDS_1_TO_3, MINOR_3, NOON, TABLE
from tidegate.events import LockReleased, VacuumFinished


def vacuum(  # noqa: PLR0913 - what the tests vary
    *locks: int,
    open_transactions: Sequence[int] = (),
    table: str = TABLE,
    made: str = MINOR_3,
    partition: str | None = None,
    lock_partition: str | None = None,
    snapshot: str = IDS_1_TO_3,
    own_transaction_id: int | None = None,
    transactions_of: Mapping[int, int] = MappingProxyType({}),
    metastore: str | None = None,
) -> VacuumFinished:
    """A vacuum that saw these locks; the first is its own."""
    return VacuumFinished.model_validate(
        {
            "table": table,
            "location": "/wh/t",
            "occurred_at": NOON,
            "source": "compactor",
            "kind": "minor",
            "directories": (made,),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": snapshot,
            "own_transaction_id": own_transaction_id,
            "partition": partition,
            "own_lock_id": locks[0],
            "locks": [
                {
                    "lock_id": lock,
                    "owner": f"user-{lock}",
                    "partition": lock_partition,
                    "transaction_id": transactions_of.get(lock),
                }
                for lock in locks
            ],
            "open_transactions": open_transactions,
            "metastore": metastore,
        }
    )


def released(
    lock: int | None = None,
    txn: int | None = None,
    table: str = TABLE,
    partition: str | None = None,
    metastore: str | None = None,
) -> LockReleased:
    return LockReleased.model_validate(
        {
            "table": table,
            "location": "/wh/t",
            "occurred_at": NOON,
            "source": "bridge",
            "lock_id": lock,
            "transaction_id": txn,
            "partition": partition,
            "metastore": metastore,
        }
    )
