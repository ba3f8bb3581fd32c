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
from typing import TYPE_CHECKING, cast

import docker
import pytest
import yaml
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic
from docker.errors import DockerException
from requests.exceptions import RequestException
from testcontainers.core.container import DockerContainer

from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.process import free_ports

if TYPE_CHECKING:
    from support.deployment import Deployment

COMPOSE = Path(__file__).parents[2] / "compose" / "compose.yaml"
_PATIENCE = 60.0
SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Kafka, shared by all tests: take your names from `topic_prefix`."""
    if not os.environ.get(SERVERS_VARIABLE) and docker_answers():
        with container() as servers:
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


@pytest.fixture
def deployment(
    request: pytest.FixtureRequest, bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> Iterator[Deployment]:
    """The topics of a deployment of the test's own, by the module's SETTINGS and PARTITIONS."""
    from support.deployment import Deployment  # noqa: PLC0415 - it imports every service

    settings: str = getattr(request.module, "SETTINGS", "")
    partitions: int = getattr(request.module, "PARTITIONS", 1)
    names = bootstrap_servers, topic_prefix, tmp_path
    with Deployment(*names, partitions=partitions, settings=settings) as made:
        yield made


@contextmanager
def bootstrap(folder: Path) -> Generator[str]:
    """The address of KAFKA_BOOTSTRAP_SERVERS, else of an embedded broker, with its data there."""
    if named := os.environ.get(SERVERS_VARIABLE):
        yield named
        return
    with EmbeddedBroker(folder) as broker:
        yield broker.bootstrap_servers


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
    done.result(60)


def delete_first_records(servers: str, topic: str, end: int) -> None:
    """Delete the records before an offset of partition 0; Kafka refuses that of a topic that is
    only compacted, so for this moment the topic is not."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def set_policy(value: str) -> None:
        entry = ConfigEntry("cleanup.policy", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        [done] = admin.incremental_alter_configs([resource]).values()
        done.result(60)

    set_policy("compact,delete")
    [deleted] = admin.delete_records([TopicPartition(topic, 0, end)]).values()
    deleted.result(60)
    set_policy("compact")


def warm_up(servers: str) -> None:
    """Write one record idempotently: the broker's first takes a second, no test should pay it."""
    topic = f"warm-up-{uuid.uuid4().hex[:8]}"
    create_topic(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, b"")
    assert producer.flush(30) == 0


@contextmanager
def container() -> Generator[str]:
    """The Kafka of compose/compose.yaml on a port of its own, without a volume; its address."""
    service = yaml.safe_load(COMPOSE.read_text())["services"]["kafka"]
    port = str(free_ports()[0])
    # the broker reaches itself by the service's name, as transactions need
    kafka = DockerContainer(service["image"], hostname="kafka")
    # docker-py takes an address with the port, which testcontainers' types don't know
    kafka.ports = cast("dict[str, int | None]", {"9092": ("127.0.0.1", port)})
    for name, value in service["environment"].items():
        kafka.with_env(name, value.replace("${TIDEGATE_KAFKA_PORT:-9092}", port))
    with kafka:
        servers = f"127.0.0.1:{port}"
        _until_it_answers(servers, kafka)
        yield servers


def _until_it_answers(servers: str, kafka: DockerContainer) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    try:
        admin.list_topics(timeout=_PATIENCE)
    except KafkaException as error:
        raise AssertionError(b"\n".join(kafka.get_logs()).decode()) from error
