"""One rule of how far a group is, for `tidegate status` and the metrics."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from confluent_kafka import TopicPartition

from tidegate.ops.groups import _Lag, lags_of
from tidegate.runtime.bus import Partition, Watermarks
from tidegate.runtime.kafka.metadata import KafkaMetadata

GROUP = "tidegate.cleaner"
NEW, READ, AHEAD = (Partition("commands", number) for number in range(3))
ENDS = {NEW: 50, READ: 20, AHEAD: 7}


class Cluster:
    """Has a group that has committed offsets of two partitions; the third begins at 30."""

    def __init__(self) -> None:
        self.asked: list[Partition] = []

    def committed(
        self, group: str, partitions: Collection[Partition]
    ) -> dict[Partition, TopicPartition]:
        assert (group, set(partitions)) == (GROUP, set(ENDS))
        return {READ: TopicPartition(*READ, 15), AHEAD: TopicPartition(*AHEAD, 8)}

    def watermarks(self, partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
        self.asked += partitions
        return {partition: Watermarks("id", 30, 50) for partition in partitions}


def test_a_group_that_has_committed_nothing_lags_by_every_record_there_is() -> None:
    cluster = Cluster()

    assert lags_of(cast("KafkaMetadata", cluster), GROUP, ENDS) == {
        NEW: _Lag(None, 20),
        READ: _Lag(15, 5),
        AHEAD: _Lag(8, 0),  # it was committed after the end was read
    }
    assert cluster.asked == [NEW]  # the others cost no further request
