"""Outcomes stored with a table, so that a repeated command is not carried out again.

After a crash or a replay, a command is consumed again, when the table may already have changed. A
repeated restore would destroy later writes, and a removed savepoint would come back. The timeline
can't show that a command was carried out, because Hudi archives it. So the outcome is stored next
to it, in `.hoodie/.tidegate`, which Hudi ignores like every hidden folder there.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import FormatError
from tidegate.events import Outcome, derived_id
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.hudi import is_instant
from tidegate.storage import NotFound, join
from tidegate.tables.claim import HUDI
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_LARGEST: Final = 32 * 2**20
"""Bytes of an outcome, which fits into a message, as JSON."""
FOLDER: Final = HUDI


@dataclass(frozen=True, slots=True)
class OutcomeStore:
    """The stored outcomes of one service. `folder` is relative to FOLDER.

    Order of calls: `outcome_of` and `started_at` before any other read, `record_start` once the
    work is on the timeline, `put` right before the step that completes it. After a crash between
    `put` and that step, there is an outcome but the work is still pending: the caller resumes it.
    """

    warehouse: Warehouse
    location: str
    folder: str

    def outcome_of(self, command_id: str) -> Outcome | None:
        """The stored outcome of a command.

        Raises:
            FormatError: the outcome can't be read.
        """
        try:
            path = self.path_of(command_id)
            stored = parse_json(self.warehouse.read(path, _LARGEST), path, _LARGEST)
            kind = EVENT_TYPES[stored["kind"]]
            outcome = kind.model_validate(stored["outcome"])
        except NotFound:
            return None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(
                f"the outcome stored for {command_id} can't be read: {error}"
            ) from error
        return outcome if isinstance(outcome, Outcome) else None

    def put(self, command_id: str, outcome: Outcome) -> None:
        """Store an outcome, unless the command already has one."""
        stored = {"kind": type(outcome).__name__, "outcome": outcome.model_dump(mode="json")}
        with suppress(AlreadyExists):
            self.warehouse.create(self.path_of(command_id), json.dumps(stored).encode())

    def started_at(self, command_id: str) -> str | None:
        """The instant at which the work for a command was put on the timeline.

        Raises:
            FormatError: the instant can't be read.
        """
        try:
            content = self.warehouse.read(self.path_of(command_id, "begun"), MAX_SMALL)
        except NotFound:
            return None
        if not is_instant(instant := content.decode("latin-1")):
            raise FormatError(f"{self.path_of(command_id, 'begun')} does not contain an instant")
        return instant

    def record_start(self, command_id: str, instant: str) -> None:
        """Record the instant at which the work for a command is on the timeline."""
        with suppress(AlreadyExists):
            self.warehouse.create(self.path_of(command_id, "begun"), instant.encode())

    @property
    def directory(self) -> str:
        """The directory of the outcomes; it exists once a start was recorded."""
        return join(self.location, FOLDER, self.folder)

    def path_of(self, command_id: str, suffix: str = "json") -> str:
        """The path of the outcome of a command.

        Raises:
            ConfinementError: the path leads through a link.
        """
        # a command's id may be any text, so its hash is the file name
        name = f"{derived_id('answer', command_id)}.{suffix}"
        return self.warehouse.roots.check(join(self.directory, name))


def remove_before(warehouse: Warehouse, location: str, service: str, day: date) -> None:
    """Remove the folders before `day` of a service with daily folders (`service/2026-11-21`)."""
    try:
        folders = warehouse.list(join(location, FOLDER, service))
    except NotFound:
        return
    for folder in folders:
        if folder.is_dir and folder.name < day.isoformat():
            warehouse.remove_tree(folder.path)
