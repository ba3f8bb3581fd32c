"""The cleaner: removes what a released vacuum made obsolete, and looks again before it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Final

from tidegate.cleaning.looking import look
from tidegate.cleaning.plan import CleaningPlan, partition_path, plan_cleaning
from tidegate.errors import ConfinementError, PermanentError, TidegateError, TransientError
from tidegate.events import (
    CleaningRefused,
    CleaningReleased,
    CleaningStarted,
    Command,
    DirectoriesCleaned,
    Outcome,
)
from tidegate.fanout import FanOut
from tidegate.refusals import Refusal, readable
from tidegate.storage import join
from tidegate.warehouse import ReachedByLink, Warehouse

_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Cleaner:
    """An executor (see `tidegate.runtime.services`). It may be asked twice, also at once.

    A directory that was removed half keeps its name, so the next run finds and removes it.
    """

    warehouse: Warehouse
    fan_out: FanOut
    clock: Callable[[], datetime]
    name: ClassVar[str] = "cleaner"
    hears: ClassVar[tuple[type[Command], ...]] = (CleaningReleased,)
    looks_back: ClassVar[bool] = False

    def is_answered(self, outcomes: Sequence[Outcome]) -> bool:  # noqa: ARG002 - the protocol's
        """Never: what is gone stays gone."""
        return False

    def plan(self, command: CleaningReleased) -> CleaningPlan | Refusal:
        """Look, and say what would be removed or why nothing may; change nothing."""
        location = self._location(command)
        if isinstance(location, Refusal):
            return location
        return plan_cleaning(look(self.warehouse, location, self.fan_out), command)

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Remove what is obsolete; where nothing is, say at once that it is clean.

        Raises:
            TransientError: something could not be removed, or came back.
            PermanentError: this is no CleaningReleased.
        """
        if not isinstance(command, CleaningReleased):
            raise PermanentError(f"the cleaner does not know {type(command).__name__}")
        began = self.clock()
        planned = self.plan(command)
        if isinstance(planned, Refusal):
            yield self._refused(command, planned)
            return
        if planned.remove:
            yield CleaningStarted.about(command, **self._told(command, planned))
        self._remove(command, planned)
        took = (self.clock() - began) // timedelta(milliseconds=1)
        told = self._told(command, planned)
        yield DirectoriesCleaned.about(command, **told, duration_ms=max(0, took))

    def _location(self, command: CleaningReleased) -> str | Refusal:
        partition = partition_path(command)
        if isinstance(partition, Refusal):
            return partition
        try:
            table = self.warehouse.roots.check(command.location)
            return self.warehouse.roots.check(join(table, partition))
        except ReachedByLink as error:
            return Refusal("link-inside", str(error))
        except ConfinementError as error:
            return Refusal("outside-warehouse", str(error))

    def _remove(self, command: CleaningReleased, planned: CleaningPlan) -> None:
        """Remove, look again, and so on until nothing is left: another process may be at it too."""
        errors: list[str | None] = []
        for _ in range(_ROUNDS):
            if not planned.remove:
                return
            errors = self._remove_once(planned)
            after = self.plan(command)
            if isinstance(after, Refusal):
                raise TransientError(f"the table changed meanwhile: {after.message}")
            planned = after
        if planned.remove:
            why = next((error for error in errors if error), "it came back")
            raise TransientError(f"{', '.join(planned.directories)} is still there: {why}")

    def _remove_once(self, planned: CleaningPlan) -> list[str | None]:
        errors: list[str | None] = []
        for wave in planned.waves:
            if any(errors):
                break
            paths = [each.path for each in wave]
            errors += self.fan_out.map(partial(_remove_tree, self.warehouse), paths)
        return errors

    def _refused(self, command: CleaningReleased, refusal: Refusal) -> CleaningRefused:
        return CleaningRefused.about(
            command,
            **self._subject(command),
            reason=refusal.reason,
            message=refusal.message,
        )

    def _told(self, command: CleaningReleased, plan: CleaningPlan) -> dict[str, Any]:
        counts = {"files": plan.files, "bytes": plan.bytes}
        return self._subject(command) | {"directories": plan.directories} | counts

    def _subject(self, command: CleaningReleased) -> dict[str, Any]:
        return {
            "occurred_at": self.clock(),
            "said_by": self.name,
            "partition": command.partition,
        }


def _remove_tree(warehouse: Warehouse, path: str) -> str | None:
    """Remove one directory; say what went wrong, because Spark would hide an error's type."""
    try:
        warehouse.remove_tree(path)
    except (OSError, TidegateError) as error:
        return readable(str(error))
    return None
