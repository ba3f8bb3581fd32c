"""A bridge's group, and its stored state: in the metadata of the group's committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tidegate.events.topics import COMMITS, VACUUMS
from tidegate.hive_bridge.baseline import Baseline
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import Config
from tidegate.runtime.kafka.subscription import split_metadata

_SECONDS: Final = 30.0


METASTORE_BRIDGE: Final = "metastore-bridge"
HUDI_BRIDGE: Final = "hudi-bridge"
READS: Final = {METASTORE_BRIDGE: VACUUMS, HUDI_BRIDGE: COMMITS}
"""The topic that each bridge reads as a member of its group."""
STALE: Final = timedelta(minutes=5)
"""A bridge that has not polled for so long is reported: it commits the time once a minute."""


def group_of(prefix: str, service: str = METASTORE_BRIDGE) -> str:
    """The consumer group of a bridge or another service."""
    name = f"bridges.{service.removesuffix('-bridge')}" if service in READS else service
    return f"{prefix}.{name}"


def with_time(seconds: int, text: str) -> str:
    """Text for the metadata with the time of the last poll, in seconds since the epoch; 0: none."""
    return f"{seconds} {text}" if seconds else text


def split_time(text: str) -> tuple[int, str]:
    """The inverse of `with_time`."""
    head, _, rest = text.partition(" ")
    return (int(head), rest) if head.isdecimal() else (0, text)


def last_poll(
    bridge: str, prefix: str, committed: Mapping[Partition, TopicPartition]
) -> datetime | None:
    """When the slowest member of a bridge last polled what it watches; None: it has not yet.

    Args:
        bridge: Its name.
        prefix: The prefix of the deployment's topics.
        committed: What its group has committed of the topic that it reads.
    """
    watched = {leading_partition(prefix)} if bridge == METASTORE_BRIDGE else committed.keys()
    stored = [split_metadata(committed[part].metadata)[1] for part in committed.keys() & watched]
    seconds = min((split_time(text)[0] for text in stored), default=0)
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def leading_partition(prefix: str) -> Partition:
    """The partition whose owner is the active bridge."""
    return Partition(VACUUMS.name(prefix), 0)


def stored_position(config: Config, prefix: str) -> TopicPartition | None:
    """The committed offset with its metadata, or None if no bridge has run yet.

    Raises:
        TransientError: the broker did not answer.
    """
    part = leading_partition(prefix)
    return KafkaMetadata.for_people(config).committed(group_of(prefix), [part]).get(part)


def baseline_in(position: TopicPartition | None) -> Baseline:
    """What a position has of the Metastore.

    Raises:
        MetastoreReplacedError: it can't be read.
    """
    text = split_metadata(position.metadata)[1] if position else ""
    return Baseline.parse(split_time(text)[1])


def store(config: Config, prefix: str, position: TopicPartition, baseline: Baseline) -> None:
    """Replace what is stored of the Metastore, while no bridge runs.

    Raises:
        TransientError: the broker did not answer, or a bridge was started meanwhile.
    """
    topic, number = leading_partition(prefix)
    metadata = split_metadata(position.metadata)[0] + baseline.dumps()
    asking = Consumer({**config, "group.id": group_of(prefix), "enable.auto.commit": False})
    try:
        with translate_kafka_errors(f"group {group_of(prefix)}"):
            at = TopicPartition(topic, number, position.offset, metadata=metadata)
            asking.commit(offsets=[at], asynchronous=False)
    finally:
        asking.close()
