"""Commit metadata: the files that a write made, and the file groups that it replaced.

JSON up to table version 6, Avro from version 8 on; an inflight file has the same record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from tidegate.bounded_json import parse_json
from tidegate.errors import FormatError
from tidegate.hudi import containers

_MAX_JSON: Final = 2 * containers.MAX_INFLATED
_STATS: Final = "partitionToWriteStats"
_NO_COMMIT: Final = (None, "", "null")
_BYTES_PER_VALUE: Final = 10
"""Hudi's JSON has more; with fewer, a text could become many times larger in memory."""


class WriteStat(NamedTuple):
    """One file that a commit wrote.

    `path` is relative to the table and `size` is in bytes. `previous` is the instant of the file
    group's previous slice, None for a new group.
    """

    partition: str
    file_id: str
    path: str
    previous: str | None
    size: int
    records: int = 0


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
        record = _record(content)
        with containers.reading("commit metadata"):
            stats = record.get(_STATS) or {}
            replaced = record.get("partitionToReplaceFileIds") or {}
            return cls(
                writes=tuple(_write_stat(p, stat) for p, stat in _pairs(stats) if stat.get("path")),
                replaced={partition: tuple(ids) for partition, ids in replaced.items()},
                operation=record.get("operationType"),
                extra=record.get("extraMetadata") or {},
                named=frozenset(stats),
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
    record = _record(inflight)
    with containers.reading("commit metadata"):
        found = [
            _write_stat(p, stat | {"path": ""}) for p, stat in _pairs(record.get(_STATS) or {})
        ]
        return tuple(stat for stat in found if stat.file_id and stat.previous)


def _pairs(stats: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((partition, stat) for partition, entries in stats.items() for stat in entries)


def _record(content: bytes) -> Mapping[str, Any]:
    if content.startswith(containers.MAGIC):
        return containers.decode(content)
    values = len(content) // _BYTES_PER_VALUE
    record = parse_json(content, "commit metadata", _MAX_JSON, values)
    if not isinstance(record, dict):
        raise FormatError("commit metadata is not a JSON object")
    return record


def _write_stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    """A write stat from the fields that JSON or fastavro returned."""
    previous = stat.get("prevCommit")
    return WriteStat(
        partition=partition,
        file_id=stat["fileId"] or "",
        path=stat["path"],
        previous=None if previous in _NO_COMMIT else previous,
        size=stat.get("fileSizeInBytes") or 0,
        records=stat.get("numWrites") or 0,
    )
