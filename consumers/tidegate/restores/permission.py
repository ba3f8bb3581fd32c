"""Who may have a table restored: the names that the settings list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

from tidegate.events import Command, Outcome, RestoreRequested
from tidegate.events.reasons import Reason
from tidegate.restores.executor import Restorer
from tidegate.tables.refusal import Refused


class PermittedRestorer:
    """A restorer that refuses (`not-allowed`) requests by people whom the settings do not list.

    The name in an event is whatever its publisher wrote: only the broker's access rights on the
    commands topic keep others from writing that name. Anybody may ask for a dry run.
    """

    name: ClassVar[str] = Restorer.name
    consumes: ClassVar[tuple[type[Command], ...]] = Restorer.consumes
    checks_past_outcomes: ClassVar[bool] = Restorer.checks_past_outcomes

    def __init__(self, restorer: Restorer, requested_by: Sequence[str]) -> None:
        """Take the restorer, and shell patterns of the names that may request restores."""
        self._restorer, self._requested_by = restorer, tuple(requested_by)

    def is_answered(self, command: Command, outcomes: Sequence[Outcome]) -> bool:
        """Ask the restorer."""
        return self._restorer.is_answered(command, outcomes)

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Check the name before the table is read."""
        if isinstance(command, RestoreRequested) and not self._may(command):
            who = command.requested_by
            message = f"{who} is not listed in restores.requested_by"
            yield self._restorer.rejected(command, Refused(Reason.NOT_ALLOWED, message))
            return
        yield from self._restorer.execute(command)

    def _may(self, command: RestoreRequested) -> bool:
        who = command.requested_by
        return command.plan_only or any(fnmatchcase(who, each) for each in self._requested_by)
