"""`docker compose up` of everything, and the story from outside: a savepoint, a kill, a restore."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from support.kafka import docker_answers
from tidegate.embedded.process import free_ports
from tidegate.hudi.instant import Action, InstantState
from tidegate.hudi_reader.table import load_table
from tidegate.publisher import Publisher
from tidegate.service.catalogue import NAMES
from tidegate.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.containers,
    pytest.mark.spark,
    pytest.mark.skipif(not docker_answers(), reason="no Docker engine answers"),
]
COMPOSE = Path(__file__).parents[2] / "compose" / "compose.yaml"
_PATIENCE = 120.0
_TABLE = "lake.sales.orders"
_OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
}


@dataclass(frozen=True)
class Stack:
    """The containers of a project of its own."""

    project: str
    environ: dict[str, str]
    lake: Path

    def compose(self, *arguments: str) -> str:
        command = ["docker", "compose", "-p", self.project, "-f", str(COMPOSE), *arguments]
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=1200, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def logs(self) -> str:
        command = ["docker", "compose", "-p", self.project, "-f", str(COMPOSE)]
        command += ["logs", "--tail", "5"]
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False
        )
        return done.stdout

    def shell(self, script: str) -> str:
        """Run a script in a container of its own, which has the tables and the settings."""
        return self.compose("run", "--rm", "-T", "--entrypoint", "sh", "restorer", "-ec", script)

    def port(self, name: str) -> int:
        return int(self.environ[f"TIDEGATE_{name}_PORT"])


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    lake = folder / "lake"
    lake.mkdir()
    for path in (lake, folder, *folder.parents[:2]):  # the services run as another user
        path.chmod(0o777 if path == lake else 0o755)
    free = chain.from_iterable(free_ports() for _ in range(3))
    names = ("KAFKA", "S3", "METASTORE", "PROMETHEUS", "REGISTRY")
    ports = {f"TIDEGATE_{name}_PORT": str(port) for name, port in zip(names, free, strict=False)}
    environ = {**os.environ, **ports, "TIDEGATE_LAKE": str(lake)}
    made = Stack(f"tidegate-{os.getpid()}", environ, lake)
    try:
        # an image that was built before is named by TIDEGATE_IMAGE
        build = "--no-build" if "TIDEGATE_IMAGE" in os.environ else "--build"
        made.compose("up", "--wait", build)
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "5")


def write_orders(spark: SparkSession, stack: Stack, price: int) -> str:
    """Append to the table, and publish the commit; its instant."""
    orders = spark.range(100).selectExpr("id", "id % 2 AS region", f"id * {price} AS amount")
    writer = orders.write.format("hudi").options(**_OPTIONS).mode("append")
    writer.save(str(stack.lake / "orders"))
    for path in (stack.lake / "orders", *(stack.lake / "orders").rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)  # the services change the table, too
    last = load_table(Storage(), str(stack.lake / "orders")).timeline.last_completed_write()
    assert last is not None
    with Publisher(f"127.0.0.1:{stack.port('KAFKA')}", source="orders-job") as publisher:
        publisher.commit(table=_TABLE, location="/lake/orders", instant=last.timestamp)
    return last.timestamp


def amounts(spark: SparkSession, stack: Stack) -> int:
    frame = spark.read.format("hudi").load(str(stack.lake / "orders"))
    return int(frame.agg({"amount": "sum"}).collect()[0][0])


def savepoints(stack: Stack) -> list[str]:
    timeline = load_table(Storage(), str(stack.lake / "orders")).timeline
    found = timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
    return [instant.timestamp for instant in found]


def until(expected: object, ask: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while (seen := ask()) != expected:
        assert time.monotonic() < deadline, f"{seen} instead of {expected}"
        time.sleep(0.5)


def test_a_commit_gets_a_savepoint_and_a_restore_survives_a_killed_container(
    stack: Stack, spark: SparkSession
) -> None:
    good = write_orders(spark, stack, 1)
    until([good], lambda: savepoints(stack))
    write_orders(spark, stack, 2)
    assert amounts(spark, stack) == 9900

    # requested while the restorer is dead: it is executed once the container runs again
    stack.compose("kill", "--signal", "KILL", "restorer")
    plan = f"tidegate plan restore -t {_TABLE} -l /lake/orders --savepoint latest --out /tmp/plan"
    stack.shell(f"{plan}; tidegate publish restore --plan /tmp/plan --reason 'prices doubled'")
    assert amounts(spark, stack) == 9900
    stack.compose("up", "--wait", "--no-build")
    until(4950, lambda: amounts(spark, stack))
    outcomes = stack.shell("tidegate outcomes --kind RestoreCompleted --json")
    assert good in outcomes


def test_the_services_run_without_rights(stack: Stack) -> None:
    script = (
        "import os, pathlib, shutil\n"
        "print(os.getuid(), os.access('/opt/tidegate', os.W_OK), os.access('/etc', os.W_OK))\n"
        "print([name for name in ('cc', 'gcc', 'make') if shutil.which(name)])\n"
    )
    for name in NAMES:
        seen = stack.compose("exec", "-T", name, "python", "-c", script)
        assert seen.splitlines() == ["10001 False False", "[]"]


def test_prometheus_scrapes_every_service(stack: Stack) -> None:
    query = quote('sum(up{job=~"tidegate.*"})')
    url = f"http://127.0.0.1:{stack.port('PROMETHEUS')}/api/v1/query?query={query}"

    def scraped() -> int:
        with urlopen(url, timeout=10) as answer:
            [result] = json.load(answer)["data"]["result"] or [{"value": [0, "0"]}]
            return int(result["value"][1])

    # the bridge to the Metastore and the monitor, too
    until(len(NAMES) + 2, scraped)


def test_the_doctor_finds_nothing_that_fails(stack: Stack) -> None:
    seen = map(json.loads, stack.shell("tidegate doctor --write --json || true").splitlines())
    states = {check["check"]: (check["state"], check["seen"]) for check in seen}

    assert states["root s3://lake"][0] == states["root /lake"][0] == "ok", states
    assert not {check: state for check, state in states.items() if state[0] == "fail"}
