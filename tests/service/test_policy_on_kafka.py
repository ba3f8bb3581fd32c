"""A policy on a real broker: savepoints are made, and removed by number, by time and by people."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.hudi_tables import HandMade, at, four_commits, timeline_names
from support.replays import Place, publish_commits
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.events import SavepointRemoved, SavepointsChecked
from tidegate.ops.topics import create_topics

pytestmark = pytest.mark.kafka
POLICY = """
[[savepoints]]
tables = "lake.shop.*"
policy = "shop"
every_commit = { keep = 2 }
"""


def call(place: Place, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    file = str(place.folder / "tidegate.toml")
    answer = CliRunner().invoke(app, [*arguments, "-c", file])
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    assert answer.exit_code == code, answer.output
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def savepoints(table: HandMade) -> list[str]:
    return sorted(n[:17] for n in timeline_names(table) if n.endswith(".savepoint"))


def test_savepoints_are_made_and_removed_by_policy_by_time_and_by_people(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    place = Place(tmp_path, bootstrap_servers, f"policy-{uuid.uuid4().hex[:8]}")
    settings = place.settings(POLICY)
    create_topics(settings.connection(), settings.topics)
    table = four_commits(place.lake / "customers", 9)
    subject = place.subject("customers")

    with place.running("coordinator", "savepoint-writer", rules=POLICY):
        publish_commits(place, [4])
        wait_for("the first savepoint", lambda: savepoints(table) == [at(4)])
        for minute in (5, 6):
            table.commit(at(minute), at(minute - 1))
        publish_commits(place, [5, 6])
        # the maximum holds: the third's making ends the first's time
        wait_for("two savepoints", lambda: savepoints(table) == [at(5), at(6)])
        wait_for("the outcome", lambda: _count(place, SavepointRemoved) == 1)

        named = ("-t", subject["table"], "-l", table.location)
        call(place, "publish", "savepoint", *named, "--instant", at(2), "--lifetime", "1s")
        # nothing else happens on the table: time alone removes it
        wait_for("its end", lambda: _count(place, SavepointRemoved) == 2)
        assert savepoints(table) == [at(5), at(6)]

        listed = call(
            place, "savepoints", "list", table.location, "--table", subject["table"], "--json"
        )
        assert [(row["policy"], row["tiers"]) for row in listed] == [
            ("shop", "every-commit"),
            ("shop", "every-commit"),
        ]
        removal = ("publish", "savepoint-removal", *named, "--instant", at(5), "--reason", "done")
        *_, answer = call(place, *removal, "--wait", "--json")
        assert answer["verdict"] == "done"
        assert savepoints(table) == [at(6)]

    simulated = call(place, "simulate", "--removed", "--json")
    found = [(row["instant"], row["removed_at"] is None) for row in simulated]
    assert found == [(at(5), True), (at(6), True), (at(4), False)]
    removals = [e for e in place.audience.outcomes() if isinstance(e, SavepointRemoved)]
    assert [(event.instant, event.policy) for event in removals][:2] == [
        (at(4), "shop"),
        (at(2), None),
    ]
    checks = [e for e in place.audience.outcomes() if isinstance(e, SavepointsChecked)]
    assert [event.pinned_bytes is None for event in checks][:2] == [False, True]
    assert place.audience.dead_letters() == []


def _count(place: Place, kind: type[SavepointRemoved]) -> int:
    return sum(isinstance(outcome, kind) for outcome in place.audience.outcomes())
