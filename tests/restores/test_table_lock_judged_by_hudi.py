"""Real Hudi's writers respect the lock file that a restore holds, and the restore theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from py4j.protocol import Py4JJavaError

from support.hudi_records import RealHudi
from support.hudi_tables import warehouse_over
from support.judged import NOW, request, savepoint
from support.real_hudi import RealTable, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, SavepointCreated
from tidegate.restores.context import RestoreContext
from tidegate.restores.executor import Restorer
from tidegate.restores.liveness import holding_lock
from tidegate.restores.settings import RestoreSettings

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow]

LOCKING: Final = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.write.lock.num_retries": "1",
    "hoodie.write.lock.client.num_retries": "1",
    "hoodie.write.lock.wait_time_ms": "500",
    "hoodie.write.lock.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
}
SETTINGS: Final = RestoreSettings(watch_seconds=0, hold_lock=True)


@pytest.mark.parametrize("version", [9, pytest.param(6, marks=pytest.mark.full)])
def test_a_writer_waits_for_the_lock_of_a_restore_and_leaves_none_behind(
    live_hudi: RealHudi, tmp_path: Path, version: int
) -> None:
    table = RealTable(live_hudi, tmp_path / "lake/orders", version, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert", more=LOCKING)
    kept = table.read()
    lock = table.path / ".hoodie/lock"
    assert not lock.exists()
    warehouse = warehouse_over(table.path.parent)
    context = RestoreContext(warehouse, ThreadMap(), NOW, SETTINGS)

    with holding_lock(context, table.location, "r1"):
        with pytest.raises(Py4JJavaError, match=r"(?i)lock"):
            table.write(rows(range(3), "refused", 2), more=LOCKING)
        assert "tidegate restore r1" in lock.read_text()
    assert table.read() == kept

    command = savepoint(table, None, ThreadMap())
    assert isinstance(command, SavepointCreated)
    table.write(rows(range(3), "second", 3), more=LOCKING)
    assert table.read() != kept
    restorer = Restorer(warehouse, ThreadMap(), NOW, SETTINGS)
    *_, last = restorer.execute(request(table, command.instant))
    assert isinstance(last, RestoreCompleted)
    assert table.read() == kept
    table.write(rows(range(3), "third", 4), more=LOCKING)
    assert table.read() != kept
    assert not lock.exists()
