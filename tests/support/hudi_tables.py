"""Small Hudi tables made by hand, without a JVM: real names and metadata, tiny data files.

A table is copy-on-write, with the partitions p0 and p1 and one file group in each.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro

from tidegate.events import RestoreRequested, SavepointRequested, derived_id
from tidegate.hudi import containers
from tidegate.hudi.instant import Action, Instant, InstantState, Layout
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY = "20260301"
_DATA = ("*.parquet", ".*.log.*[0-9]")


def ticking(start: datetime = NOW) -> Callable[[], datetime]:
    """A clock that moves on by a second at every look."""
    looks = iter(range(10**9))
    return lambda: start + timedelta(seconds=next(looks))


def at(minute: int) -> str:
    """The instant of a minute after ten o'clock."""
    return f"{DAY}10{minute:02d}00000"


def end_of(instant: str) -> str:
    """When a write of that instant completed, half a minute later."""
    return f"{instant[:12]}30000"


@dataclass(frozen=True)
class HandMade:
    """A table below `root`; every instant of it is a minute of one hour."""

    path: Path
    version: int = 9

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def layout(self) -> Layout:
        return Layout.ONE if self.version == 6 else Layout.TWO

    @property
    def timeline(self) -> Path:
        return self.path / ".hoodie" / ("timeline" if self.layout is Layout.TWO else "")

    def create(self, **more: str) -> HandMade:
        """Write the properties; `more` has dots as double underscores."""
        self.timeline.mkdir(parents=True)
        values = {
            "hoodie.table.name": self.path.name,
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": str(self.version),
            "hoodie.timeline.layout.version": str(int(self.layout)),
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.table.base.file.format": "PARQUET",
        } | {key.replace("__", "."): value for key, value in more.items()}
        text = "#Properties\n" + "".join(f"{key}={value}\n" for key, value in values.items())
        (self.path / ".hoodie/hoodie.properties").write_text(text)
        return self

    def put(self, instant: Instant, content: bytes = b"") -> None:
        """Write a timeline file, in layout 1 with the completion time as modification time."""
        path = self.timeline / instant.file_name(self.layout)
        path.write_bytes(content)
        (path.parent / f".{path.name}.crc").write_bytes(b"crc")
        if instant.completion is not None:
            moment = datetime.strptime(f"{instant.completion}000+0000", "%Y%m%d%H%M%S%f%z")
            seconds = moment.timestamp()
            os.utime(path, (seconds, seconds))

    def begin(
        self, instant: str, action: Action = Action.COMMIT, operation: str | None = None
    ) -> None:
        """Write the requested and inflight files of a write."""
        content = b""
        if operation is not None:
            record = {"operationType": operation, "version": 1}
            content = containers.encode("HoodieReplaceCommitMetadata", record)
        self.put(Instant(instant, action, InstantState.REQUESTED), content)
        self.put(Instant(instant, action, InstantState.INFLIGHT))

    def data(self, instant: str, group: str, partition: str) -> str:
        """Write a data file; give its path below the table."""
        folder = self.path / partition
        folder.mkdir(exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        name = f"{group}_0-1-2_{instant}.parquet"
        (folder / name).write_text(f"rows of {group} at {instant}")
        (folder / f".{name}.crc").write_text("crc")
        return f"{partition}/{name}"

    def commit(
        self,
        instant: str,
        previous: str | None = None,
        groups: Mapping[str, str] | None = None,
        completed: str | None = None,
    ) -> None:
        """A completed write of a new file for every group (partition to group)."""
        groups = groups or {"p0": "g0", "p1": "g1"}
        self.begin(instant)
        stats = {
            partition: [_stat(self.data(instant, group, partition), group, partition, previous)]
            for partition, group in groups.items()
        }
        self._complete(instant, Action.COMMIT, {"partitionToWriteStats": stats}, completed)

    def replace(
        self,
        instant: str,
        replaced: Mapping[str, list[str]],
        groups: Mapping[str, str],
        completed: str | None = None,
    ) -> None:
        """A completed insert_overwrite."""
        self.begin(instant, Action.REPLACE_COMMIT, "INSERT_OVERWRITE")
        stats = {
            partition: [_stat(self.data(instant, group, partition), group, partition, None)]
            for partition, group in groups.items()
        }
        record = {"partitionToWriteStats": stats, "partitionToReplaceFileIds": replaced}
        self._complete(instant, Action.REPLACE_COMMIT, record, completed)

    def delta(
        self,
        instant: str,
        groups: Mapping[str, str],
        since: str | None,
        *,
        completes: bool = True,
        completed: str | None = None,
    ) -> None:
        """A delta commit: log files on the slices `since`, or else base files of new groups."""
        stats, claims = dict[str, list[Any]](), dict[str, list[Any]]()
        for partition, group in groups.items():
            if since is None:
                path = self.data(instant, group, partition)
            else:
                path = self.log(instant, group, partition, since)
                claims[partition] = [_stat("", group, partition, since)]
            stats[partition] = [_stat(path, group, partition, since)]
        action = Action.DELTA_COMMIT
        self.put(Instant(instant, action, InstantState.REQUESTED))
        planned = self.metadata("HoodieCommitMetadata", {"partitionToWriteStats": claims})
        self.put(Instant(instant, action, InstantState.INFLIGHT), planned)
        if completes:
            self._complete(instant, action, {"partitionToWriteStats": stats}, completed)

    def log_compact(self, instant: str, groups: Mapping[str, str], since: str) -> None:
        """A completed log compaction: one log file for those of the slices `since`."""
        stats = {
            partition: [_stat(self.log(instant, group, partition, since), group, partition, since)]
            for partition, group in groups.items()
        }
        for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
            self.put(Instant(instant, Action.LOG_COMPACTION, state))
        self._complete(instant, Action.DELTA_COMMIT, {"partitionToWriteStats": stats}, None)

    def log(self, instant: str, group: str, partition: str, since: str) -> str:
        """Write a log file of a delta commit, named as in the table's version."""
        named = since if self.layout is Layout.ONE else instant
        version = 1 + len(list((self.path / partition).glob(f".{group}_{named}.log.*_0-1-2")))
        name = f".{group}_{named}.log.{version}_0-1-2"
        (self.path / partition / name).write_text(f"rows of {group} at {instant}" * 9)
        (self.path / partition / f".{name}.crc").write_text("crc")
        return f"{partition}/{name}"

    def schedule(self, instant: str, groups: Mapping[str, str]) -> None:
        """Request a compaction of all log files that the groups have."""
        logs = {
            group: sorted(path.name for path in (self.path / partition).glob(f".{group}_*.log.*_*"))
            for partition, group in groups.items()
        }
        content = _compaction_plan(groups, logs)
        self.put(Instant(instant, Action.COMPACTION, InstantState.REQUESTED), content)

    def compact(
        self, instant: str, groups: Mapping[str, str], previous: str, completed: str | None = None
    ) -> None:
        """Complete a compaction that was requested."""
        self.put(Instant(instant, Action.COMPACTION, InstantState.INFLIGHT))
        stats = {
            partition: [_stat(self.data(instant, group, partition), group, partition, previous)]
            for partition, group in groups.items()
        }
        record = {"partitionToWriteStats": stats, "operationType": "COMPACT"}
        self._complete(instant, Action.COMMIT, record, completed)

    def clean(self, instant: str, bound: str) -> None:
        """A completed clean that kept every file from `bound` on."""
        self.put(Instant(instant, Action.CLEAN, InstantState.REQUESTED))
        self.put(Instant(instant, Action.CLEAN, InstantState.INFLIGHT))
        done = Instant(instant, Action.CLEAN, InstantState.COMPLETED, end_of(instant))
        self.put(done, _clean_metadata(bound))

    def _complete(
        self, instant: str, action: Action, record: dict[str, Any], completed: str | None
    ) -> None:
        replaces = action is Action.REPLACE_COMMIT
        name = "HoodieReplaceCommitMetadata" if replaces else "HoodieCommitMetadata"
        done = Instant(instant, action, InstantState.COMPLETED, completed or end_of(instant))
        self.put(done, self.metadata(name, record))

    def metadata(self, name: str, record: dict[str, Any]) -> bytes:
        if self.layout is Layout.ONE:
            return json.dumps(record).encode()
        return containers.encode(name, record)


def _stat(path: str, group: str, partition: str, previous: str | None) -> dict[str, Any]:
    return {
        "fileId": group,
        "path": path,
        "prevCommit": previous or "null",
        "partitionPath": partition,
        "fileSizeInBytes": 31,
    }


def _clean_metadata(bound: str) -> bytes:
    schema = {
        "type": "record",
        "name": "HoodieCleanMetadata",
        "fields": [{"name": "earliestCommitToRetain", "type": "string"}],
    }
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [{"earliestCommitToRetain": bound}])
    return buffer.getvalue()


