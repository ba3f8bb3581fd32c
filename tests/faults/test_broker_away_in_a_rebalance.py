"""On a real broker: an outage in the middle of a rebalance ends no service."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from support.kafka import create_topic
from support.waiting import wait_for
from tidegate.errors import TransientError
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.metadata import KafkaMetadata

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]
OUTAGE_SECONDS = 35
"""Eight attempts with the waits between them take 25 s at most."""


class Listener:
    def __init__(self) -> None:
        self.starts: dict[Partition, int] = {}

    def assigned(self, starts: Mapping[Partition, int]) -> None:
        self.starts = dict(starts)

    def revoked(self, partitions: Sequence[Partition]) -> None: ...

    def lost(self, partitions: Sequence[Partition]) -> None: ...


def test_a_member_waits_for_a_broker_that_goes_away_while_it_is_assigned_partitions(
    bootstrap_servers: str,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = f"{topic_prefix}.commits"
    create_topic(bootstrap_servers, topic)
    committed, attempts = KafkaMetadata.committed, list[float]()

    def away(
        metadata: KafkaMetadata, group: str, parts: Collection[Partition]
    ) -> dict[Partition, TopicPartition]:
        attempts.append(time.monotonic())
        if attempts[-1] < attempts[0] + OUTAGE_SECONDS:
            raise TransientError("the broker is away")
        return committed(metadata, group, parts)

    monkeypatch.setattr(KafkaMetadata, "committed", away)
    bus, listener = KafkaBus({"bootstrap.servers": bootstrap_servers}), Listener()
    subscription = bus.subscribe(f"{topic_prefix}.group", [topic], listener)
    with caplog.at_level(logging.WARNING):
        wait_for("the assignment", lambda: subscription.poll(1, 0.1) or listener.starts)
    subscription.close()
    bus.close()

    assert listener.starts == {Partition(topic, 0): 0}
    assert len([record for record in caplog.records if "waits for" in record.message]) == 1
