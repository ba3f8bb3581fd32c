"""Commit metadata: the files that a write made, and the file groups that it replaced.

JSON up to table version 6, Avro from version 8 on; an inflight file has the same record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from tidegate.bounded_json import parse_json
from tidegate.errors import FormatError
from tidegate.hudi import containers
from tidegate.hudi.json_stats import read_json_stats
from tidegate.hudi.write_stats import STATS, StatsReader, WriteStat, write_stat


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Hudi's HoodieCommitMetadata and HoodieReplaceCommitMetadata."""

    writes: tuple[WriteStat, ...]
    replaced: Mapping[str, tuple[str, ...]]
    """The ids of the replaced file groups, by partition."""
    operation: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict[str, str])
    """The writer's additions: checkpoints, the schema of the table."""
    named: frozenset[str] = frozenset()
    """All partitions in the stats, even those without written files."""

    @property
    def partitions(self) -> frozenset[str]:
        """All partitions that it wrote to, replaced file groups of, or names."""
        return self.named | {write.partition for write in self.writes} | self.replaced.keys()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read the content of a completed commit, JSON or Avro.

        Raises:
            FormatError: the content is neither JSON nor Avro commit metadata.
        """
        stats, named, record = _stats_and_rest(content)
        with containers.reading("commit metadata"):
            replaced = record.get("partitionToReplaceFileIds") or {}
            return cls(
                writes=tuple(stats),
                replaced={partition: tuple(ids) for partition, ids in replaced.items()},
                operation=record.get("operationType"),
                extra=record.get("extraMetadata") or {},
                named=frozenset(named),
            )


def planned_updates(inflight: bytes) -> tuple[WriteStat, ...]:
    """The file groups that a pending write is going to update; `path` and `size` are empty.

    Empty if the writer did not record them (Flink), or only adds file groups.

    Args:
        inflight: The content of the write's inflight file.

    Raises:
        FormatError: the content is not commit metadata.
    """
    if not inflight:
        return ()
    if (quick := read_json_stats(inflight, planned=True)) is not None:
        return tuple(stat for stat in quick.writes if stat.file_id and stat.previous)
    record = _record(inflight)
    with containers.reading("commit metadata"):
        stats = record.get(STATS) or {}
        found = [
            write_stat(partition, stat | {"path": ""})
            for partition, entries in stats.items()
            for stat in entries
        ]
        return tuple(stat for stat in found if stat.file_id and stat.previous)


def _stats_and_rest(content: bytes) -> tuple[list[WriteStat], Iterable[str], Mapping[str, Any]]:
    """The written files (those with a path), all named partitions, and the record.

    The record may be without its stats.
    """
    if content.startswith(containers.MAGIC):
        text, data = containers.split(content)
        reader = _reader(text)
        read = reader.read(data) if reader is not None else None
        if read is not None:
            written, named, rest = read
            return written, named, containers.read_record(text, rest)
        record: Mapping[str, Any] = containers.read_record(text, data)
    elif (quick := read_json_stats(content)) is not None:
        return quick.writes, quick.partitions, quick.rest
    else:
        record = _object(content)
    with containers.reading("commit metadata"):
        stats = record.get(STATS) or {}
        found = [
            write_stat(partition, stat)
            for partition, entries in stats.items()
            for stat in entries
            if stat.get("path")
        ]
        return found, stats.keys(), record


@lru_cache(maxsize=64)
def _reader(text: bytes) -> StatsReader | None:
    return StatsReader.of(containers.parsed(text))


def _record(content: bytes) -> Mapping[str, Any]:
    if content.startswith(containers.MAGIC):
        return containers.decode(content)
    return _object(content)


def _object(content: bytes) -> Mapping[str, Any]:
    record = parse_json(content, "commit metadata", containers.MAX_INFLATED)
    if not isinstance(record, dict):
        raise FormatError("commit metadata is not a JSON object")
    return record