def _compaction_plan(groups: Mapping[str, str], logs: Mapping[str, list[str]]) -> bytes:
    texts = [{"name": n, "type": "string"} for n in ("partitionPath", "fileId", "dataFilePath")]
    names = {"name": "deltaFilePaths", "type": {"type": "array", "items": "string"}}
    operation = {"type": "record", "name": "HoodieCompactionOperation", "fields": [*texts, names]}
    schema = {
        "type": "record",
        "name": "HoodieCompactionPlan",
        "fields": [{"name": "operations", "type": {"type": "array", "items": operation}}],
    }
    buffer = io.BytesIO()
    operations = [
        {"partitionPath": p, "fileId": group, "dataFilePath": "", "deltaFilePaths": logs[group]}
        for p, group in groups.items()
    ]
    fastavro.writer(buffer, schema, [{"operations": operations}])
    return buffer.getvalue()


def merge_on_read(path: Path, version: int, **properties: str) -> HandMade:
    """A merge-on-read table: delta commits at 1, 2, 3, 5 and 7, compactions at 4 and 6.

    The groups of p0 and p1 are compacted at 4; their compaction of 6 is pending, and so is the
    delta commit of 8. The group of p2 has only one slice, with log files of 2, 3 and 8, and of a
    log compaction at 9.
    """
    kind = {"hoodie__table__type": "MERGE_ON_READ"}
    table = HandMade(path, version).create(**kind, **properties)
    compacted, all_groups = {"p0": "g0", "p1": "g1"}, {"p0": "g0", "p1": "g1", "p2": "g2"}
    table.delta(at(1), all_groups, None)
    table.delta(at(2), all_groups, at(1))
    table.delta(at(3), all_groups, at(1))
    table.schedule(at(4), compacted)
    table.compact(at(4), compacted, at(1))
    table.delta(at(5), compacted, at(4))
    table.schedule(at(6), compacted)
    table.delta(at(7), {"p0": "g0"}, at(6))
    table.delta(at(8), {"p2": "g2"}, at(1), completes=False)
    table.log_compact(at(9), {"p2": "g2"}, at(1))
    return table


