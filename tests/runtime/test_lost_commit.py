"""An offset that the broker did not take is committed again, also where nothing new arrives."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition

from support.kafka import create_topic
from support.waiting import wait_for
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.subscription import KafkaSubscription

pytestmark = pytest.mark.kafka


class Log:
    """A listener that counts its assignments."""

    assignments = 0

    def assigned(self, starts: Mapping[Partition, int]) -> None:  # noqa: ARG002 - the protocol's
        self.assignments += 1

    def revoked(self, partitions: Sequence[Partition]) -> None: ...

    lost = revoked


def test_an_offset_that_the_broker_refused_is_committed_again_without_a_new_record(
    bootstrap_servers: str, topic_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, config = f"{topic_prefix}.quiet", {"bootstrap.servers": bootstrap_servers}
    create_topic(bootstrap_servers, topic)
    log = Log()
    member = KafkaSubscription(config, topic_prefix, [topic], log, KafkaMetadata(config))
    deadline = time.monotonic() + 60
    while not log.assignments:
        assert time.monotonic() < deadline
        member.poll(1, 0.1)
    later = f"{topic_prefix}.later"
    member.commit({Partition(later, 0): 7}, {Partition(later, 0): "..x"})
    while "offsets not committed" not in caplog.text:  # there is no such topic yet
        assert time.monotonic() < deadline
        member.poll(1, 0.1)
    create_topic(bootstrap_servers, later)

    asking = Consumer({**config, "group.id": topic_prefix, "log_level": 0})

    def committed() -> TopicPartition | None:
        member.poll(1, 0.1)
        [found] = asking.committed([TopicPartition(later, 0)], timeout=60)
        return found if found.offset >= 0 else None

    found = wait_for("the commit", committed)
    asking.close()
    member.close()
    assert (found.offset, found.metadata, log.assignments) == (7, "|..x", 1)
