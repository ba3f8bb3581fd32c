"""60 MB of `{},{}` in a file of a tenant's table: little memory and time, and a clear refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

PROGRAM = """
import json, sys, time
from datetime import UTC, datetime
from pathlib import Path
from tidegate.bounded_json import parse_json
from tidegate.cleaning.quarantine import read_entries
from tidegate.errors import FormatError
from tidegate.hudi.commit import CommitMetadata, planned_updates
from tidegate.restores.settings import RestoreSettings
from tidegate.restores.liveness import check_writers
from tidegate.restores.plan import _read_summaries
from tidegate.savepoints.further_requests import further_requests_on
from tidegate.storage import Storage
from tidegate.tables.claim import HUDI, Claim, Task
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

kind, table = sys.argv[1], sys.argv[2]
warehouse = Warehouse(WarehouseRoots.of(table))


def commit():
    return CommitMetadata.decode(Path(table, "file").read_bytes())


calls = {
    "quarantine": lambda: read_entries(warehouse, table, "c"),
    "outcome": lambda: Claim.take(warehouse, table, HUDI, Task(7, "task", "table", "cluster")),
    "locks": lambda: check_writers(warehouse, table, datetime.now(UTC), RestoreSettings()),
    "claim": lambda: further_requests_on(warehouse, table, "20260301100000001"),
    "commit": commit,
    "inflight": lambda: planned_updates(Path(table, "file").read_bytes()),
}


def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


before, began = status("VmRSS"), time.process_time()
try:
    found = repr(calls[kind]())[:300]
except (FormatError, Refused) as error:
    found = f"{type(error).__name__}: {error}"
cpu = time.process_time() - began
print(json.dumps([(status("VmHWM") - before) // 1024, cpu, found]))
"""
JUNK = b"{}," * 20_000_000 + b"{}"
STATS = b'{"partitionToWriteStats": {"p": ['
EMPTY = b'{"path": ""},' * 4_600_000 + b'{"path": ""}'
WRITTEN = b'{"fileId":"f","path":"p"},' * 2_300_000 + b'{"fileId":"f","path":"p"}'
QUARANTINE = f".tidegate_quarantine/{sha256(b'c').hexdigest()[:32]}"
RECORD: dict[str, object] = {
    "cleaning": "c",
    "vacuum": "v",
    "table": "lake.sales.orders",
    "partition": None,
    "why": "w",
    "at": "2026-03-01T12:00:00",
    "keep_ms": 1,
    "failed": [],
    "directories": {},
    "products": [],
    "version": 1,
    "paths": [],
}


def refusal(kind: str, table: Path) -> tuple[int, float, str]:
    """Megabytes by which a process grew, its seconds of processor time, and what it answered."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, str(table)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    grown, cpu, found = json.loads(done.stdout)
    return grown, cpu, found


def write(table: Path, name: str, content: bytes) -> None:
    (table / name).parent.mkdir(parents=True, exist_ok=True)
    (table / name).write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "name", "content", "answer"),
    [
        pytest.param("quarantine", f"{QUARANTINE}/record.json", b"[" + JUNK + b"]", "larger"),
        pytest.param("quarantine", f"{QUARANTINE}/undone.json", b"[" + JUNK + b"]", "larger"),
        pytest.param(
            "outcome", ".hoodie/.tidegate/tasks/7.done", b"[" + JUNK + b"]", "larger than"
        ),
        pytest.param("locks", ".hoodie/.locks/table_lock.json", b"[" + JUNK + b"]", "is held"),
        pytest.param(
            "claim",
            ".hoodie/.tidegate/further-requests/20260301100000001/c.json",
            b"[" + JUNK + b"]",
            "larger than",
        ),
        pytest.param("commit", "file", b"[" + JUNK + b"]", "values", id="a list"),
        pytest.param("commit", "file", STATS + JUNK + b"]}}", "values", id="stats"),
        pytest.param("commit", "file", STATS + EMPTY + b"]}}", "values", id="without a path"),
        pytest.param("commit", "file", STATS + WRITTEN + b"]}}", "values", id="short stats"),
        pytest.param("commit", "file", STATS + b"[" + JUNK + b"]]}}", "values", id="one stat"),
        pytest.param(
            "commit", "file", STATS + b'], "x": [' + JUNK + b"]}}", "values", id="a partition"
        ),
        pytest.param("commit", "file", STATS + b']}, "x": [' + JUNK + b"]}", "values", id="rest"),
        pytest.param("inflight", "file", STATS + JUNK + b"]}}", "values", id="inflight"),
    ],
)
def test_a_hostile_file_is_refused_cheaply(
    tmp_path: Path, kind: str, name: str, content: bytes, answer: str
) -> None:
    if name.endswith("undone.json"):
        write(tmp_path, f"{QUARANTINE}/record.json", json.dumps(RECORD).encode())
    write(tmp_path, name, content)

    grown, cpu, found = refusal(kind, tmp_path)

    assert answer in found
    assert grown < 256
    assert cpu < 5


def test_the_honest_commit_of_one_hundred_thousand_files_is_read(tmp_path: Path) -> None:
    stat = {
        "fileId": "e4f8b1a2-0000-4000-8000-0123456789ab-0",
        "prevCommit": "20260301100000001",
        "numWrites": 1_000,
        "fileSizeInBytes": 123_456,
    } | {f"aFieldOfHudi{number}": 0 for number in range(17)}
    stats = [stat | {"path": f"p/e4f8b1a2-{n}-0_0-1-2_20260301.parquet"} for n in range(100_000)]
    content = json.dumps({"partitionToWriteStats": {"p": stats}, "extraMetadata": {}}).encode()
    assert len(content) > 50_000_000
    write(tmp_path, "file", content)

    for kind in ("commit", "inflight"):
        grown, cpu, found = refusal(kind, tmp_path)
        assert "Error" not in found
        assert grown < 256
        assert cpu < 10
