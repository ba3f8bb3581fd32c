"""A real file system without space: what people see meanwhile, and that the work goes on after it.

See "The disk is full" in docs/runbook.md.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.deployment import Deployment
from support.hudi_tables import at, four_commits, savepoint_request, timeline_names
from support.waiting import wait_for
from tidegate.cli.tree import app

pytestmark = [pytest.mark.kafka]
FULL = "[Errno 28] No space left on device"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "lake"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tidegate-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all space that is left."""
    file = disk / "filler"
    with suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    return file


def shown(deployment: Deployment, *command: str) -> str:
    settings = str(deployment.settings_file("people", {}))
    return CliRunner().invoke(app, [*command, "-c", settings]).output


def test_a_savepoint_waits_for_space_and_people_see_why(deployment: Deployment, disk: Path) -> None:
    table = four_commits(disk / "orders", 6)
    first, second = savepoint_request(table, at(2)), savepoint_request(table, at(3))
    for service in ("savepoint-writer", "coordinator"):
        deployment.run(service)
    publisher = deployment.publisher()

    def has(instant: str) -> bool:
        return f"{instant}.savepoint" in timeline_names(table)

    publisher.publish(first)
    wait_for("the first savepoint", lambda: has(at(2)))
    filler = fill(disk)
    publisher.publish(second)
    wait_for("the fault", lambda: FULL in shown(deployment, "status"))
    assert "is tried again by the savepoint writer: attempt" in shown(
        deployment, "explain", second.table
    )
    assert not has(at(3))

    filler.unlink()
    wait_for("the second savepoint", lambda: has(at(3)))
    wait_for("its outcome", lambda: FULL not in shown(deployment, "status"))
    assert "nothing: every request has its outcome" in shown(deployment, "explain", second.table)
