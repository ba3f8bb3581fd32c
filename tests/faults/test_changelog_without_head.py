"""A changelog that lost its first records to anything but compaction."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from support.changelogs import OpenPartition
from support.deployment import Deployment
from support.deployment_events import vacuum
from support.kafka import create_topic, delete_first_records
from support.kafka_node import KafkaNode
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.errors import OffsetGapError, StopService
from tidegate.events.topics import CHANGELOG
from tidegate.ops.topics import create_topics
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = pytest.mark.kafka


@pytest.fixture
def bus(deployment: Deployment) -> Iterator[KafkaBus]:
    bus = KafkaBus(deployment.connection)
    yield bus
    bus.close()


def test_a_coordinator_does_not_start_on_what_is_left(
    deployment: Deployment, bus: KafkaBus
) -> None:
    topic = CHANGELOG.name(deployment.prefix)
    deployment.publisher().publish(vacuum(7, 8))
    loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)
    wait_for("the vacuum", lambda: loop.step(0.1))
    loop.close()
    delete_first_records(deployment.servers, topic, 3)

    loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)
    remedy = f"--delete --topic {topic} && tidegate topics create && tidegate replay group"
    with pytest.raises(OffsetGapError, match=rf"begins at offset 3.*{remedy}"):
        wait_for("the refusal", lambda: loop.step(0.1))
    loop.close()

    settings = str(deployment.settings_file("people", {}))
    shown = CliRunner().invoke(app, ["waiting", "-c", settings])
    assert isinstance(shown.exception, StopService)
    assert "begins at offset 3" in str(shown.exception)
    status = CliRunner().invoke(app, ["status", "-c", settings])
    assert status.exit_code == 1
    assert "begins at offset 3" in status.output
    assert "no vacuum waits" not in status.output
    assert "coordinator is not running" in status.output  # and the rest


def test_rows_that_were_deleted_are_not_called_none(deployment: Deployment, bus: KafkaBus) -> None:
    topic = CHANGELOG.name(deployment.prefix)
    deployment.publisher().publish(vacuum(7, 8))
    settings = str(deployment.settings_file("people", {}))
    assert "no vacuum waits" in CliRunner().invoke(app, ["status", "-c", settings]).output, "unread"
    loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)
    wait_for("the vacuum", lambda: loop.step(0.1))
    loop.close()
    admin = AdminClient({**deployment.connection, "log_level": 0})
    [gone] = admin.delete_topics([topic]).values()
    gone.result(60)
    wait_for("its deletion", lambda: create_topics(deployment.connection, deployment.topics)[topic])

    shown = CliRunner().invoke(app, ["waiting", "-c", settings])
    assert isinstance(shown.exception, StopService)
    assert "is empty, but" in str(shown.exception)
    assert "the rows are lost. See: tidegate doctor" in str(shown.exception)
    status = CliRunner().invoke(app, ["status", "-c", settings])
    assert status.exit_code == 1
    assert "the rows are lost" in status.output
    assert "no vacuum waits" not in status.output


COMPACTS_AT_ONCE = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "0"}
SMALL_SEGMENTS = {
    "cleanup_policy": "compact",
    "segment_bytes": str(2**20),
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "0",
}


@pytest.mark.slow
def test_compaction_alone_never_moves_the_first_offset(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("compacted")
    with KafkaNode(folder, COMPACTS_AT_ONCE) as broker:
        create_topic(broker.bootstrap_servers, "rows", 1, **SMALL_SEGMENTS)
        bus = KafkaBus({"bootstrap.servers": broker.bootstrap_servers})
        OpenPartition(bus, "rows")  # the first record: its signature, which the next owner erases
        rows = OpenPartition(bus, "rows")

        def is_compacted() -> bool:
            rows.write([(b"a", os.urandom(400_000))])
            first = next(iter(bus.log(Partition("rows", 0))))
            return first.offset > 0

        wait_for("the removal of the first records", is_compacted)
        marks = bus.watermarks([Partition("rows", 0)])
        bus.close()

    assert marks[Partition("rows", 0)].first == 0
