"""Write, compact and read a Hive ACID table as real ORC files, without Hive.

One bucket, local disk. The key of a row is (originalTransaction, bucket, rowId); Hive's columns
named "transaction" contain write ids.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyorc

from tidegate.hive.names import AcidDirectory, Base, Delta, is_acid_name, parse_name
from tidegate.hive.obsolete import DATA_FORMAT_FILE, FoundDirectory, acid_state
from tidegate.hive.write_ids import ValidWriteIds

Row = tuple[Any, ...]
_INSERT: Final = 0
_DELETE: Final = 2
_BUCKET_CODEC: Final = 1 << 29
_BUCKET: Final = "bucket_00000"


class _Key(NamedTuple):
    """The key of a row, which never changes."""

    original_write_id: int
    bucket: int
    row_id: int


class _RowEvent(NamedTuple):
    """One row event of a file, with Hive's columns in order; a delete has no row."""

    operation: int
    original_write_id: int
    bucket: int
    row_id: int
    write_id: int
    row: Row | None

    @property
    def key(self) -> _Key:
        """The key of the row that is inserted or deleted."""
        return _Key(self.original_write_id, self.bucket, self.row_id)


@dataclass(frozen=True, slots=True)
class AcidTable:
    """One table or partition. `columns` maps names to ORC types, in order."""

    location: Path
    columns: Mapping[str, str]

    def insert(self, write_id: int, rows: Iterable[Row], statement: int = 0) -> str:
        """Write the rows of one statement; return the new directory's name."""
        bucket = _BUCKET_CODEC | statement
        events = [
            _RowEvent(_INSERT, write_id, bucket, number, write_id, row)
            for number, row in enumerate(rows)
        ]
        return self._write(Delta(write_id, write_id, statement), events)

    def delete(self, write_id: int, keys: Iterable[_Key], statement: int = 0) -> str:
        """Write delete events for rows; return the new directory's name."""
        events = [_RowEvent(_DELETE, *key, write_id, None) for key in keys]
        return self._write(Delta(write_id, write_id, statement, deletes=True), events)

    def compact_minor(
        self, low: int, high: int, snapshot: ValidWriteIds, txn: int | None = None
    ) -> tuple[str, ...]:
        """Merge the deltas of a range of write ids; return the new directories' names."""
        found = [
            directory
            for directory in self._current(snapshot)  # before the first product hides the others
            if isinstance(directory, Delta)
            and low <= directory.min_write_id
            and directory.max_write_id <= high
        ]
        written: list[str] = []
        for deletes in (False, True):
            events = self._events([delta for delta in found if delta.deletes == deletes], snapshot)
            if events:
                written.append(self._write(Delta(low, high, None, txn, deletes=deletes), events))
        return tuple(written)

    def compact_major(self, snapshot: ValidWriteIds, txn: int | None = None) -> str:
        """Write a base with the rows of a snapshot; return its name."""
        return self._write(Base(snapshot.high_water_mark, txn), self._rows(snapshot))

    def read(self, snapshot: ValidWriteIds) -> dict[_Key, Row]:
        """Read the rows of a snapshot, in the order of their keys."""
        return {event.key: event.row for event in self._rows(snapshot) if event.row is not None}

    def _rows(self, snapshot: ValidWriteIds) -> list[_RowEvent]:
        events = self._events(self._current(snapshot), snapshot)
        deleted = {event.key for event in events if event.operation == _DELETE}
        return [
            event for event in events if event.operation != _DELETE and event.key not in deleted
        ]

    def _current(self, snapshot: ValidWriteIds) -> list[AcidDirectory]:
        """Choose the directories to read, among those with files, as Hive's reader does.

        The base of a TRUNCATE has a file that says so, and no bucket.
        """
        found = [
            FoundDirectory.named(path.name)
            for path in sorted(self.location.iterdir())
            if is_acid_name(path.name)
            and ((path / _BUCKET).exists() or (path / DATA_FORMAT_FILE).exists())
        ]
        state = acid_state(found, snapshot)
        chosen = [*state.current, *([] if state.base is None else [state.base])]
        return [parse_name(name) for name in chosen]

    def _events(
        self, directories: Iterable[AcidDirectory], snapshot: ValidWriteIds
    ) -> list[_RowEvent]:
        found: list[_RowEvent] = []
        for directory in directories:
            bucket = self.location / directory.name / _BUCKET
            if bucket.exists():
                with bucket.open("rb") as file:
                    found += [_RowEvent(*values) for values in pyorc.Reader(file)]
        return sorted(event for event in found if snapshot.is_valid(event.write_id))

    def _write(self, directory: AcidDirectory, events: Iterable[_RowEvent]) -> str:
        """Write a hidden directory and rename it, so that readers never see a part of it."""
        draft = self.location / f"_tmp_{directory.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        (draft / "_orc_acid_version").write_text("2")
        ordered = sorted(events, key=lambda event: event.key)
        with (draft / _BUCKET).open("wb") as file, pyorc.Writer(file, self._schema()) as writer:
            writer.writerows(ordered)
            writer.set_user_metadata(**_metadata(ordered))
        draft.rename(self.location / directory.name)
        return directory.name

    def _schema(self) -> str:
        row = ",".join(f"{name}:{kind}" for name, kind in self.columns.items())
        ids = "originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint"
        return f"struct<operation:int,{ids},row:struct<{row}>>"


def _metadata(events: list[_RowEvent]) -> dict[str, bytes]:
    """The ORC metadata that Hive reads: version, last key of each stripe, counts of events."""
    inserts = sum(event.operation == _INSERT for event in events)
    last = ",".join(map(str, events[-1].key)) + ";" if events else ""
    return {
        "hive.acid.version": b"2",
        "hive.acid.key.index": last.encode(),
        "hive.acid.stats": f"{inserts},0,{len(events) - inserts}".encode(),
    }
