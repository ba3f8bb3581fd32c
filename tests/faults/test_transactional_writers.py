"""On a real broker: writers with transactions, as Flink's, leave markers and aborted records.

A topic then ends with offsets that hold no record. Whatever reads to the end, ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support.deployment import Deployment, end
from support.samples import commit, message, release, savepoint_request
from support.waiting import wait_for
from tidegate.embedded.process import Child
from tidegate.events import Event
from tidegate.monitoring.catalog import DEPLOYMENT_METRICS
from tidegate.monitoring.metrics import Metrics
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.ops.monitor import DeploymentMonitor
from tidegate.ops.replay.events import plan_events
from tidegate.ops.replay.group import plan_reset
from tidegate.ops.status import read_status
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.catalogue import NAMES, inputs_of
from tidegate.service.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
INPUTS = sorted({topic.suffix for service in NAMES for topic in inputs_of(service)})


@pytest.fixture
def deployment(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path) as deployment:
        yield deployment


@pytest.fixture
def settings(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    return Settings.load(deployment.settings_file("people", {}))


@contextmanager
def transaction(deployment: Deployment, name: str = "flink") -> Iterator[Producer]:
    """A transaction that the block commits or aborts; left open, it ends with the next one."""
    producer = Producer(
        {**deployment.connection, "transactional.id": f"{deployment.prefix}-{name}", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer


def send(deployment: Deployment, producer: Producer, events: Sequence[Event]) -> None:
    for event in events:
        sent = message(event, deployment.prefix)
        producer.produce(sent.topic, sent.value, sent.key, headers=list(sent.headers))
    assert producer.flush(30) == 0


def leave_markers(deployment: Deployment) -> None:
    """Every input ends with a committed event, its marker, an aborted record and its marker."""
    with transaction(deployment) as producer:
        send(deployment, producer, [commit(1), release(1), savepoint_request(1)])
        producer.commit_transaction(30)
    with transaction(deployment) as producer:
        for suffix in INPUTS:
            for _ in range(3):
                producer.produce(f"{deployment.prefix}.{suffix}", b"never", b"seen")
        assert producer.flush(30) == 0
        producer.abort_transaction(30)


def lags(settings: Settings) -> dict[str, int]:
    now = datetime.now(UTC)
    return {
        service["service"]: service["lag"]
        for service in read_status(settings, now - timedelta(hours=1), now)["services"]
    }


def read_everything(deployment: Deployment, settings: Settings) -> list[Child]:
    running = [deployment.run(name) for name in NAMES]
    wait_for("no service has any lag", lambda: not any(lags(settings).values()))
    return running


def test_services_have_no_lag_behind_markers_and_no_tool_shows_any(
    deployment: Deployment, settings: Settings
) -> None:
    leave_markers(deployment)
    running = read_everything(deployment, settings)
    metrics = Metrics(DEPLOYMENT_METRICS)
    DeploymentMonitor(settings, metrics).poll()
    shown = [
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "kafka_consumergroup_lag"
    ]
    assert shown
    assert set(shown) == {0}

    leave_markers(deployment)  # also when they were idle
    wait_for("no lag again", lambda: not any(lags(settings).values()))
    for child in running:
        end(child)
    with closing(KafkaBus(settings.connection())) as bus:
        for name in NAMES:
            replay = plan_reset(bus, settings, name, datetime.now(UTC))
            assert replay.records == 0, name


def test_services_start_again_behind_markers(deployment: Deployment, settings: Settings) -> None:
    for _ in range(2):
        leave_markers(deployment)
        for child in read_everything(deployment, settings):
            end(child)
            assert child.exit_code == 0, child.log.read_text()[-3000:]


def test_what_reads_to_the_end_ends_at_markers_and_before_an_open_transaction(
    deployment: Deployment, settings: Settings
) -> None:
    leave_markers(deployment)
    bus = KafkaBus(deployment.connection)
    log = EventLog.of(settings)
    where = Partition(f"{deployment.prefix}.requests", 0)
    began = time.monotonic()
    with transaction(deployment, "open") as producer:
        send(deployment, producer, [savepoint_request(2), commit(2)])
        for _ in range(2):
            assert [record.offset for record in bus.log(where)] == [0]
            assert len(list(bus.read(bus.spans(where.topic)))) == 1
            assert list(log.read()) == []
        spans = bus.spans(f"{deployment.prefix}.commits")
        found = plan_events(bus, settings, spans, EventFilter(), 1)
        assert found.events == 1
        assert hidden(settings, where) == 1
        producer.commit_transaction(30)
    # the broker marks the partitions a moment after it has committed
    wait_for("the committed record", lambda: len(list(bus.log(where))) == 2)
    assert hidden(settings, where) == 0
    assert time.monotonic() - began < 20
    bus.close()


def hidden(settings: Settings, where: Partition) -> float | None:
    """What the monitor shows of a partition."""
    metrics = Metrics(DEPLOYMENT_METRICS)
    DeploymentMonitor(settings, metrics).poll()
    labels = {"topic": where.topic, "partition": str(where.number)}
    return metrics.registry.get_sample_value("tidegate_hidden_offsets", labels)
