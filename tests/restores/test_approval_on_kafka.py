"""Two people, a real broker, a real Hudi table: asked, approved, killed half way, restored once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from support.deployment import Deployment
from support.hudi_records import RealHudi
from support.hudi_tables import warehouse_over
from support.judged import NOW, asked
from support.real_hudi import RealTable, rows
from tidegate.cli import app
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    Outcome,
    RestoreApprovalRejected,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreStarted,
    SavepointCreated,
    SavepointRequested,
    TaskEnded,
)
from tidegate.hudi_reader.table import load_table
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import Storage

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.judge,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
RULES = """
[[restores.rules]]
tables = "*"
approval = true
approved_by = ["ana", "ben"]
"""


@pytest.fixture
def table(live_hudi: RealHudi, tmp_path: Path) -> RealTable:
    table = RealTable(live_hudi, tmp_path / "orders", 9, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert")
    return table


@pytest.fixture
def place(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path, settings=RULES) as deployment:
        yield deployment


def outcomes(place: Deployment) -> list[Outcome]:
    return [event for event in place.events("outcomes") if isinstance(event, Outcome)]


def test_two_people_restore_a_table_once_whatever_is_killed(
    table: RealTable, place: Deployment, tmp_path: Path
) -> None:
    last = load_table(Storage(), table.location).timeline.last_completed_write()
    assert last is not None
    # not as a task: the folder of the table's tasks is of the first deployment that claims it
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), NOW)
    wanted = SavepointRequested.model_validate(asked(table) | {"instant": last.timestamp})
    assert [type(outcome) for outcome in writer.execute(wanted)] == [SavepointCreated]
    kept = table.read()
    for number in range(2, 8):
        table.write(rows(range(6), f"bad {number}", number))
    file = str(place.settings_file("cli", {}))

    def tidegate(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "-c", file])

    subject = ("-t", "lake.sales.orders", "-l", table.location)
    plan = str(tmp_path / "plan.json")
    planned = tidegate("plan", "restore", *subject, "--savepoint", last.timestamp, "--out", plan)
    assert planned.exit_code == 0, planned.output
    place.run("coordinator")
    restorer = place.run("restorer")

    request = tidegate(
        *(
            "publish",
            "restore",
            "--plan",
            plan,
            "--reason",
            "a bad load",
            "--wait",
            "--json",
            "--new",
        ),
        *("--requested-by", "ana", "--request-id", "r-1"),
    )
    assert request.exit_code == 5, request.output  # another person has to approve it
    assert '"verdict":"awaiting"' in request.output.replace(" ", "").replace("\n", "")
    status = tidegate("status")
    assert "awaits approval" in status.output
    assert "--request r-1" in status.output
    explained = tidegate("explain", "lake.sales.orders")
    assert "a second person" in explained.output

    own = tidegate(
        *(
            "publish",
            "approval",
            "--request",
            "r-1",
            "--plan",
            plan,
            "--reason",
            "mine",
            "--wait",
            "--json",
        ),
        *("--requested-by", "ana"),
    )
    assert own.exit_code == 3, own.output
    assert table.read() != kept

    approval = ["publish", "approval", "--request", "r-1", "--plan", plan, "--reason", "checked"]
    approval += ["--requested-by", "ben", "--request-id", "a-1"]
    assert tidegate(*approval).exit_code == 0
    timeline = table.path / ".hoodie/timeline"
    while not list(timeline.glob("*.restore.*")):
        time.sleep(0.001)  # the test's own time-out ends it
    assert restorer.end(signal.SIGKILL, 20)
    killed_half_way = not list(timeline.glob("*_*.restore"))

    place.run("restorer", "second")
    done = tidegate(*approval, "--wait")  # published again, it is the same approval

    assert done.exit_code == 0, done.output
    found = outcomes(place)
    assert {type(event) for event in found} == {
        RestoreAwaitingApproval,
        RestoreApprovalRejected,
        RestoreStarted,
        RestoreCompleted,
        TaskEnded,
    }
    completed = [event for event in found if isinstance(event, RestoreCompleted)]
    assert len(completed) == 1
    assert (completed[0].requested_by, completed[0].approved_by) == ("ana", "ben")
    assert completed[0].approval == "a-1"
    starts = [event.resumed for event in found if isinstance(event, RestoreStarted)]
    assert not killed_half_way or starts[-1] is True
    assert table.read() == kept
    assert place.events("dead-letters") == []
    assert "awaits approval" not in tidegate("status").output
