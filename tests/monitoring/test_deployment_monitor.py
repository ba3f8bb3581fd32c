"""The monitor of a deployment, on a real broker: what stands still is seen too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from support.deployment import Deployment, end
from support.deployment_events import cleaned, publish, vacuum
from support.deployment_events import released as command
from support.samples import savepoint_request
from support.waiting import wait_for
from tidegate.events import SavepointRejected
from tidegate.events.reasons import Reason
from tidegate.monitoring.catalog import DEPLOYMENT_METRICS
from tidegate.monitoring.metrics import Metrics
from tidegate.ops.groups import Groups
from tidegate.ops.monitor import DeploymentMonitor, MonitorHealth
from tidegate.runtime.kafka.metadata import KafkaMetadata
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
    groups = Groups(AdminClient({**connection}), KafkaMetadata(connection))
    [member] = groups.members(group)
    assert member.startswith(f"{group}-")
    assert f"-{gate.pid} on " in member
    publish(deployment.servers, deployment.prefix, vacuum(1))
    wait_for("its work", lambda: deployment.events("commands") == [] and members() and lag() == 0)
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


def test_what_was_not_seen_for_long_is_not_ready() -> None:
    health = MonitorHealth(interval=0.0)
    assert health.not_ready() == ["the deployment was not polled yet"]
    health.polled()
    assert "last polled" in health.not_ready()[0]  # four times no seconds ago
    assert health.not_live() == []
    patient = MonitorHealth(interval=1000.0)
    patient.polled()
    assert patient.not_ready() == []
