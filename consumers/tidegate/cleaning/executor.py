"""The cleaner: removes the directories that a released vacuum made obsolete, then verifies it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from tidegate.cleaning.confirmation import NOT_NOW, Proof
from tidegate.cleaning.directory_reader import location_of, read_acid_directories
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.outcomes import event_fields, parts
from tidegate.cleaning.plan import (
    Cleaning,
    CleaningPlan,
    check_complete,
    may_have_failed,
    plan_aborted_cleaning,
    plan_cleaning,
)
from tidegate.cleaning.quarantine import MoveAside, QuarantineRecord
from tidegate.cleaning.quarantine_commands import remove_quarantine, undo
from tidegate.cleaning.removal import NotRemoved, remove_directories
from tidegate.cleaning.second_source import SecondSource, check_files
from tidegate.cleaning.settings import CleaningSettings, Handling
from tidegate.errors import ConfinementError, FormatError, PermanentError, TransientError
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningMode,
    CleaningProgressed,
    CleaningRefused,
    CleaningReleased,
    CleaningStarted,
    CleaningUndoRequested,
    Command,
    DirectoriesCleaned,
    Outcome,
    QuarantineRemovalRequested,
)
from tidegate.events.fields import elapsed_ms
from tidegate.events.reasons import Reason
from tidegate.events.refusals import not_confirmed
from tidegate.runtime.gc_pause import gc_paused
from tidegate.runtime.protocols import PROGRESS_EVERY, Published
from tidegate.runtime.retry import is_lasting
from tidegate.storage import ParallelMap
from tidegate.tables.claim import HIVE, Claim, Task
from tidegate.tables.refusal import Refused, readable, refusal_of
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse

_ROUNDS: Final = 3
_SETTINGS: Final = CleaningSettings()
_BELIEVED: Final = SecondSource(believed=True)
_NAMED: Final = 5
"""The most directories that an error names."""


@dataclass(frozen=True, slots=True)
class Cleaner:
    """An executor (see `tidegate.runtime.protocols`) of cleanings, undos and final removals.

    It may run the same command twice, even concurrently. A partly removed directory has the same
    name as before, so the next run finds it. If the coordinator stops a cleaning, because a person
    holds the table, it ends at its next check of the claim.
    """

    warehouse: Warehouse
    parallel_map: ParallelMap
    clock: Callable[[], datetime]
    settings: CleaningSettings = _SETTINGS
    second: SecondSource = _BELIEVED
    """Confirms a removal, besides the events."""
    confirm_every: timedelta = timedelta(minutes=1)
    """Between two questions to the second source, while directories go."""
    progress_every: timedelta = PROGRESS_EVERY
    """Between two outcomes about the progress of a long cleaning."""
    name: ClassVar[str] = "cleaner"
    consumes: ClassVar[tuple[type[Command], ...]] = (
        CleaningReleased,
        CleaningUndoRequested,
        QuarantineRemovalRequested,
        AbortedCleaningReleased,
    )

    def plan(self, command: Cleaning) -> CleaningPlan:
        """List the directory and plan what would be removed; change nothing.

        Raises:
            Refused: nothing may be removed.
            TransientError: a later vacuum's cleaning is under way; plan again later.
        """
        location = location_of(self.warehouse, command.location, command.partition)
        with gc_paused():  # a large table's listing took a third longer with collections
            try:
                listing = read_acid_directories(self.warehouse, location, self.parallel_map)
            except (ConfinementError, FormatError) as error:  # exchanged with a link, or too deep
                raise refusal_of(error) from error
            if isinstance(command, AbortedCleaningReleased):
                return plan_aborted_cleaning(listing, command)
            try:
                plan = plan_cleaning(listing, command)
            except Refused:
                if not may_have_failed(listing or (), command):
                    raise
            else:
                if not may_have_failed(listing or (), command, plan):
                    return plan
            return plan_cleaning(listing, command, self.second.aborted(command))

    def claim(self, command: Command, task: Task) -> Claim:
        """Claim the directory of the table or partition."""
        partition = getattr(command, "partition", None)
        table = location_of(self.warehouse, command.location, None)
        location = location_of(self.warehouse, table, partition) if partition else table
        return Claim.take(self.warehouse, location, HIVE, task, table=table if partition else None)

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,
        grounds: Sequence[Published] = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        """Remove or quarantine obsolete directories, undo a quarantine, or remove it for good.

        Raises:
            Overtaken, AlreadyDone: another task, or another worker of this one, has the table.
            OSError: the file system refuses to remove a directory, now and later.
            TransientError: a directory could not be removed or appeared again, or a later vacuum's
                cleaning is under way.
            PermanentError: the cleaner does not execute such a command.
        """
        tools = self.warehouse, self.parallel_map, self.clock, claim
        match command:
            case CleaningReleased() | AbortedCleaningReleased():
                yield from self._clean(command, claim)
            case CleaningUndoRequested():
                yield from undo(command, *tools)
            case QuarantineRemovalRequested():
                yield from remove_quarantine(command, *tools)
            case _:
                raise PermanentError(f"the cleaner cannot execute a {type(command).__name__}")

    def _clean(self, command: Cleaning, claim: AnyClaim) -> Iterator[Outcome]:
        """Remove obsolete directories; without any, report at once that the table is clean."""
        started_at = self.clock()
        try:
            plan = self.plan(command)
            handling = self.handling(command, plan)
            how = {"mode": handling.mode, "keep_ms": handling.keep_ms}
            for fields in parts(plan.sizes) if plan.remove else ():
                yield CleaningStarted.about(command, **self._event_fields(command), **fields, **how)
            yield from self._removing(command, plan, handling, claim)
        except Refused as refused:  # the second source may contradict later, too
            yield self._refused(command, refused)
            return
        took_ms = elapsed_ms(started_at, self.clock())
        done = {"superseded_by": plan.superseded_by, "duration_ms": took_ms}
        for fields in parts(plan.sizes):
            common = self._event_fields(command) | done | how
            yield DirectoriesCleaned.about(command, **common, **fields)

    def _removing(
        self, command: Cleaning, plan: CleaningPlan, handling: Handling, claim: AnyClaim
    ) -> Iterator[Outcome]:
        """Remove and plan again until nothing is left: another process may remove as well.

        Yields how far a long removal is.
        """
        remove, progress = self._removal(command, plan, handling, claim), _Progress(plan)
        failed: list[NotRemoved] = []
        for _ in range(_ROUNDS):
            if not plan.remove:
                return
            claim.check()
            failed = []
            for gone in remove(plan, failed):
                yield from self._between(command, plan, gone, progress)
            if failed:  # perhaps because another task has the table
                claim.check()
            try:
                plan = self.plan(command)
            except Refused as refused:
                if (
                    failed and refused.reason is Reason.OTHER_CONTENT
                ):  # some were removed, some were not
                    raise _fault(plan, failed) from refused
                raise TransientError(f"the table changed during cleaning: {refused}") from refused
        if plan.remove:
            raise _fault(plan, failed)

    def _between(
        self,
        command: Cleaning,
        plan: CleaningPlan,
        gone: Sequence[ListedDirectory],
        progress: _Progress,
    ) -> Iterator[Outcome]:
        """While directories go: ask the second source again, and yield the progress.

        Raises:
            Refused: the removal is not confirmed any more.
        """
        progress.directories += len(gone)
        progress.files += sum(len(directory.files) for directory in gone)
        now, total = time.monotonic(), len(progress.plan.remove)
        if now - progress.asked_at >= self.confirm_every.total_seconds():
            self._confirm(command, plan)
            progress.asked_at = time.monotonic()
        is_due = now - progress.reported_at >= self.progress_every.total_seconds()
        if is_due and gone and progress.directories < total:
            progress.reported_at = now
            yield CleaningProgressed.about(
                command,
                **self._event_fields(command),
                directories_done=progress.directories,
                directories_total=total,
                files_done=progress.files,
                files_total=progress.plan.files,
            )

    def _removal(
        self, command: Cleaning, plan: CleaningPlan, handling: Handling, claim: AnyClaim
    ) -> Callable[[CleaningPlan, list[NotRemoved]], Iterator[Sequence[ListedDirectory]]]:
        """How directories go: removed, or moved into one entry of the quarantine."""
        if handling.mode is CleaningMode.DELETE or isinstance(command, AbortedCleaningReleased):
            claims, parallel_map = claim.numbers, self.parallel_map
            return lambda plan, failed: remove_directories(
                self.warehouse, plan.phases, plan.products, parallel_map, failed, claim=claims
            )
        location = location_of(self.warehouse, command.location, command.partition)
        keep = handling.keep_ms or 0
        record = QuarantineRecord.of(command, plan, handling.why, self.clock(), keep)
        return MoveAside(self.warehouse, location, record, claim)

    def handling(self, command: Cleaning, plan: CleaningPlan) -> Handling:
        """Whether to delete or quarantine, by the rules and by the second source's proof.

        Directories of aborted writes are always deleted: if they were put back later, readers could
        see their rows, because by then the Metastore may have forgotten that the writes aborted.

        Raises:
            Refused: the products are not complete, and nothing else proves that they are; or
                nothing may be removed now.
        """
        proof = self._confirm(command, plan) if plan.remove else Proof.CONFIRMED
        if proof is Proof.UNPROVEN:
            check_files(self.warehouse, plan, command, self.parallel_map)
        elif proof is Proof.BELIEVED:
            check_complete(plan, command)
        if isinstance(command, AbortedCleaningReleased):
            return Handling(CleaningMode.DELETE, timedelta(0), "")
        handling = self.settings.handling(command)
        can = self.warehouse.can(command.location)
        can_return = can.renames or can.versions
        if proof is Proof.UNPROVEN and can_return and handling.mode is CleaningMode.DELETE:
            why = "no second source can prove that the compaction committed"
            return replace(handling, mode=CleaningMode.QUARANTINE, why=why)
        return handling

    def _confirm(self, command: Cleaning, plan: CleaningPlan) -> Proof:
        """Ask the second source.

        Raises:
            Refused: it contradicts, or does not answer.
        """
        try:
            return self.second.confirm(command, plan)
        except TransientError as error:
            raise Refused(Reason.SECOND_SOURCE_AWAY, str(error)) from error

    def _refused(self, command: Cleaning, refused: Refused) -> Outcome:
        """A removal that is not confirmed is tried again later; the bridge finds aborted writes."""
        if refused.reason in NOT_NOW and isinstance(command, CleaningReleased):
            return not_confirmed(command, refused.reason, refused.message, self.clock())
        return CleaningRefused.about(command, **self._event_fields(command), **refused.fields)

    def _event_fields(self, command: Cleaning) -> dict[str, Any]:
        return event_fields(command, self.clock())


@dataclass(slots=True)
class _Progress:
    """How far a cleaning is; it was confirmed just now."""

    plan: CleaningPlan
    """The first one."""
    directories: int = 0
    files: int = 0
    asked_at: float = field(default_factory=time.monotonic)
    """When the second source was asked."""
    reported_at: float = field(default_factory=time.monotonic)


def _fault(plan: CleaningPlan, failed: Sequence[NotRemoved]) -> Exception:
    """The error for directories that are left: a lasting one only if all of them are lasting."""
    cause = readable(failed[0].reason) if failed else "they were created again"
    names = ", ".join(plan.directories[:_NAMED])
    more = f" and {len(plan.remove) - _NAMED} more" if len(plan.remove) > _NAMED else ""
    lasting = [left.fault for left in failed if left.fault is not None and is_lasting(left.fault)]
    if lasting and len(lasting) == len(failed):
        return lasting[0]
    return TransientError(f"not removed: {names}{more}: {cause}")
