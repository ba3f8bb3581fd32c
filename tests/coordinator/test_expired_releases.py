from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.rows import Rows
from tidegate.events import LockHold, LockReleased, ReleaseReason, VacuumFinished, VacuumKind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ENVELOPE = {
    "table": "hive.default.table_txn_001",
    "location": "/wh/t",
    "occurred_at": NOON,
    "source": "test",
}


@pytest.mark.parametrize("reason", list(ReleaseReason))
def test_whatever_ended_a_lock_ended_its_transaction_too(reason: ReleaseReason) -> None:
    vacuum = VacuumFinished.model_validate(
        ENVELOPE
        | {
            "kind": VacuumKind.MINOR,
            "directories": ("delta_0000001_0000003",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": "default.table_txn_001:3:9223372036854775807::",
            "own_lock_id": 7,
            "locks": (LockHold(lock_id=7),),
            "open_transactions": (9,),
        }
    )
    own = LockReleased.model_validate(ENVELOPE | {"lock_id": 7})
    ended = LockReleased.model_validate(
        ENVELOPE | {"lock_id": 8, "transaction_id": 9, "reason": reason}
    )
    rows = Rows()
    assert [len(rows.handle(event)) for event in (vacuum, own, ended)] == [0, 0, 1]
