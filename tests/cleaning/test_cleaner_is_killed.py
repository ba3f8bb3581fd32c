from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from support.acid import INSERT_1, NOTHING_OPEN, build, names_in, release
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import CleaningReleased, DirectoriesCleaned
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

WRITES = 400
PRODUCT = f"delta_0000001_{WRITES:07d}"
LATER = "delta_0000500_0000500_0000"
PROGRAM = """
import sys
from datetime import UTC, datetime
from tidegate.cleaning import Cleaner
from tidegate.events import CleaningReleased
from tidegate.compute.parallel_map import ThreadMap
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

warehouse = Warehouse(WarehouseRoots.of(sys.argv[1]))
command = CleaningReleased.model_validate_json(sys.argv[2])
list(Cleaner(warehouse, ThreadMap(2), lambda: datetime.now(UTC)).execute(command))
"""


def released(table: Path) -> CleaningReleased:
    return release(
        str(table),
        directories=(PRODUCT,),
        max_write_id=WRITES,
        valid_write_ids=f"default.table_txn_001:{WRITES}:{NOTHING_OPEN}::",
    )


def test_what_a_killed_cleaner_left_goes_in_the_next_run(tmp_path: Path) -> None:
    inserts = {f"delta_{n:07d}_{n:07d}_0000": 10 for n in range(1, WRITES + 1)}
    table = build(tmp_path / "t", {**inserts, PRODUCT: 100, LATER: 10})
    command = released(table)
    killed = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), command.model_dump_json()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    while (table / INSERT_1).exists() and killed.poll() is None:
        time.sleep(0.001)
    killed.kill()
    killed.wait()
    assert {PRODUCT, LATER} <= set(names_in(table))
    roots = WarehouseRoots.of(str(tmp_path))
    *_, cleaned = Cleaner(Warehouse(roots), ThreadMap(), lambda: datetime.now(UTC)).execute(command)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert names_in(table) == [PRODUCT, LATER]
