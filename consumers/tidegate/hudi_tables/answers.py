"""The answers that a table keeps: a command is answered once, however often it is heard.

Hearing a command again is normal (a crash, a replay), and by then the table may have moved on: a
restore that is repeated destroys what was written since, a savepoint that was removed comes back.
The timeline can't tell, because Hudi archives it. So the answer lies beside it, in
`.hoodie/.tidegate`, where Hudi does not look: it takes hidden folders there for nobody's.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import Outcome, derived_id
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.storage import NotFound, join
from tidegate.warehouse import AlreadyThere, Warehouse

FOLDER: Final = ".hoodie/.tidegate"


@dataclass(frozen=True, slots=True)
class Answers:
    """The kept answers of one kind. `shelf` is the folder they lie in, below FOLDER.

    Order of calls: `given` and `begun` before anything else is looked at; `begin` once the work is
    on the timeline; `keep` right before the step that completes it. A crash between `keep` and
    that step leaves an answer whose work is still pending there: the caller then goes on with it.
    """

    warehouse: Warehouse
    location: str
    shelf: str

    def given(self, command_id: str) -> Outcome | None:
        """The answer that was given to a command.

        Raises:
            FormatError: it can't be read.
        """
        try:
            told = json.loads(self.warehouse.read(self._path(command_id, "json")))
            kind = EVENT_TYPES[told["kind"]]
            answer = kind.model_validate(told["outcome"])
        except NotFound:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"the answer kept for {command_id} can't be read") from error
        return answer if isinstance(answer, Outcome) else None

    def keep(self, command_id: str, outcome: Outcome) -> None:
        """Keep an answer; one that was kept before stays."""
        told = {"kind": type(outcome).__name__, "outcome": outcome.model_dump(mode="json")}
        with suppress(AlreadyThere):
            self.warehouse.create(self._path(command_id, "json"), json.dumps(told).encode())

    def begun(self, command_id: str) -> str | None:
        """The instant under which the work for a command was begun."""
        try:
            return self.warehouse.read(self._path(command_id, "begun")).decode()
        except NotFound:
            return None

    def begin(self, command_id: str, instant: str) -> None:
        """Note the instant under which the work for a command is on the timeline."""
        with suppress(AlreadyThere):
            self.warehouse.create(self._path(command_id, "begun"), instant.encode())

    def _path(self, command_id: str, suffix: str) -> str:
        # an id from outside may be any text, so it names no file itself
        name = f"{derived_id('answer', command_id)}.{suffix}"
        return join(self.location, FOLDER, self.shelf, name)


def forget_before(warehouse: Warehouse, location: str, service: str, day: date) -> None:
    """Remove the answers of a service that has a shelf a day (`service/2026-11-21`)."""
    try:
        shelves = warehouse.list(join(location, FOLDER, service))
    except NotFound:
        return
    for shelf in shelves:
        if shelf.is_dir and shelf.name < day.isoformat():
            warehouse.remove_tree(shelf.path)
