"""Commit metadata: the files that a write made, and the file groups that it replaced.

JSON up to table version 6, Avro from version 8 on; an inflight file has the same record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tidegate.errors import FormatError
from tidegate.hudi import containers

_NO_COMMIT: Final = "null"


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file that a commit wrote.

    `path` is relative to the table; `previous` is the instant of the file group's slice that this
    one follows, None for a new group.
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
    """partition to the ids of the file groups it replaced"""
    operation: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the writer added: checkpoints, the schema of the table."""

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read the content of a completed commit, JSON or Avro.

        Raises:
            FormatError: the content is neither.
        """
        record = _record(content)
        with containers.reading("commit metadata"):
            stats = record.get("partitionToWriteStats") or {}
            replaced = record.get("partitionToReplaceFileIds") or {}
            return cls(
                writes=tuple(
                    _stat(partition, stat)
                    for partition, entries in stats.items()
                    for stat in entries
                    if stat.get("path")
                ),
                replaced={partition: tuple(ids) for partition, ids in replaced.items()},
                operation=record.get("operationType"),
                extra=record.get("extraMetadata") or {},
            )


def planned_updates(inflight: bytes) -> tuple[WriteStat, ...]:
    """The file groups that a pending write set out to update; `path` and `size` say nothing.

    Empty where the writer did not record them (Flink), or only adds file groups.

    Args:
        inflight: The content of its inflight file.

    Raises:
        FormatError: it is not commit metadata.
    """
    if not inflight:
        return ()
    record = _record(inflight)
    with containers.reading("commit metadata"):
        stats = record.get("partitionToWriteStats") or {}
        found = [
            _stat(partition, stat | {"path": ""})
            for partition, each in stats.items()
            for stat in each
        ]
        return tuple(stat for stat in found if stat.file_id and stat.previous)


def _record(content: bytes) -> Mapping[str, Any]:
    if content.startswith(containers.MAGIC):
        return containers.decode(content)
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"commit metadata is neither JSON nor Avro: {error}") from error
    if not isinstance(record, dict):
        raise FormatError("commit metadata is not a JSON object")
    return record


def _stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    previous = stat.get("prevCommit")
    return WriteStat(
        partition=partition,
        file_id=stat["fileId"] or "",
        path=stat["path"],
        previous=None if previous in (None, "", _NO_COMMIT) else previous,
        size=stat.get("fileSizeInBytes") or 0,
        records=stat.get("numWrites") or 0,
    )
