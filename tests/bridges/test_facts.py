"""A reader of facts asks for little where nothing is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from tidegate.bridges import facts
from tidegate.bridges.facts import FactsReader
from tidegate.runtime.bus import Partition

if TYPE_CHECKING:
    import pytest


class Cluster:
    """Three topics of two partitions on which nothing new is; counts what is asked."""

    def __init__(self) -> None:
        self.asked = Counter[str]()

    def connected(self, config: object) -> Cluster:
        assert config == {}
        return self

    def spans(self, topic: str, _: int = 0) -> dict[Partition, range]:
        self.asked["spans"] += 1
        return {Partition(topic, number): range(5, 5) for number in range(2)}

    def ends(self, parts: Collection[Partition]) -> dict[Partition, int]:
        self.asked["ends"] += 1
        return dict.fromkeys(parts, 5)


def test_where_nothing_is_new_a_read_is_one_request_a_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    monkeypatch.setattr(facts, "KafkaMetadata", cluster.connected)
    reader = FactsReader(cast("Any", {}), {"a": None, "b": None, "c": timedelta(days=1)}, "group")
    for _ in range(10):
        assert list(reader.read()) == []
    assert cluster.asked == {"spans": 3, "ends": 9 * 3}
