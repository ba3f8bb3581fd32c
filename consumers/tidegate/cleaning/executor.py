"""The cleaner: removes the directories that a released vacuum made obsolete, then verifies it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.plan import CleaningPlan, partition_path, plan_cleaning
from tidegate.cleaning.removal import NotRemoved, remove_directories
from tidegate.errors import ConfinementError, FormatError, PermanentError, TransientError
from tidegate.events import (
    CleaningRefused,
    CleaningReleased,
    CleaningStarted,
    Command,
    DirectoriesCleaned,
    Outcome,
)
from tidegate.events.parts import split_by_names
from tidegate.runtime.gc_pause import gc_paused
from tidegate.runtime.retry import is_lasting
from tidegate.storage import ParallelMap, join
from tidegate.tables.refusal import Refused, refusal_of
from tidegate.tables.warehouse import Warehouse

_ROUNDS: Final = 3
_NAMED: Final = 5
"""Directories that an error names."""


@dataclass(frozen=True, slots=True)
class Cleaner:
    """An executor (see `tidegate.runtime.protocols`) of CleaningReleased.

    It may run the same command again, also at the same time. A directory that was removed in part
    keeps its name, so that the next run finds it.
    """

    warehouse: Warehouse
    parallel_map: ParallelMap
    clock: Callable[[], datetime]
    name: ClassVar[str] = "cleaner"
    consumes: ClassVar[tuple[type[Command], ...]] = (CleaningReleased,)
    checks_past_outcomes: ClassVar[bool] = False

    def is_answered(
        self,
        command: Command,  # noqa: ARG002 - the protocol's
        outcomes: Sequence[Outcome],  # noqa: ARG002 - the protocol's
    ) -> bool:
        """Never: cleaning again is safe, because what is removed stays removed."""
        return False

    def plan(self, command: CleaningReleased) -> CleaningPlan:
        """List the directory and plan what would be removed; change nothing.

        Raises:
            Refused: nothing may be removed.
            TransientError: a later vacuum's cleaning is under way; plan again later.
        """
        location = self._location(command)
        with gc_paused():  # a large table's listing took a third longer with collections
            try:
                listing = read_acid_directories(self.warehouse, location, self.parallel_map)
            except (ConfinementError, FormatError) as error:  # exchanged with a link, or too deep
                raise refusal_of(error) from error
            return plan_cleaning(listing, command)

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Remove what is obsolete; if nothing is, report at once that the directory is clean.

        Raises:
            OSError: the file system refuses to remove a directory, now and later.
            TransientError: a directory could not be removed or is there again, or a later vacuum's
                cleaning is under way.
            PermanentError: `command` is not a CleaningReleased.
        """
        if not isinstance(command, CleaningReleased):
            raise PermanentError(f"the cleaner cannot execute a {type(command).__name__}")
        started_at = self.clock()
        try:
            plan = self.plan(command)
        except Refused as refused:
            yield self._refused(command, refused)
            return
        if plan.remove:
            for fields in self._parts(command, plan):
                yield CleaningStarted.about(command, **fields)
        self._remove(command, plan)
        took = (self.clock() - started_at) // timedelta(milliseconds=1)
        done = {"superseded_by": plan.superseded_by, "duration_ms": max(0, took)}
        for fields in self._parts(command, plan):
            yield DirectoriesCleaned.about(command, **fields, **done)

    def _location(self, command: CleaningReleased) -> str:
        partition = partition_path(command)
        try:
            table = self.warehouse.roots.check(command.location)
            return self.warehouse.roots.check(join(table, partition))
        except ConfinementError as error:
            raise refusal_of(error) from error

    def _remove(self, command: CleaningReleased, plan: CleaningPlan) -> None:
        """Remove and plan again until nothing is left: another process may be removing too."""
        failed: list[NotRemoved] = []
        for _ in range(_ROUNDS):
            if not plan.remove:
                return
            failed = remove_directories(self.warehouse, plan, self.parallel_map)
            try:
                plan = self.plan(command)
            except Refused as refused:
                raise TransientError(f"the table changed during cleaning: {refused}") from refused
        if plan.remove:
            raise _fault(plan, failed)

    def _refused(self, command: CleaningReleased, refused: Refused) -> CleaningRefused:
        return CleaningRefused.about(
            command,
            **self._envelope(command),
            reason=refused.reason,
            message=refused.message,
        )

    def _parts(self, command: CleaningReleased, plan: CleaningPlan) -> Iterator[dict[str, Any]]:
        """The fields of an outcome, in parts where the names are too many for one message."""
        groups = split_by_names((each.name, each) for each in plan.remove)
        for number, group in enumerate(groups, 1):
            part = CleaningPlan(tuple(group))
            counts = {"files": part.files, "bytes": part.bytes}
            place = {"part": number, "parts": len(groups)} if len(groups) > 1 else {}
            yield self._envelope(command) | {"directories": part.directories} | counts | place

    def _envelope(self, command: CleaningReleased) -> dict[str, Any]:
        return {
            "occurred_at": self.clock(),
            "said_by": self.name,
            "partition": command.partition,
        }


def _fault(plan: CleaningPlan, failed: Sequence[NotRemoved]) -> Exception:
    """Why directories are left: the file system's own error, unless any of them may pass."""
    cause = failed[0].reason if failed else "they were created again"
    names = ", ".join(plan.directories[:_NAMED])
    more = f" and {len(plan.remove) - _NAMED} more" if len(plan.remove) > _NAMED else ""
    lasting = [each.fault for each in failed if each.fault is not None and is_lasting(each.fault)]
    if lasting and len(lasting) == len(failed):
        return lasting[0]
    return TransientError(f"not removed: {names}{more}: {cause}")
