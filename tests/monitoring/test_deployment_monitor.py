"""The monitor of a deployment, on a real broker: what stands still is seen too."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.deployment import Deployment, end
from support.deployment_events import (
    awaiting,
    cleaned,
    completed,
    publish,
    rejected,
    restore_request,
    started,
    vacuum,
)
from support.deployment_events import released as command
from support.samples import NOON, ended, message, savepoint_request, task_of
from support.waiting import wait_for
from support.watching import webhook
from tidegate.errors import PermanentError
from tidegate.events import (
    Outcome,
    RestoreFailed,
    RestoreRequested,
    SavepointRejected,
    SavepointsChecked,
    TaskEnd,
)
from tidegate.events.reasons import Reason
from tidegate.monitoring.catalog import DEPLOYMENT_METRICS
from tidegate.monitoring.metrics import Metrics
from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.groups import Groups
from tidegate.ops.monitor import DeploymentMonitor
from tidegate.publisher import ConfirmedProducer
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.service.settings import Settings

pytestmark = pytest.mark.kafka


@pytest.fixture
def deployment(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path, partitions=2) as deployment:
        yield deployment


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(DEPLOYMENT_METRICS)


@pytest.fixture
def monitor(deployment: Deployment, metrics: Metrics) -> DeploymentMonitor:
    settings = Settings.load(deployment.settings_file("monitor", {}))
    return DeploymentMonitor(settings, metrics)


def refused(reason: str) -> SavepointRejected:
    request = savepoint_request(1)
    return SavepointRejected.about(
        request, reason=reason, message="no", source="test", occurred_at=request.occurred_at
    )


def test_outcomes_and_dead_letters_are_counted_from_the_start(
    deployment: Deployment, monitor: DeploymentMonitor, metrics: Metrics
) -> None:
    def seen(kind: str, reason: str) -> float | None:
        name, labels = "tidegate_outcomes_seen_total", {"kind": kind, "reason": reason}
        return metrics.registry.get_sample_value(name, labels)

    publish(deployment.servers, deployment.prefix, cleaned(command(vacuum(1))))
    monitor.poll()
    assert seen("DirectoriesCleaned", "") is None  # it was there before

    publish(deployment.servers, deployment.prefix, cleaned(command(vacuum(2))))
    publish(deployment.servers, deployment.prefix, refused(Reason.OUTSIDE_WAREHOUSE))
    publish(deployment.servers, deployment.prefix, refused("chosen by a stranger"))
    monitor.poll()
    monitor.poll()
    assert seen("DirectoriesCleaned", "") == 1
    assert seen("SavepointRejected", Reason.OUTSIDE_WAREHOUSE) == 1
    assert seen("SavepointRejected", "other") == 1  # no time series for what others choose
    assert (
        metrics.registry.get_sample_value("tidegate_dead_letters_seen_total", {"fault": "message"})
        == 0
    )


def test_a_service_that_does_not_run_is_seen_with_its_lag(
    deployment: Deployment, monitor: DeploymentMonitor, metrics: Metrics
) -> None:
    group = f"{deployment.prefix}.coordinator"

    def lag() -> float:
        return sum(
            sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == "kafka_consumergroup_lag" and sample.labels["consumergroup"] == group
        )

    def members() -> float | None:
        monitor.poll()
        labels = {"consumergroup": group}
        return metrics.registry.get_sample_value("kafka_consumergroup_members", labels)

    gate = deployment.run("coordinator")
    wait_for("the gate", lambda: members() == 1)
    connection = {"bootstrap.servers": deployment.servers}
    groups = Groups(connection)
    [member] = groups.members(group)
    assert member.startswith(f"{group}-")
    assert f"-{gate.pid} on " in member
    publish(deployment.servers, deployment.prefix, vacuum(1))
    wait_for("its work", lambda: deployment.events("tasks") == [] and members() and lag() == 0)
    end(gate)
    wait_for("its end", lambda: members() == 0)

    publish(deployment.servers, deployment.prefix, vacuum(2), vacuum(3))
    monitor.poll()
    assert lag() == 2


def test_what_waits_is_counted_by_pattern(deployment: Deployment, metrics: Metrics) -> None:
    file = deployment.settings_file("monitor", {})
    file.write_text(file.read_text() + '\n[monitoring]\ntables = ["lake.hr.*", "lake.*"]')
    monitor = DeploymentMonitor(Settings.load(file), metrics)

    def waiting(name: str, tables: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"tidegate_{name}", {"tables": tables, **labels})

    monitor.poll_waiting()
    assert waiting("waiting_vacuums", "lake.*") == 0
    assert waiting("oldest_waiting_vacuum_timestamp_seconds", "lake.*") is None

    deployment.run("coordinator")
    before = time.time()
    held = vacuum(2, 3, table="lake.hr.people", transactions=(9,))
    publish(deployment.servers, deployment.prefix, vacuum(1), held)

    def counted() -> bool:
        monitor.poll_waiting()
        both = [waiting("waiting_vacuums", pattern) for pattern in ("lake.hr.*", "lake.*")]
        return both == [1, 1]

    wait_for("both wait", counted)
    assert waiting("waiting_holds", "lake.hr.*", kind="lock") == 2
    assert waiting("waiting_holds", "lake.hr.*", kind="transaction") == 1
    oldest = waiting("oldest_waiting_vacuum_timestamp_seconds", "lake.hr.*")
    assert oldest is not None
    assert abs(oldest - before) < 60


def failed(request: RestoreRequested) -> Outcome:
    return RestoreFailed.about(
        request,
        savepoint=request.savepoint,
        restore_instant="20261121060000000",
        message="the disk is full",
        source="restorer",
        occurred_at=NOON,
    ).to(request)


def put_aside(deployment: Deployment, offset: int) -> None:
    """Write a dead letter, as the restorer does."""
    sent = message(restore_request())
    record = Record(
        Partition(sent.topic, 0), offset, sent.key, sent.value, sent.headers, 1_700_000_000_000
    )
    topic = f"{deployment.prefix}.dead-letters"
    producer = ConfirmedProducer({"bootstrap.servers": deployment.servers})
    producer.send([dead_letter(record, "restorer", PermanentError("no"), topic)])
    producer.close()


def test_what_needs_a_person_is_counted_also_from_before_the_start(
    deployment: Deployment, monitor: DeploymentMonitor, metrics: Metrics
) -> None:
    def counts() -> list[float | None]:
        monitor.poll()
        return [
            metrics.registry.get_sample_value("tidegate_pending_approvals"),
            *(
                metrics.registry.get_sample_value("tidegate_unfinished_restores", {"state": state})
                for state in ("running", "failed")
            ),
        ]

    running, waits, fails = (restore_request(f"r{n}", f"lake.sales.t{n}") for n in (1, 2, 3))
    soon = datetime.now(UTC) + timedelta(hours=1)
    refused = restore_request("r5", "lake.sales.t5")
    outcomes = [started(running), awaiting(waits, soon), started(fails), failed(fails)]
    outcomes += [started(refused), ended(task_of(refused), end=TaskEnd.DEAD_LETTERED)]
    publish(deployment.servers, deployment.prefix, *outcomes)
    assert counts() == [1, 1, 2]
    publish(deployment.servers, deployment.prefix, completed(refused))
    assert counts() == [1, 1, 1]
    again = restore_request("r4", "lake.sales.t4")
    publish(deployment.servers, deployment.prefix, awaiting(again, soon))
    assert counts() == [2, 1, 1]
    ends = [completed(running), rejected(waits), rejected(again), completed(fails)]
    publish(deployment.servers, deployment.prefix, *ends)
    assert counts() == [0, 0, 0]


def test_what_savepoints_pin_is_known_by_a_check_from_before_the_start(
    deployment: Deployment, monitor: DeploymentMonitor, metrics: Metrics
) -> None:
    fields = {"savepoints": 1, "duration_ms": 1, "pinned_files": 1, "pinned_bytes": 70}
    checked = SavepointsChecked.about(
        savepoint_request(1), source="savepoint-writer", occurred_at=NOON, oldest_at=NOON, **fields
    )
    publish(deployment.servers, deployment.prefix, checked)
    monitor.poll()

    pinned = metrics.registry.get_sample_value("tidegate_savepoint_pinned_bytes", {"tables": "*"})
    assert pinned == 70


def test_dead_letters_are_counted_until_they_are_resolved(
    deployment: Deployment, monitor: DeploymentMonitor, metrics: Metrics
) -> None:
    def count() -> float | None:
        monitor.poll_dead_letters()
        labels = {"fault": "message"}
        return metrics.registry.get_sample_value("tidegate_open_dead_letters", labels)

    assert count() == 0
    put_aside(deployment, 1)
    put_aside(deployment, 2)
    assert count() == 2
    with DeadLetterBox(Settings.load(deployment.settings_file("monitor", {}))) as box:
        newest = next(box.list(DeadLetterFilter()))
        box.discard([newest], "ana", datetime.now(UTC), "seen")
    assert count() == 1


def test_approvals_failures_and_dead_letters_are_sent_to_a_webhook_once(
    deployment: Deployment, metrics: Metrics
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    with webhook() as (port, posted):
        file = deployment.settings_file("monitor", {})
        more = f'\n[monitoring]\nnotify = ["json://127.0.0.1:{port}/tidegate"]'
        file.write_text(file.read_text() + more)
        monitor = DeploymentMonitor(Settings.load(file), metrics)
        publish(deployment.servers, deployment.prefix, awaiting(restore_request("old"), soon))
        monitor.poll()
        assert posted == []  # it was there before the monitor
        request = restore_request("new", "lake.sales.visits")
        publish(deployment.servers, deployment.prefix, awaiting(request, soon), completed(request))
        put_aside(deployment, 1)
        put_aside(deployment, 2)
        monitor.poll()
        monitor.poll()
    [text] = posted
    waits, dead = text.splitlines()
    assert waits.startswith("lake.sales.visits: RestoreAwaitingApproval: to 20261121041551845: ")
    assert waits.endswith("See: tidegate explain lake.sales.visits")
    assert dead == "2 new dead letters, fault: message. See: tidegate dead-letters list"


def test_what_was_not_seen_for_long_is_not_ready(deployment: Deployment, metrics: Metrics) -> None:
    monitor = DeploymentMonitor(Settings.load(deployment.settings_file("monitor", {})), metrics)
    stop = threading.Event()
    assert monitor.not_ready(1000.0) == ["the deployment was not polled yet"]

    runs = threading.Thread(target=monitor.run, args=(stop, 0.1), daemon=True)
    runs.start()
    wait_for("a poll", lambda: not monitor.not_ready(1000.0))
    stop.set()
    runs.join()

    assert "last polled" in monitor.not_ready(0.0)[0]  # four times no seconds ago
    assert monitor.not_live() == []
