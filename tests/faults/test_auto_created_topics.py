"""A broker that creates topics by itself, as Kafka does by default."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from support.kafka_node import KafkaNode
from support.samples import commit
from support.waiting import wait_for
from tidegate.errors import ConfigError, DeliveryError
from tidegate.events.topics import ALL_TOPICS
from tidegate.publisher import Publisher
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.runner import run_services
from tidegate.service.settings import Settings

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("auto")
    with KafkaNode(folder, {"auto.create.topics.enable": "true"}) as broker:
        yield broker.bootstrap_servers


def topics(servers: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return set(admin.list_topics(timeout=60).topics)


def test_no_client_of_ours_makes_the_broker_create_a_topic(servers: str) -> None:
    config = {"delivery.timeout.ms": 3000}
    with (
        Publisher(servers, source="test", prefix="ours", config=config) as publisher,
        pytest.raises(DeliveryError),
    ):
        publisher.publish(commit(0))
    bus = KafkaBus({"bootstrap.servers": servers})
    with pytest.raises(ConfigError, match=r"ours\.requests"):
        bus.partitions("ours.requests")
    bus.close()

    assert {topic for topic in topics(servers) if topic.startswith("ours")} == set()


@pytest.mark.parametrize("service", ["coordinator", "cleaner"])
def test_a_service_refuses_topics_that_the_broker_created_by_itself(
    servers: str, service: str
) -> None:
    names = {topic.name("theirs") for topic in ALL_TOPICS}
    foreign = Producer({"bootstrap.servers": servers, "log_level": 0})
    for name in names:
        foreign.produce(name, b"")
    assert foreign.flush(30) == 0
    wait_for("the topics", lambda: names <= topics(servers))
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap.servers": servers},
            "topics": {"prefix": "theirs"},
            "warehouse": {"roots": ["/lake"]},
        }
    )

    with pytest.raises(ConfigError, match=r"message\.timestamp\.type = CreateTime, declared: Log"):
        run_services([service], settings, threading.Event())
