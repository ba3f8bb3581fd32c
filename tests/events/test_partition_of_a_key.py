from __future__ import annotations

from support.murmur2 import MURMUR2
from tidegate.events.topics import murmur2, partition_of


def test_a_table_s_partition_is_the_one_that_kafka_s_own_client_computes() -> None:
    assert {key: murmur2(key.encode()) for key in MURMUR2} == {
        key: known & 0xFFFFFFFF for key, known in MURMUR2.items()
    }
    assert partition_of("lake.sales.orders", 6) == ((-158059582) & 0x7FFFFFFF) % 6
