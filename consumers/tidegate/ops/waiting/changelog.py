"""Reading the coordinator's changelog from the side: the coordinator is not disturbed."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from tidegate.coordinator.readers import KINDS
from tidegate.coordinator.store import POSITION_KEY, Store, lost_head
from tidegate.errors import StopService
from tidegate.errors.commands import command_line
from tidegate.events.keys import partition_of
from tidegate.events.topics import CHANGELOG
from tidegate.ops.waiting.outstanding import PendingVacuum, stored_vacuums
from tidegate.runtime.bus import ChangelogRecord, Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import read_partition
from tidegate.runtime.kafka.records import as_record
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.settings import Settings

_RETRIES: Final = RetryPolicy(attempts=6, first=0.1, longest=1.0).quiet()
"""Quiet, because the caller reports an outage: the monitor logs it, a command fails."""
_SEPARATOR: Final = b"\x00"
_SIGNS: Final = frozenset("*?[")


def waiting_vacuums(settings: Settings, table: str | None = None) -> Iterator[PendingVacuum]:
    """The vacuums that wait now, according to the gate, in no particular order.

    Arguments and errors are those of `gate_stores`.
    """
    for store in gate_stores(settings, table):
        yield from (vacuum.pending() for vacuum in stored_vacuums(store))


def gate_stores(settings: Settings, table: str | None = None) -> Iterator[Store]:
    """The rows of the readers' gate, partition by partition.

    One partition's rows are in memory at a time: a store is closed once the next is asked for. Of a
    table named exactly, only its partition is read, and nothing of other tables is kept.

    Args:
        settings: The deployment.
        table: An identity or a shell pattern; None: all tables.

    Raises:
        ConfigError: the changelog does not exist.
        TransientError: no broker answers.
        StopService, FormatError: the changelog can't be read, or is not complete.
    """
    connection = settings.connection()
    topic = CHANGELOG.name(settings.topics.prefix)
    metadata = KafkaMetadata.for_people(connection)
    metadata.require_connection()
    count = _RETRIES.call(lambda: metadata.partitions(topic))
    is_exact = table is not None and not _SIGNS & set(table)
    numbers = [partition_of(table, count)] if table is not None and is_exact else range(count)
    parts = [Partition(topic, number) for number in numbers]
    for part, marks in _RETRIES.call(lambda: metadata.watermarks(parts)).items():
        if lost := lost_head(part, marks.first):
            raise StopService(f"{lost}. See: {command_line('doctor')}")
    for number in numbers:
        store = _RETRIES.call(partial(_store, settings, topic, number, table))
        yield store
        store.close()  # the caller still refers to it while the next one is read


def _store(settings: Settings, topic: str, number: int, table: str | None) -> Store:
    store = Store(KINDS)
    store.restore(_records(settings, topic, number, table))
    return store


def _records(
    settings: Settings, topic: str, number: int, table: str | None
) -> Iterator[ChangelogRecord]:
    for record in map(as_record, read_partition(settings.connection(), topic, number)):
        key = record.key or b""
        name = key.partition(_SEPARATOR)[0].decode()
        if key == POSITION_KEY or (name and (table is None or fnmatchcase(name, table))):
            yield key, record.value
