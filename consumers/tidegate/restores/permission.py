"""Who may have a table restored: the names that the settings list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

from tidegate.events import Command, Outcome, RestoreRejected, RestoreRequested
from tidegate.restores.executor import Restorer

NOT_ALLOWED = "not-allowed"


class PermittedRestorer:
    """A restorer that answers RestoreRejected (`not-allowed`) to whom the settings do not list.

    A name in an event is what its publisher says: the broker's access rights on the commands topic
    are what keeps others from saying it. A dry run changes nothing and is for everybody.
    """

    name: ClassVar[str] = Restorer.name
    hears: ClassVar[tuple[type[Command], ...]] = Restorer.hears
    looks_back: ClassVar[bool] = Restorer.looks_back

    def __init__(self, restorer: Restorer, requested_by: Sequence[str]) -> None:
        """Take the restorer, and shell patterns of the people who may ask it."""
        self._restorer, self._requested_by = restorer, tuple(requested_by)

    def is_answered(self, outcomes: Sequence[Outcome]) -> bool:
        """As the restorer says."""
        return self._restorer.is_answered(outcomes)

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Look at who asks before anything is looked at or changed."""
        if isinstance(command, RestoreRequested) and not self._may(command):
            yield self._refusal(command)
            return
        yield from self._restorer.execute(command)

    def _may(self, command: RestoreRequested) -> bool:
        who = command.requested_by
        return command.plan_only or any(fnmatchcase(who, each) for each in self._requested_by)

    def _refusal(self, command: RestoreRequested) -> RestoreRejected:
        return RestoreRejected.about(
            command,
            said_by=self.name,
            occurred_at=self._restorer.tools.clock(),
            savepoint=command.savepoint,
            reason=NOT_ALLOWED,
            message=f"{command.requested_by} is not listed in restores.requested_by",
        )
