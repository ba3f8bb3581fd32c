"""On which partition a table is: Kafka's murmur2 of its name, as every writer computes it. Pure.

librdkafka and the Java client hash keys inside the producer; code that only reads has to hash too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_SHIFT: Final = 24


@lru_cache(maxsize=65_536)  # a hash takes 5 us, and every event needs one
def partition_of(table: str, partitions: int) -> int:
    """The number of the partition that a table (its identity) is on, given how many there are."""
    return partition_of_key(table.encode(), partitions)


def partition_of_key(key: bytes, partitions: int) -> int:
    """The number of the partition that a message with this key is on."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit unsigned hash of a key that Kafka's default partitioner uses."""
    mixed = _SEED ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _WORD
        word = (word ^ word >> _SHIFT) * _FACTOR & _WORD
        mixed = mixed * _FACTOR & _WORD ^ word
    if rest := data[whole:]:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * _FACTOR & _WORD
    mixed = (mixed ^ mixed >> 13) * _FACTOR & _WORD
    return mixed ^ mixed >> 15
