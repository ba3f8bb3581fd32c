"""A bridge's stored state: in the metadata of its group's committed offset of one partition."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tidegate.events.topics import VACUUMS
from tidegate.hive_bridge.baseline import Baseline
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import Config
from tidegate.runtime.kafka.subscription import split_metadata

_SECONDS: Final = 30.0


def group_of(prefix: str) -> str:
    """The consumer group of a deployment's Metastore bridges."""
    return f"{prefix}.bridges.metastore"


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
    return Baseline.parse(split_metadata(position.metadata)[1] if position else "")


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
