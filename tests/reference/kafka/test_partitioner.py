"""Where a message lands, by Kafka's own Java client and by ours: they must agree."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.kafka import create_topic
from support.murmur2 import MURMUR2
from tidegate.compute.java import find_java
from tidegate.embedded.broker import KAFKA
from tidegate.embedded.jars import resolve
from tidegate.publisher import ConfirmedProducer, Message, Publisher

PARTITIONS = 7
NAMES = ("orders", "bestellungen_größe", "заказы", "注文", "ordres-naïfs", "orders 🚢", "a" * 90)
TABLES = [
    *(f"lake.sales.{name}_{number}" for name in NAMES for number in range(60)),
    # every remainder of four bytes, by which murmur2 takes its last step
    *("x" * length for length in range(1, 20)),
    *MURMUR2,
]

pytestmark = pytest.mark.judge


def java(keys: Sequence[str]) -> list[tuple[int, int]]:
    """The hash and the partition of each key, by Kafka's producer."""
    program = find_java()
    modules = subprocess.run(
        [program, "--list-modules"], check=True, capture_output=True, text=True
    ).stdout
    if "jdk.compiler" not in modules:
        pytest.skip("a full JDK is needed: it compiles the judge")
    class_path = ":".join(map(str, resolve(KAFKA)))
    source = Path(__file__).parent / "Partition.java"
    command = [str(program), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    answer = subprocess.run(
        [*command, "-cp", class_path, str(source), str(PARTITIONS)],
        input="\n".join(keys),
        check=True,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    ).stdout
    shown = [line.split() for line in answer.splitlines()]
    return [(int(murmur2), int(partition)) for murmur2, partition in shown]


@pytest.mark.kafka
def test_our_producer_puts_every_key_where_kafkas_java_producer_does(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.keys", PARTITIONS)
    producer = ConfirmedProducer({"bootstrap.servers": bootstrap_servers})

    receipts = producer.send([Message(f"{topic_prefix}.keys", t.encode(), b"") for t in TABLES])
    producer.close()

    expected = [partition for _, partition in java(TABLES)]
    assert [receipt.partition for receipt in receipts] == expected
    assert set(expected) == set(range(PARTITIONS))


@pytest.mark.kafka
def test_the_publisher_puts_a_table_where_a_java_writer_puts_its_identity(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.commits", PARTITIONS)
    said = ["Lake.Sales.Orders", "lake.sales.größe", "lake.sales.ЗАКАЗЫ", "lake.注文.a", "l.s.x"]
    identities = [
        "lake.sales.orders",
        "lake.sales.größe",
        "lake.sales.заказы",
        "lake.注文.a",
        "l.s.x",
    ]

    with Publisher(bootstrap_servers, source="ingest", prefix=topic_prefix) as publisher:
        receipts = [
            publisher.commit(table=table, location="/lake/orders", instant="20260301100100000")
            for table in said
        ]

    expected = [partition for _, partition in java(identities)]
    assert [receipt.partition for receipt in receipts] == expected


def test_the_hashes_that_the_doctor_knows_are_kafkas_own() -> None:
    assert [murmur2 for murmur2, _ in java(list(MURMUR2))] == list(MURMUR2.values())
