"""The cleaner's commands about directories in quarantine: undo and final removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.plan import partition_path
from tidegate.cleaning.quarantine import mark_undone, put_back, read_entries, remove_for_good
from tidegate.cleaning.quarantine_record import Entry
from tidegate.cleaning.undo_plan import UndoPlan, plan_undo
from tidegate.errors import ConfinementError, FormatError, TransientError
from tidegate.events import (
    CleaningRefused,
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRefused,
    CleaningUndoRequested,
    Outcome,
    QuarantineRemovalRequested,
    QuarantineRemoved,
)
from tidegate.events.parts import split_by_names
from tidegate.events.reasons import Reason
from tidegate.storage import NotFound, ParallelMap, join
from tidegate.tables.refusal import Refused, refusal_of
from tidegate.tables.task_numbers import NO_CLAIM, Unclaimed
from tidegate.tables.warehouse import Warehouse

_SOURCE = "cleaner"


@dataclass(frozen=True, slots=True)
class QuarantineCommands:
    """Executes the two commands about a quarantine. A command may run twice, even concurrently."""

    warehouse: Warehouse
    parallel_map: ParallelMap
    clock: Callable[[], datetime]
    claim: Unclaimed = NO_CLAIM

    def undo(self, command: CleaningUndoRequested) -> Iterator[Outcome]:
        """Put back the directories of a cleaning, unless a reader could then see a row twice.

        Raises:
            TransientError: the table or the quarantine changed during the undo.
            OSError: the file system refuses to move a directory.
        """
        began = self.clock()
        try:
            location = location_of(self.warehouse, command.location, command.partition)
            plan = self._plan(location, command)
        except Refused as refused:
            yield CleaningUndoRefused.about(
                command,
                **self._event_fields(command),
                cleaning=command.cleaning,
                reason=refused.reason,
                message=refused.message,
            )
            return
        if command.plan_only:
            for fields in self._parts(command, plan.sizes):
                yield CleaningUndoPlanned.about(command, **fields)
            return
        put_back(self.warehouse, location, plan, self.claim)
        self._verify(location, plan)
        self.claim.check()
        mark_undone(self.warehouse, plan, command.event_id)
        took = self._took(began)
        for fields in self._parts(command, plan.sizes):
            yield CleaningUndone.about(command, **fields, duration_ms=took)

    def remove(self, command: QuarantineRemovalRequested) -> Iterator[Outcome]:
        """Remove the directories of a cleaning for good. Missing ones count as removed.

        Raises:
            OSError: the file system refuses to remove a directory.
        """
        began = self.clock()
        try:
            location = location_of(self.warehouse, command.location, command.partition)
            own = [e for e in self._entries(location) if e.record.cleaning == command.cleaning]
        except Refused as refused:
            yield CleaningRefused.about(
                command,
                **self._event_fields(command),
                reason=refused.reason,
                message=refused.message,
            )
            return
        sizes = {name: size for entry in own for name, size in entry.sizes.items()}
        remove_for_good(self.warehouse, location, own, self.parallel_map, self.claim)
        if any(e.record.cleaning == command.cleaning for e in self._entries(location)):
            raise TransientError(f"the quarantine in {location} changed during its removal")
        took = self._took(began)
        for fields in self._parts(command, sizes):
            yield QuarantineRemoved.about(command, **fields, duration_ms=took)

    def _plan(self, location: str, command: CleaningUndoRequested) -> UndoPlan:
        entries = self._entries(location)
        try:
            listing = read_acid_directories(self.warehouse, location, self.parallel_map)
        except (ConfinementError, FormatError) as error:
            raise refusal_of(error) from error
        return plan_undo(listing, entries, command.cleaning, command.event_id)

    def _verify(self, location: str, plan: UndoPlan) -> None:
        """Check that every directory is back in its place.

        Raises:
            TransientError: one is missing, for example because the quarantine's removal began.
        """
        try:
            there = {entry.name for entry in self.warehouse.list(location) if entry.is_dir}
        except NotFound as error:  # dropped meanwhile: the next attempt refuses it
            raise TransientError(f"the directory is gone: {error}") from error
        if missing := sorted(plan.sizes.keys() - there):
            raise TransientError(f"not put back: {', '.join(missing[:5])}")

    def _entries(self, location: str) -> list[Entry]:
        try:
            return read_entries(self.warehouse, location, self.parallel_map)
        except ConfinementError as error:
            raise refusal_of(error) from error
        except FormatError as error:
            raise Refused(Reason.UNREADABLE_QUARANTINE, str(error)) from error

    def _parts(
        self,
        command: CleaningUndoRequested | QuarantineRemovalRequested,
        sizes: Mapping[str, tuple[int, int]],
    ) -> Iterator[dict[str, Any]]:
        """The fields of an outcome, split into parts if the names are too many for one message."""
        groups = split_by_names((name, name) for name in sorted(sizes))
        for number, group in enumerate(groups, 1):
            place = {"part": number, "parts": len(groups)} if len(groups) > 1 else {}
            files, size = (sum(sizes[name][n] for name in group) for n in (0, 1))
            fields = self._event_fields(command) | {"cleaning": command.cleaning}
            yield fields | {"directories": group, "files": files, "bytes": size} | place

    def _took(self, began: datetime) -> int:
        return max(0, (self.clock() - began) // timedelta(milliseconds=1))

    def _event_fields(
        self, command: CleaningUndoRequested | QuarantineRemovalRequested
    ) -> dict[str, Any]:
        return {
            "occurred_at": self.clock(),
            "source": _SOURCE,
            "partition": command.partition,
        }


def location_of(warehouse: Warehouse, location: str, partition: str | None) -> str:
    """The directory of a table or partition, checked.

    Raises:
        Refused: it is not below the warehouse roots.
    """
    path = partition_path(partition)
    try:
        table = warehouse.roots.check(location)
        return warehouse.roots.check(join(table, path))
    except ConfinementError as error:
        raise refusal_of(error) from error
