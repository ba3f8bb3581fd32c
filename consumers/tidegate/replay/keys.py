"""On which partition a table lies: Kafka's murmur2 of its name, as every writer computes it. Pure.

librdkafka and the Java client hash keys where they send; who looks from the side has to hash too.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_SHIFT: Final = 24


def partition_of(table: str, partitions: int) -> int:
    """The number of the partition on which a table (its identity) lies, of so many."""
    return (murmur2(table.encode()) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """The 32 bit hash, unsigned, that Kafka's default partitioner takes of a key."""
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