def four_commits(path: Path, version: int, **properties: str) -> HandMade:
    """A table of four commits, at the minutes 1 to 4, each rewriting both file groups."""
    table = HandMade(path, version).create(**properties)
    previous = None
    for minute in (1, 2, 3, 4):
        table.commit(at(minute), previous)
        previous = at(minute)
    return table


def warehouse_over(*roots: Path) -> Warehouse:
    """A warehouse that may change what is below these directories."""
    return Warehouse(WarehouseRoots.of(*map(str, roots)))


def savepoint_request(table: HandMade, instant: str | None, **fields: object) -> SavepointRequested:
    """A request of a savepoint on a hand-made table."""
    given = {
        "table": f"lake.sales.{table.path.name}",
        "location": table.location,
        "occurred_at": NOW,
        "source": "test",
        "requested_by": "ada",
        "comment": "before the load",
        "instant": instant,
    }
    return SavepointRequested.model_validate(_identified(given | fields))


def restore_request(table: HandMade, savepoint: str, **fields: object) -> RestoreRequested:
    """A request to restore a hand-made table."""
    given = {
        "table": f"lake.sales.{table.path.name}",
        "location": table.location,
        "occurred_at": NOW,
        "source": "test",
        "requested_by": "ada",
        "reason": "bad load",
        "savepoint": savepoint,
        "seen_up_to": "99991231235959999",
    }
    return RestoreRequested.model_validate(_identified(given | fields))


def _identified(request: dict[str, object]) -> dict[str, object]:
    """A request of a person has an id of its own: here, other values are another request."""
    return {"event_id": derived_id("request", *map(str, request.values()))} | request


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, byte for byte."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def tables_own(folder: Path) -> dict[str, bytes]:
    """The same without the answers that Tidegate keeps beside a timeline."""
    return {name: c for name, c in snapshot(folder).items() if "/.tidegate/" not in name}


def data_files(folder: Path) -> set[str]:
    """The base and log files of a table, below its location, without Hadoop's checksums."""
    found = (str(p.relative_to(folder)) for pattern in _DATA for p in folder.rglob(pattern))
    return {name for name in found if not name.startswith(".hoodie")}


def timeline_names(table: HandMade) -> set[str]:
    """The names of the timeline's files, without Hadoop's checksums."""
    names = {path.name for path in table.timeline.iterdir() if path.is_file()}
    return {name for name in names if not name.startswith(".") and name[0].isdigit()}
