"""Which data files a restore removes, recorded on the table so that a resumed one can report them.

Only the report rests on it. What is removed follows from the timeline and from listing.
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
from tidegate.tables.hudi.outcome_store import FOLDER
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_LARGEST: Final = 32 * 2**20
"""Bytes of the record of 100,000 files."""
_REMOVALS: Final = f"{FOLDER}/removals"


@dataclass(frozen=True, slots=True)
class RemovalRecord:
    """The files that one restore removes, by the instant that they belong to."""

    warehouse: Warehouse
    location: str
    restore: str

    def of_step(self, step: Step) -> tuple[PlannedFile, ...]:
        """Record the files of a step before they are removed, and give all that were recorded.

        An earlier attempt may have removed some of them already.
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
            # not ours, or damaged: the report then lacks what an earlier attempt removed
            return []

    def discard(self) -> None:
        """Remove the record of a restore that is complete."""
        self.warehouse.remove_tree(self._folder)

    @property
    def _folder(self) -> str:
        return join(self.location, _REMOVALS, self.restore)


def _is_of(file: PlannedFile, timestamp: str) -> bool:
    """Whether a recorded file is one of an instant. Anybody may have written the record."""
    try:
        for each in (file.path, file.partition):
            each.encode()
        instant = instant_of_data_file(file.path.rpartition("/")[2])
    except (UnicodeEncodeError, FormatError):
        # no name of a file, or of no known form: a restore that is under way does not end for it
        return False
    return instant == timestamp
