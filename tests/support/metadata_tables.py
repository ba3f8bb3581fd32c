"""Hudi's metadata table made by hand: real names and metadata, tiny files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from support.hudi_tables import HandMade, at
from tidegate.hudi import Action, Instant, InstantState

GROUPS = {"files": "files-0000-0", "record_index": "record-index-0000-0"}
FIRST = "0" * 17
"""The instant under which the first partition is built."""


def before(instant: str) -> str:
    """When the metadata table has a write: right before the table has."""
    return f"{instant[:12]}29000"


@dataclass(frozen=True)
class MetadataTable:
    """The metadata table of a table. Every partition has one file group."""

    of: HandMade

    @property
    def table(self) -> HandMade:
        return HandMade(self.of.path / ".hoodie/metadata", 9)

    @property
    def path(self) -> Path:
        return self.table.path

    def create(self, *partitions: str, built: str = at(0)) -> MetadataTable:
        """Build partitions at a time, with a base file in each."""
        self.table.create(hoodie__table__type="MERGE_ON_READ")
        self.declare(partitions)
        for number, partition in enumerate(partitions):
            self.build(partition, FIRST[:-1] + str(number), built)
        return self

    def declare(self, partitions: Iterable[str]) -> None:
        """Have the table's properties name the partitions."""
        properties = self.of.path / ".hoodie/hoodie.properties"
        key = "hoodie.table.metadata.partitions"
        lines = [x for x in properties.read_text().splitlines() if not x.startswith(key)]
        properties.write_text("\n".join([*lines, f"{key}={','.join(partitions)}", ""]))

    def build(self, partition: str, instant: str, completed: str) -> None:
        """Build a partition: a log file without anything, and a base file."""
        files = [self.log(instant, partition), self.base(instant, partition)]
        self._complete(instant, completed, {partition: files})

    def delta(self, instant: str, partitions: Iterable[str] = ("files",)) -> None:
        """What a commit or a clean of the table adds."""
        self._complete(instant, before(instant), {p: [self.log(instant, p)] for p in partitions})

    def compact(self, instant: str, partitions: Sequence[str] = ("files",)) -> None:
        """Compact all that is there of some partitions, half a minute after an instant."""
        names = {p: [f.name for f in self._data(p)] for p in partitions}
        self.schedule(instant, names)
        files = {partition: [self.base(instant, partition)] for partition in partitions}
        done = Instant(instant, Action.COMMIT, InstantState.COMPLETED, before(instant))
        self.table.put(done, self.table.metadata("HoodieCommitMetadata", _stats(files)))

    def schedule(self, instant: str, names: dict[str, list[str]]) -> None:
        """Request a compaction of these files, and begin it."""
        self.table.put(Instant(instant, Action.COMPACTION, InstantState.REQUESTED), _plan(names))
        self.table.put(Instant(instant, Action.COMPACTION, InstantState.INFLIGHT))

    def base(self, instant: str, partition: str) -> str:
        return self._put(partition, f"{GROUPS[partition]}_0-1-2_{instant}.hfile")

    def log(self, instant: str, partition: str) -> str:
        return self._put(partition, f".{GROUPS[partition]}_{instant}.log.1_0-1-2")

    def names(self) -> set[str]:
        """Every file of it but checksums."""
        files = (p for p in self.path.rglob("*") if p.is_file() and p.suffix != ".crc")
        return {str(p.relative_to(self.path)) for p in files}

    def _data(self, partition: str) -> list[Path]:
        files = sorted((self.path / partition).iterdir())
        return [p for p in files if p.suffix != ".crc" and p.name != ".hoodie_partition_metadata"]

    def _put(self, partition: str, name: str) -> str:
        folder = self.path / partition
        folder.mkdir(exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        (folder / name).write_text(f"rows of {name}")
        (folder / f".{name}.crc").write_text("crc")
        return f"{partition}/{name}"

    def _complete(self, instant: str, completed: str, files: dict[str, list[str]]) -> None:
        self.table.put(Instant(instant, Action.DELTA_COMMIT, InstantState.REQUESTED))
        self.table.put(Instant(instant, Action.DELTA_COMMIT, InstantState.INFLIGHT))
        done = Instant(instant, Action.DELTA_COMMIT, InstantState.COMPLETED, completed)
        self.table.put(done, self.table.metadata("HoodieCommitMetadata", _stats(files)))


def _stats(files: dict[str, list[str]]) -> dict[str, Any]:
    stats = {
        partition: [
            {"fileId": GROUPS[partition], "path": p, "partitionPath": partition} for p in ps
        ]
        for partition, ps in files.items()
    }
    return {"partitionToWriteStats": stats}


def _plan(names: dict[str, list[str]]) -> bytes:
    text = {"type": "array", "items": "string"}
    fields = [
        {"name": "partitionPath", "type": "string"},
        {"name": "fileId", "type": "string"},
        {"name": "dataFilePath", "type": ["null", "string"]},
        {"name": "deltaFilePaths", "type": text},
    ]
    operation = {"type": "record", "name": "HoodieCompactionOperation", "fields": fields}
    operations = {"type": "array", "items": operation}
    schema = {
        "type": "record",
        "name": "HoodieCompactionPlan",
        "fields": [{"name": "operations", "type": operations}],
    }
    buffer = io.BytesIO()
    rows = [
        {
            "partitionPath": partition,
            "fileId": GROUPS[partition],
            "dataFilePath": max((f for f in files if f.endswith(".hfile")), default=None),
            "deltaFilePaths": [f for f in files if ".log." in f],
        }
        for partition, files in names.items()
    ]
    fastavro.writer(buffer, schema, [{"operations": rows}])
    return buffer.getvalue()
