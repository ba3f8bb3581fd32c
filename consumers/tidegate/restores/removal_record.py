"""The data files that a restore removes, recorded on the table so that a resumed one reports them.

Only the report depends on this record. The files to remove follow from the timeline and a listing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidegate.bounded_json import parse_json
from tidegate.errors import FormatError
from tidegate.hudi import instant_of_data_file
from tidegate.restores.plan import PlannedFile, Step
from tidegate.storage import NotFound, join
from tidegate.tables.claim import HUDI
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_LARGEST: Final = 32 * 2**20
"""Bytes of the record of 100,000 files."""
_REMOVALS: Final = f"{HUDI}/removals"


@dataclass(frozen=True, slots=True)
class RemovalRecord:
    """The files that one restore removes, by instant."""

    warehouse: Warehouse
    location: str
    restore: str

    def of_step(self, step: Step) -> tuple[PlannedFile, ...]:
        """Record the files of a step before their removal, and return all recorded ones.

        These include files that an earlier attempt has already removed.
        """
        path = join(self._folder, f"{step.target.timestamp}.json")
        if step.files:
            content = [file[:2] for file in step.files]
            with suppress(AlreadyExists):
                self.warehouse.create(path, json.dumps(content).encode())
                return step.files
        files = {file.path: file for file in step.files}
        for file in self._recorded(path):
            if _is_of(file, step.target.timestamp):
                files.setdefault(file.path, file)
        return tuple(files[name] for name in sorted(files))

    def _recorded(self, path: str) -> list[PlannedFile]:
        try:
            content = parse_json(self.warehouse.read(path, _LARGEST), path, _LARGEST)
            return [PlannedFile(str(partition), str(name), 0) for partition, name in content]
        except (NotFound, ValueError, TypeError, RecursionError):
            # foreign or damaged: the report then omits the files that an earlier attempt removed
            return []

    def discard(self) -> None:
        """Remove the record of a completed restore."""
        self.warehouse.remove_tree(self._folder)

    @property
    def _folder(self) -> str:
        return join(self.location, _REMOVALS, self.restore)


def _is_of(file: PlannedFile, timestamp: str) -> bool:
    """Whether a recorded file belongs to an instant. The record is not trusted."""
    try:
        for path in (file.path, file.partition):
            path.encode()
        instant = instant_of_data_file(file.path.rpartition("/")[2])
    except (UnicodeEncodeError, FormatError):
        # not a valid file name: a restore that has begun does not fail because of it
        return False
    return instant == timestamp
