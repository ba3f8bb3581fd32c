"""Carrying a restore out, each step safe to repeat: a crash anywhere is resumed to the same end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from tidegate.errors import ConfinementError, TransientError
from tidegate.hudi import (
    WRITES,
    Action,
    Instant,
    RestoreMetadata,
    RestorePlanFile,
    RollbackMetadata,
    RollbackPlan,
    State,
)
from tidegate.hudi.properties import METADATA_PARTITIONS, without
from tidegate.hudi_reader import HudiTable
from tidegate.hudi_reader.table import PROPERTIES, read_properties
from tidegate.hudi_tables import TimelineWriter, with_checksum
from tidegate.restores.finished import plan_of_rollback, trim
from tidegate.restores.plan import MARKERS, METADATA_TABLE, PlannedRestore, Step
from tidegate.restores.preparation import BYTES_NOTE, COMMAND_NOTE, FILES_NOTE, PLAN_NOTE
from tidegate.restores.repeats import answers_of
from tidegate.restores.tools import Tools
from tidegate.storage import is_below, join
from tidegate.warehouse import Warehouse


@dataclass(frozen=True)
class RestoreRun:
    """One attempt. Call `begin`, then `drop_metadata_table`, `roll_back` each step, `finish`."""

    tools: Tools
    table: HudiTable
    plan: PlannedRestore
    instant: Instant

    @classmethod
    def begin(cls, tools: Tools, table: HudiTable, plan: PlannedRestore, command_id: str) -> Self:
        """Put the restore on the timeline, where it keeps writers out, or take up a pending one.

        From here on the table knows that this command, and the one that began what is taken up,
        belong to this restore.

        Raises:
            TransientError: the table changed since the plan was made, or another restore began.
        """
        writer = TimelineWriter(tools.warehouse, table, tools.clock)
        timestamp = plan.resumes or writer.new_instant()
        requested = Instant(timestamp, Action.RESTORE, State.REQUESTED)
        if plan.resumes is None:
            notes = {
                PLAN_NOTE: plan.plan_id,
                FILES_NOTE: str(plan.files),
                BYTES_NOTE: str(plan.bytes),
                COMMAND_NOTE: command_id,
            }
            content = RestorePlanFile(plan.targets, plan.savepoint, notes).encode()
            cls._claim(writer, requested, content)
        answers = answers_of(tools.warehouse, table.location)
        for command in {plan.begun_for or command_id, command_id}:
            answers.begin(command, timestamp)
        inflight = replace(requested, state=State.INFLIGHT)
        writer.begin(inflight)
        return cls(tools, table, plan, inflight)

    @staticmethod
    def _claim(writer: TimelineWriter, requested: Instant, content: bytes) -> None:
        """Whoever finds the table otherwise unchanged after its own request may go on."""
        if not writer.begin(requested, content):
            raise TransientError(f"another restore began at {requested.timestamp}")
        before = (*writer.table.timeline.instants, requested)
        now = writer.table.reloaded().timeline.instants
        if sorted(before, key=repr) != sorted(now, key=repr):
            writer.remove([requested])
            raise TransientError("the table changed while its restore was planned")

    @property
    def _writer(self) -> TimelineWriter:
        return TimelineWriter(self.tools.warehouse, self.table, self.tools.clock)

    def drop_metadata_table(self) -> None:
        """Make readers list again; the next Hudi write builds the metadata table anew.

        Readers are told first, so that none is left with a table that is going away.

        Raises:
            TransientError: another process completed the restore meanwhile.
        """
        if not self.plan.steps:
            return
        self._look()
        content = read_properties(self.tools.warehouse, self.table.location)
        edited = without(content, METADATA_PARTITIONS)
        if edited != content:
            self.tools.warehouse.replace(join(self.table.location, PROPERTIES), edited)
        self.tools.warehouse.remove_tree(join(self.table.location, METADATA_TABLE))

    def roll_back(self, step: Step) -> RollbackMetadata:
        """Roll one instant back, in Hudi's order: unpublish it, then its data, then its traces.

        The rollback's plan is on the timeline before the instant is unpublished, so the list of
        its files outlives the metadata that they were read from.

        Raises:
            ConfinementError: a file lies outside the table; nothing of this instant was removed.
            TransientError: another process completed the restore meanwhile.
        """
        began = self.tools.clock()
        now = self._look()
        known = self._known_rollback(now, step.target.timestamp)
        if known is not None and known[0].state is State.COMPLETED:
            return RollbackMetadata.decode(self.table.read(known[0]))
        if known is None:
            known = self._request_rollback(step)
        rollback, plan = known
        paths = [self._data_file(path) for _, path in plan.files]
        self._writer.begin(replace(rollback, state=State.INFLIGHT))
        traces = _traces(now, step.target.timestamp)
        self._writer.remove([i for i in traces if i.state is State.COMPLETED])
        self.tools.fan_out.map(partial(_delete, self.tools.warehouse), paths)
        self._writer.remove([i for i in traces if i.state is not State.COMPLETED])
        markers = join(self.table.location, MARKERS, step.target.timestamp)
        self.tools.warehouse.remove_tree(markers)
        took_ms = int((self.tools.clock() - began).total_seconds() * 1000)
        deleted: dict[str, tuple[str, ...]] = {}
        for partition, path in plan.files:
            deleted[partition] = (*deleted.get(partition, ()), path)
        done = RollbackMetadata(rollback.timestamp, took_ms, plan.target, deleted)
        self._writer.complete(rollback, done.encode())
        return done

    def finish(self, metadata: RestoreMetadata) -> None:
        """Complete the restore and clear its rollbacks away. The answer must be kept by now."""
        self._writer.complete(self.instant, metadata.encode())
        trim(self._writer, self.plan.savepoint, metadata)

    def _look(self) -> HudiTable:
        """The table now; a process that slept while another finished must not touch it any more."""
        now = self.table.reloaded()
        if all(i.timestamp != self.instant.timestamp for i in now.timeline.pending_restores):
            raise TransientError(f"restore {self.instant.timestamp} is not pending any more")
        return now

    def _request_rollback(self, step: Step) -> tuple[Instant, RollbackPlan]:
        location = self.table.location
        files = tuple((file.partition, join(location, file.path)) for file in step.files)
        plan = RollbackPlan(step.target, files)
        rollback = Instant(self._writer.new_instant(), Action.ROLLBACK, State.REQUESTED)
        if not self._writer.begin(rollback, plan.encode()):
            raise TransientError(f"another rollback began at {rollback.timestamp}")
        return rollback, plan

    def _known_rollback(self, now: HudiTable, target: str) -> tuple[Instant, RollbackPlan] | None:
        """The rollback of `target` that an earlier attempt of this restore began."""
        for rollback in now.timeline.of_action(Action.ROLLBACK):
            if rollback.timestamp > self.instant.timestamp:
                plan = plan_of_rollback(now, rollback)
                if plan is not None and plan.target.timestamp == target:
                    return rollback, plan
        return None

    def _data_file(self, path: str) -> str:
        where = self.tools.warehouse.roots.check(path)
        meta = join(self.table.location, ".hoodie")
        if not is_below(where, self.table.location) or is_below(where, meta):
            raise ConfinementError(f"{path} is no data file of {self.table.location}")
        return where


def _traces(table: HudiTable, target: str) -> list[Instant]:
    """Every timeline file of a write, inflight before requested.

    The pending files of a completed clustering are among them. Hudi leaves those, and its next
    write then fails on the file groups that they claim.
    """
    files = [f for f in table.files if f.timestamp == target and f.action in WRITES]
    return sorted(files, key=lambda f: f.state, reverse=True)


def _delete(warehouse: Warehouse, path: str) -> int:
    return warehouse.remove_files(with_checksum(path))
