"""The whole story on real Kafka: a hold, an expired lock, quarantine, undo, and the end of one."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.acid import IDS_1_TO_3, INSERTS, MINOR_3, NOON, TABLE, build
from support.deployment import Deployment
from support.quarantined import in_quarantine, visible
from support.versioned import BUCKET, kept_bucket
from support.versioned import TABLE as S3_TABLE
from support.waiting import wait_for
from tidegate.cleaning.quarantine import FOLDER
from tidegate.cli import app
from tidegate.events import (
    CleaningReleased,
    LockReleased,
    ReleaseReason,
    TaskIssued,
    VacuumFinished,
)
from tidegate.events.wire import Wire, command_of
from tidegate.monitoring.catalog import DEPLOYMENT_METRICS
from tidegate.monitoring.metrics import Metrics
from tidegate.ops.monitor import DeploymentMonitor
from tidegate.service.settings import Settings

pytestmark = [pytest.mark.kafka]

SHORT = "hive.default.short"
SETTINGS = f"""
[[cleaning.rules]]
tables = "{SHORT}"
mode = "quarantine"
keep = 0
"""
AFTER_MINOR = {**dict.fromkeys(INSERTS, 9), MINOR_3: 27}


def vacuum(location: Path | str, table: str) -> VacuumFinished:
    return VacuumFinished.model_validate(
        {
            "table": table,
            "location": str(location),
            "occurred_at": NOON,
            "source": "compactor",
            "kind": "minor",
            "directories": (MINOR_3,),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": IDS_1_TO_3.replace("default.table_txn_001", table[5:]),
            "own_lock_id": 1,
            "locks": [{"lock_id": 1}, {"lock_id": 2}],
        }
    )


def released(table: str, lock: int, reason: ReleaseReason) -> LockReleased:
    return LockReleased(
        table=table, location="/any", occurred_at=NOON, source="bridge", lock_id=lock, reason=reason
    )


def test_a_hold_an_expired_lock_quarantine_undo_and_the_end_of_one(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = deployment.settings_file("people", {})
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("TIDEGATE_CONFIG", str(config))
    long, short = build(tmp_path / "long", AFTER_MINOR), build(tmp_path / "short", AFTER_MINOR)
    publisher = deployment.publisher()
    deployment.run("coordinator")
    deployment.run("cleaner")

    why = ("--reason", "a report is stuck", "--requested-by", "mara")
    held = ask("hold", "add", TABLE, *why, "--new")
    assert (held["kind"], held["event"]["requested_by"]) == ("CleaningHeld", "mara")
    for location, table in ((long, TABLE), (short, SHORT)):
        publisher.publish(
            vacuum(location, table),
            released(table, 1, ReleaseReason.COMMITTED),
            released(table, 2, ReleaseReason.EXPIRED),
        )
    wait_for("the vacuum of the held table", lambda: f"{TABLE}  minor" in run("waiting").stdout)
    assert run("waiting").stdout.count("by mara (unsigned): a report") == 1
    assert "mara" in run("hold", "list").stdout
    metrics = Metrics(DEPLOYMENT_METRICS)
    monitor = DeploymentMonitor(Settings.load(config), metrics)
    monitor.poll_waiting()
    assert metrics.registry.get_sample_value("tidegate_held_tables", {"tables": "*"}) == 1
    assert "held by mara (unsigned): a report is stuck;" in run("explain", TABLE).stdout
    assert visible(long) == sorted(AFTER_MINOR)

    removed = ask("hold", "remove", TABLE, "--reason", "it is done")
    assert (removed["kind"], removed["event"]["released"]) == ("CleaningHoldRemoved", 1)
    wait_for("the quarantine", lambda: in_quarantine(long) == list(INSERTS))
    carried = (command_of(task, Wire()) for task in tasks(deployment))
    (command,) = (
        cleaning.model_dump(mode="json")
        for cleaning in carried
        if isinstance(cleaning, CleaningReleased) and cleaning.table == TABLE
    )
    assert command["after_expiry"]
    cleaned = wait_for("the outcome", lambda: outcome(deployment, command["event_id"]))
    assert (cleaned["mode"], cleaned["keep_ms"]) == ("quarantine", 72 * 3_600_000)

    monitor.poll_waiting()
    kept = metrics.registry.get_sample_value("tidegate_quarantine_directories", {"tables": "*"})
    assert kept is not None
    assert kept >= len(INSERTS)
    assert "3 directories in quarantine until" in run("waiting").stdout
    assert f"did you mean {TABLE}" in str(run("undo", TABLE[:-1], "--reason", "x").exception)
    planned = ask("undo", TABLE, "--reason", "it was alive")
    assert (planned["kind"], planned["event"]["directories"]) == (
        "CleaningUndoPlanned",
        list(INSERTS),
    )
    assert visible(long) == [MINOR_3]
    undone = ask("undo", command["event_id"][:12], "--reason", "it was alive", "--execute")
    assert undone["kind"] == "CleaningUndone"
    assert visible(long) == sorted(AFTER_MINOR)
    again = run("undo", command["event_id"], "--reason", "twice", "--execute")
    assert "no quarantined cleaning" in str(again.exception), again.output
    about = {key: command[key] for key in ("table", "location", "partition")}
    publisher.request_undo(  # not by the command, which finds nothing to undo any more
        **about, cleaning=command["event_id"], requested_by="mara", reason="twice", plan_only=False
    )
    (refused,) = wait_for("it", lambda: events(deployment, "outcomes", "CleaningUndoRefused"))
    assert refused["reason"] == "not-quarantined"

    wait_for("the end of the short quarantine", lambda: visible(short) == [MINOR_3])
    assert not (short / FOLDER).exists()
    (end,) = wait_for("its outcome", lambda: events(deployment, "outcomes", "QuarantineRemoved"))
    assert (end["table"], end["directories"]) == (SHORT, list(INSERTS))


def test_on_s3_directories_hide_behind_delete_markers_come_back_and_go(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("TIDEGATE_CONFIG", str(tmp_path / "cleaner.toml"))
    with kept_bucket("moto") as kept, ExitStack() as stack:
        settings = f"""{SETTINGS}
