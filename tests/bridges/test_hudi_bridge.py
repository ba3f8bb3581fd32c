"""`tidegate bridge hudi` as processes, on a real Kafka."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.deployment import Deployment, end, exit_code
from support.hudi_tables import at, four_commits
from support.waiting import wait_for
from tidegate.cli.tree import app
from tidegate.embedded.process import Child
from tidegate.events import CommitCompleted

pytestmark = pytest.mark.kafka


@pytest.fixture
def deployment(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    settings = f"""
        [bridge.hudi]
        tables = ["{tmp_path}/wh/*"]
        catalog = "hudi"
        interval_ms = 100
        find_ms = 200
        callback_port = 0
    """
    with Deployment(
        bootstrap_servers, topic_prefix, tmp_path, partitions=3, settings=settings
    ) as made:
        yield made


def until(deployment: Deployment, *wanted: tuple[str, str]) -> list[CommitCompleted]:
    """Wait until exactly these are published, each once."""

    def published() -> list[CommitCompleted]:
        found = [e for e in deployment.events("commits") if isinstance(e, CommitCompleted)]
        return found if len(found) >= len(wanted) else []

    found = wait_for(f"{len(wanted)} commits", published)
    assert sorted((event.table, event.instant) for event in found) == sorted(wanted)
    return found


def posted(bridge: Child, body: bytes) -> int:
    def port() -> list[str]:
        return re.findall(r"HTTP callback on port (\d+)", bridge.log.read_text())

    connection = HTTPConnection("127.0.0.1", int(wait_for("a port", port)[0]), timeout=60)
    connection.request("POST", "/any/path", body)
    with connection.getresponse() as response:
        return response.status


ALL_OF_IT = "the tables of 3 of 3 partitions"


def test_commits_are_published_once_through_deaths_and_by_two(
    deployment: Deployment, tmp_path: Path
) -> None:
    tables = {name: four_commits(tmp_path / "wh" / name, 9) for name in ("a", "b", "c", "d", "e")}
    first = deployment.run("hudi", "first", command="bridge")
    known = [(f"hudi.wh.{name}", at(4)) for name in tables]
    until(deployment, *known)

    body = json.dumps({"commitTime": at(4), "basePath": f"file:{tmp_path}/wh/a"}).encode()
    assert f"published {at(4)} of hudi.wh.a (" in first.log.read_text()

    assert posted(first, body) == 202
    assert posted(first, body.replace(b"/a", b"/unknown")) == 404
    assert posted(first, b"junk") == 400

    os.kill(first.pid, signal.SIGKILL)
    tables["a"].commit(at(5), at(4))
    tables["a"].commit(at(6), at(5))
    both = [deployment.run("hudi", name, command="bridge") for name in ("second", "third")]
    known += [("hudi.wh.a", at(5)), ("hudi.wh.a", at(6))]
    found = until(deployment, *known)
    assert {event.instant for event in found if event.reconciled} == {at(5), at(6)}
    for name, table in tables.items():
        table.commit(at(7), at(4))
        known.append((f"hudi.wh.{name}", at(7)))
    four_commits(tmp_path / "wh" / "new", 6)
    known.append(("hudi.wh.new", at(4)))
    until(deployment, *known)
    second, third = both
    taken = third.log.read_text().count(ALL_OF_IT)
    os.kill(second.pid, signal.SIGTERM)
    assert exit_code(second) == 0
    # librdkafka 2.16 may abort a process that closes its consumer in the middle of a rebalance
    wait_for("the third alone", lambda: third.log.read_text().count(ALL_OF_IT) > taken)
    os.kill(third.pid, signal.SIGTERM)
    assert exit_code(third) == 0


@pytest.mark.slow
def test_a_callback_makes_it_poll_at_once(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    settings = f"""
        [bridge.hudi]
        tables = ["{tmp_path}/wh/*"]
        catalog = "hudi"
        interval_ms = 3600000
        callback_port = 0
    """
    table = four_commits(tmp_path / "wh" / "a", 9)
    with Deployment(bootstrap_servers, topic_prefix, tmp_path, settings=settings) as deployment:
        bridge = deployment.run("hudi", command="bridge")
        until(deployment, ("hudi.wh.a", at(4)))
        table.commit(at(5), at(4))
        message = {"commitTime": at(5), "basePath": f"file://{table.location}"}
        assert posted(bridge, json.dumps(message).encode()) == 202
        until(deployment, ("hudi.wh.a", at(4)), ("hudi.wh.a", at(5)))


def test_status_and_doctor_say_when_it_polled_and_that_it_is_down(
    deployment: Deployment, tmp_path: Path
) -> None:
    settings = str(deployment.settings_file("people", {}))

    def seen() -> tuple[dict[str, Any], str, dict[str, Any]]:
        """The bridge in `status`, what needs a person, and the bridge in `doctor`."""
        status = json.loads(CliRunner().invoke(app, ["status", "--json", "-c", settings]).output)
        [row] = [row for row in status["services"] if row["service"] == "hudi-bridge"]
        doctor = CliRunner().invoke(app, ["doctor", "--json", "-c", settings]).output
        found = {found["check"]: found for found in map(json.loads, doctor.splitlines())}
        return row, "\n".join(status["needs"]), found["hudi bridge"]

    row, needed, finding = seen()
    assert (row["members"], row["problem"], row["last_poll"]) == ([], "it is not running", None)
    assert "hudi-bridge is not running: tidegate run hudi-bridge" in needed
    assert (finding["state"], finding["advice"]) == ("warn", "start it: tidegate run hudi-bridge")

    four_commits(tmp_path / "wh" / "a", 9)
    bridge = deployment.run("hudi-bridge")
    row, needed, finding = wait_for("a poll", lambda: (it := seen())[0]["last_poll"] and it)
    assert (len(row["members"]), row["problem"]) == (1, None)
    assert "hudi-bridge" not in needed
    assert (finding["state"], finding["seen"][:23]) == ("ok", "1 running; last polled ")
    end(bridge)
