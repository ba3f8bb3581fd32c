"""One Kafka for the whole test session, and names of its own for every test.

KAFKA_BOOTSTRAP_SERVERS wins; then Docker, if an engine answers; then the embedded broker.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from docker.errors import DockerException
from requests.exceptions import RequestException
from testcontainers.community.kafka import KafkaContainer

from tidegate.local.embedded.bootstrap import SERVERS_VARIABLE, bootstrap

_IMAGE = "confluentinc/cp-kafka:8.0.0"


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Kafka, shared by all tests: take your names from `topic_prefix`."""
    if not os.environ.get(SERVERS_VARIABLE) and docker_answers():
        with _container() as servers:
            warm_up(servers)
            yield servers
        return
    with bootstrap(tmp_path_factory.mktemp("kafka")) as servers:
        warm_up(servers)
        yield servers


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A prefix for topics and groups that no other test, and no other run, has."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:40].strip("-")
    return f"{test}-{uuid.uuid4().hex[:8]}"


def docker_answers() -> bool:
    """Whether there is a Docker engine; without one the answer takes a few milliseconds."""
    # docker-py leaks a socket where nothing listens, so ask it only where an engine may be
    if not os.environ.get("DOCKER_HOST") and not Path("/var/run/docker.sock").exists():
        return False
    try:
        # with a version named nothing is asked yet, so there is always a client to close
        client = docker.from_env(timeout=2, version="1.41")
    except (DockerException, RequestException):
        return False
    try:
        return bool(client.ping())
    except (DockerException, RequestException):
        return False
    finally:
        client.close()


def create_topic(servers: str, topic: str, partitions: int = 1, **settings: str) -> None:
    """Create a topic, with underscores for the dots of its settings' names."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    [done] = admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values()
    done.result(30)


def warm_up(servers: str) -> None:
    """Write one record idempotently: the broker's first takes a second, no test should pay it."""
    topic = f"warm-up-{uuid.uuid4().hex[:8]}"
    create_topic(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, b"")
    assert producer.flush(30) == 0


@contextmanager
def _container() -> Generator[str]:
    kafka = KafkaContainer(_IMAGE).with_kraft()
    kafka.with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
    kafka.with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
    kafka.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    kafka.with_env("KAFKA_OFFSETS_RETENTION_MINUTES", "43200")
    kafka.with_env("KAFKA_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS", "500")
    kafka.with_env("KAFKA_GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS", "500")
    with kafka:
        yield kafka.get_bootstrap_server()