[[cleaning.rules]]
tables = "*"
mode = "quarantine"
[warehouse.stores."s3://{BUCKET}"]
endpoint = "{kept.server.endpoint}"
"""
        deployment = stack.enter_context(
            Deployment(
                bootstrap_servers,
                topic_prefix,
                tmp_path,
                settings=settings,
                roots=[f"s3://{BUCKET}/wh"],
            )
        )
        deployment.run("coordinator")
        deployment.run("cleaner")
        publisher = deployment.publisher()

        def clean(table: str) -> None:
            kept.build(AFTER_MINOR)
            ended = (released(table, lock, ReleaseReason.COMMITTED) for lock in (1, 2))
            publisher.publish(vacuum(S3_TABLE, table), *ended)

        clean(TABLE)
        before = kept.files()
        wait_for("the quarantine", lambda: kept.visible() == [MINOR_3])
        (cleaned,) = wait_for("it", lambda: events(deployment, "outcomes", "DirectoriesCleaned"))
        assert (cleaned["mode"], cleaned["directories"]) == ("quarantine", list(INSERTS))
        undone = ask("undo", cleaned["caused_by"], "--reason", "it was alive", "--execute")
        assert undone["kind"] == "CleaningUndone"
        assert kept.files() == before

        clean(SHORT)
        (end,) = wait_for("its end", lambda: events(deployment, "outcomes", "QuarantineRemoved"))
        assert (end["table"], end["directories"]) == (SHORT, list(INSERTS))
        assert kept.visible() == [MINOR_3]
        assert {key.partition("/")[0] for key, _, _ in kept.versions() if key[0] != "."} == {
            MINOR_3
        }


def tasks(deployment: Deployment) -> list[TaskIssued]:
    return [task for task in deployment.events("tasks") if isinstance(task, TaskIssued)]


def run(*line: str) -> Result:
    return CliRunner().invoke(app, list(line))


def ask(*line: str) -> dict[str, Any]:
    """Publish a request, wait for its answer; give the last line, which is the answer."""
    result = run(*line, "--wait", "--json", "--timeout", "2m")
    assert result.exit_code == 0, (result.output, result.exception)
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def events(deployment: Deployment, topic: str, kind: str) -> list[dict[str, Any]]:
    found = [event for event in deployment.events(topic) if type(event).__name__ == kind]
    return [row.model_dump(mode="json") for row in found]


def outcome(deployment: Deployment, command: str) -> dict[str, Any] | None:
    found = events(deployment, "outcomes", "DirectoriesCleaned")
    return next((row for row in found if row["caused_by"] == command), None)
