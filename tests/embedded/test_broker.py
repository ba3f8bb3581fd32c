from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from support.kafka import create_topic
from support.kafka_node import KafkaNode
from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.broker import new_cluster_id
from tidegate.embedded.process import free_ports
from tidegate.errors import ConfigError

pytestmark = [pytest.mark.kafka, pytest.mark.full]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        yield broker


def write(servers: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    producer.produce("words", value)
    assert producer.flush(30) == 0


def read(servers: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition("words", 0, 0)])
    messages = consumer.consume(count, 30)
    consumer.close()
    return [message.value() for message in messages]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_what_was_written_is_there_after_a_stop_and_after_a_crash(broker: EmbeddedBroker) -> None:
    servers = broker.bootstrap_servers
    create_topic(servers, "words")
    write(servers, b"before the stop")

    broker.stop()
    assert broker.pid is None
    broker.start()
    write(servers, b"before the crash")

    broker.kill()
    broker.start()
    write(servers, b"after both")

    assert broker.bootstrap_servers == servers
    assert read(servers, 3) == [b"before the stop", b"before the crash", b"after both"]


def test_a_broker_dies_with_the_process_that_started_it_but_not_with_its_thread(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, threading, time; from pathlib import Path;"
        "from tidegate.embedded import EmbeddedBroker;"
        "broker = EmbeddedBroker(Path(sys.argv[1]));"
        "starter = threading.Thread(target=broker.start); starter.start(); starter.join();"
        "time.sleep(1); print(broker.pid or 0, flush=True); time.sleep(60 if broker.pid else 0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "kafka")], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert pid > 0
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)

    assert gone_within(pid, 10)


def test_a_port_is_kept_by_every_start(tmp_path: Path) -> None:
    port, _ = free_ports()
    for _ in range(2):
        with EmbeddedBroker(tmp_path / "kafka", port=port) as broker:
            assert broker.bootstrap_servers == f"127.0.0.1:{port}"

    with EmbeddedBroker(tmp_path / "kafka", port=port):
        taken = EmbeddedBroker(tmp_path / "other", port=port)
        with pytest.raises(ConfigError, match="Address already in use"):
            taken.start()


def test_a_stop_ends_the_process_and_may_be_repeated(broker: EmbeddedBroker) -> None:
    pid = broker.pid
    assert pid is not None
    assert broker.start() is broker
    assert broker.pid == pid

    broker.stop()
    broker.stop()

    assert not is_alive(pid)
    assert broker.pid is None


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    port, controller = free_ports()
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    broker = KafkaNode(tmp_path, {"listeners": listeners, "num.network.threads": "none"})

    with pytest.raises(ConfigError, match=r"num\.network\.threads"):
        broker.start()

    assert broker.pid is None


def test_a_broker_whose_port_is_taken_says_so_with_its_log(broker: EmbeddedBroker) -> None:
    taken = broker.bootstrap_servers
    controller, _ = free_ports()
    listeners = f"PLAINTEXT://{taken},CONTROLLER://127.0.0.1:{controller}"
    second = KafkaNode(broker.folder / "second", {"listeners": listeners})

    with pytest.raises(ConfigError, match="Address already in use"):
        second.start()

    assert broker.start().pid is not None


def test_a_broker_has_no_address_before_its_first_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="before its first start"):
        _ = EmbeddedBroker(tmp_path).bootstrap_servers


def test_a_cluster_id_never_looks_like_an_option() -> None:
    ids = [new_cluster_id() for _ in range(2000)]

    assert {len(made) for made in ids} == {22}
    assert not [made for made in ids if made.startswith("-")]


def test_other_users_may_not_read_the_data_the_settings_or_the_log(broker: EmbeddedBroker) -> None:
    create_topic(broker.bootstrap_servers, "words", 1)
    write(broker.bootstrap_servers, b"secret")

    paths = [broker.folder, *broker.folder.rglob("*")]

    assert any(path.suffix == ".log" and path.parent.name == "words-0" for path in paths)
    assert [path for path in paths if path.exists() and path.stat().st_mode & 0o077] == []
