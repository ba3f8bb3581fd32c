"""Carry out a restore. Every step can be repeated: after a crash, a resume reaches the same end.

The order is as in Hudi. The restore is put on the timeline, where it blocks writers. Then the
instants are rolled back, newest first, pass by pass. Then the restore is completed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

from tidegate.errors import ConfinementError, FormatError, TransientError
from tidegate.events.fields import elapsed_ms
from tidegate.hudi.instant import WRITES, Action, Instant, InstantState, instant_of
from tidegate.hudi.rollback import RestoreMetadata, RestorePlanFile, RollbackMetadata
from tidegate.hudi.rollback_block import MAX_SIZE, RollbackBlock
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores.checks import is_abandoned_savepoint
from tidegate.restores.context import RestoreContext
from tidegate.restores.hudi_engine import restore_by_hudi
from tidegate.restores.metadata_table import drop_metadata_table
from tidegate.restores.plan import (
    COMMAND_KEY,
    MARKERS,
    STEPS_KEY,
    PlannedRestore,
    Step,
    passes,
    summarise,
)
from tidegate.restores.repeats import record_start, trim
from tidegate.storage import is_below, join
from tidegate.tables.hudi import TimelineWriter
from tidegate.tables.warehouse import AlreadyExists

_BATCH: Final = 100_000
"""Files that are removed between two checks of the claim, or up to twice as many."""


@dataclass(frozen=True)
class RestoreRun:
    """One attempt at a restore.

    Order of calls: `begin`, `drop_metadata_table`, for each pass `check_savepoints` and
    `roll_back`, then `check_end`, `finish`.
    """

    context: RestoreContext
    table: HudiTable
    plan: PlannedRestore
    instant: Instant

    @classmethod
    def begin(
        cls, context: RestoreContext, table: HudiTable, plan: PlannedRestore, command_id: str
    ) -> Self:
        """Create the restore's requested and inflight files, or adopt those of a pending restore.

        Records this command on the table as one of this restore's, and also the command for which
        a pending restore began.

        Raises:
            TransientError: the table changed since the plan was made, or another restore began.
        """
        writer = TimelineWriter(context.warehouse, table, context.clock)
        timestamp = plan.resumes or writer.new_instant()
        requested = Instant(timestamp, Action.RESTORE, InstantState.REQUESTED)
        if plan.resumes is None:
            header = {STEPS_KEY: summarise(plan), COMMAND_KEY: command_id}
            content = RestorePlanFile(plan.targets, plan.savepoint, header).encode()
            context.claim.check()
            cls._claim(writer, requested, content)
        context.claim.check()
        for request in {plan.begun_for or command_id, command_id}:
            record_start(context.warehouse, table.location, request, timestamp)
        inflight = replace(requested, state=InstantState.INFLIGHT)
        is_ours = writer.begin(inflight)
        if plan.resumes is not None and requested not in writer.table.reloaded().files:
            if is_ours:
                writer.remove([inflight])
            raise TransientError(f"restore {timestamp} was withdrawn while it was being resumed")
        return cls(context, table, plan, inflight)

    @staticmethod
    def _claim(writer: TimelineWriter, requested: Instant, content: bytes) -> None:
        """Create the requested file, and withdraw it if anything else on the timeline changed."""
        if not writer.begin(requested, content):
            raise TransientError(f"another restore began at {requested.timestamp}")
        before = (*writer.table.timeline.instants, requested)
        now = writer.table.reloaded().timeline.instants
        if sorted(before, key=repr) != sorted(now, key=repr):
            _withdraw(writer, requested, content)
            raise TransientError("the table changed while its restore was being planned")

    @property
    def _writer(self) -> TimelineWriter:
        return TimelineWriter(self.context.warehouse, self.table, self.context.clock)

    def drop_metadata_table(self) -> None:
        """Remove the metadata table, unless the plan leaves it as it is.

        Raises:
            TransientError: another process completed the restore meanwhile.
        """
        if self.plan.drops_metadata_table:
            location, restore = self.table.location, self.instant.timestamp
            drop_metadata_table(self.context.warehouse, location, restore, self._reload)

    def passes(self) -> Iterator[tuple[Step, ...]]:
        """The steps of every pass, in the order of the plan."""
        return passes(self.plan.steps, self._write_files, self.table.properties.layout)

    def roll_back(self, steps: Sequence[Step]) -> list[RollbackMetadata]:
        """Roll back the instants of a pass in Hudi's order: completed files, data files, the rest.

        Before all of these, rollback blocks are appended. If there are blocks, a log compaction
        loses its pending files before the completed one: after a crash, the remaining files must
        name the slices that it wrote to.

        A crash in between leaves inflight writes, whose data files are found by listing. So Hudi
        can finish the restore, too, and the files to remove never depend on an untrusted list.

        Raises:
            ConfinementError: a file lies outside the table; nothing of these instants was removed.
        """
        began = self.context.clock()
        data = self._by_folder(steps)
        claim = self.context.claim
        claim.check()
        for step in steps:
            self._append_blocks(step)
        self._writer.remove(
            f
            for step in steps
            for f in self._files_of(step)
            if f.action is Action.LOG_COMPACTION and step.blocks
        )
        files = [file for step in steps for file in self._files_of(step)]
        claim.check()
        self._writer.remove(f for f in files if f.state is InstantState.COMPLETED)
        for batch in _batches(data):
            claim.check()
            self.context.warehouse.remove_with_checksums(batch, self.context.parallel_map)
        claim.check()
        self._writer.remove(f for f in files if f.state is not InstantState.COMPLETED)
        for step in steps:
            claim.check_if_old()
            markers = join(self.table.location, MARKERS, step.target.timestamp)
            self.context.warehouse.remove_tree(markers)
        took_ms = elapsed_ms(began, self.context.clock())
        started = instant_of(began, self.table.properties.zone)
        return [
            RollbackMetadata(
                started,
                took_ms,
                step.target,
                self._by_partition(step),
                tuple((b.partition, join(self.table.location, b.path)) for b in step.blocks),
            )
            for step in steps
        ]

    def _files_of(self, step: Step) -> list[Instant]:
        """The timeline's files of an instant: completed first, requested last."""
        files = self._write_files.get(step.target.timestamp, ())
        return sorted(files, key=lambda f: f.state, reverse=True)

    def _by_partition(self, step: Step) -> dict[str, tuple[str, ...]]:
        """The full paths of the data files of an instant, by partition."""
        found = defaultdict[str, list[str]](list)
        for file in step.files:
            found[file.partition].append(f"{self.table.location}/{file.path}")
        return {partition: tuple(paths) for partition, paths in found.items()}

    def roll_back_by_hudi(self) -> RestoreMetadata:
        """Have Hudi's own procedure resume the restore that `begin` put on the timeline.

        Raises:
            FormatError: Hudi failed, or the table does not end at the savepoint; a write began
                during the restore; or a rolled-back commit has a new savepoint.
            TransientError: Spark failed, or another process completed the restore meanwhile.
        """
        if self.context.hudi is None:
            raise FormatError("no Spark session with Hudi is configured")
        self.check_savepoints()
        table = self._reload()
        self.context.claim.check()
        metadata = restore_by_hudi(
            self.context.hudi, table, self.plan.savepoint, self.instant.timestamp
        )
        if begun := self._begun(table.reloaded().timeline):
            raise FormatError(
                f"Hudi has completed the restore, but the write {min(begun)} began during it, upon"
                " rolled-back commits, and would bring their rows back. Stop that writer, and"
                " request the restore again to roll that write back, too"
            )
        return metadata

    def _append_blocks(self, step: Step) -> None:
        """Append the rollback blocks that are not there yet.

        This has to precede the unpublication of the write, after which its slices are unknown.
        Readers do not see the blocks until the first write after the restore.
        """
        block = RollbackBlock(step.target.timestamp, self.instant.timestamp)
        for planned in step.blocks:
            path = self._data_file(planned.path)
            try:
                if not planned.is_there:
                    self.context.warehouse.create(path, block.encode())
            except AlreadyExists as error:
                there = RollbackBlock.decode(self.context.warehouse.read(path, MAX_SIZE))
                if there is None or there.target != block.target:
                    raise TransientError(f"{planned.path} was written meanwhile") from error

    @cached_property
    def _write_files(self) -> Mapping[str, list[Instant]]:
        """All timeline files of every write.

        These include the pending files of a completed clustering. Hudi leaves them behind, and its
        next write then fails on the file groups that they claim.
        """
        found = defaultdict[str, list[Instant]](list)
        for file in self.table.files:
            if file.action in WRITES:
                found[file.timestamp].append(file)
        return found

    def check_savepoints(self) -> Timeline:
        """Check, before each pass, that no commit to roll back has a new savepoint.

        Hudi can write a savepoint during a pending restore, on a commit that is still there.

        Returns:
            The current timeline.

        Raises:
            FormatError: such a savepoint exists; it would protect files that are gone.
            TransientError: one is being written, or another process completed the restore.
        """
        timeline = self._reload().timeline
        rolled_back = {step.target.timestamp for step in self.plan.steps}
        for savepoint in timeline.of_action(Action.SAVEPOINT):
            when = savepoint.timestamp
            if when not in rolled_back or is_abandoned_savepoint(timeline, savepoint):
                continue
            if savepoint.state is not InstantState.COMPLETED:
                raise TransientError(f"a savepoint of {when} is being written")
            raise FormatError(
                f"a savepoint of {when}, which is rolled back, was written during the restore. The"
                " table accepts no writes until the restore completes: remove that savepoint, with"
                " Hudi's delete_savepoint if its commit is gone, and request the restore again with"
                " the plan's id"
            )
        return timeline

    def check_end(self) -> None:
        """Check that the savepointed commit is now the last write, except for writes in the plan.

        Hudi begins no write while a restore is on the timeline. But a writer that read the timeline
        right before the restore was there may begin one that the plan does not know, upon commits
        that are rolled back. Once completed, that write would bring their rows back.

        Raises:
            FormatError: a write completed while the restore ran, or began then and is pending; or a
                rolled-back commit has a new savepoint.
            TransientError: another process completed the restore meanwhile.
        """
        timeline = self.check_savepoints()
        last = timeline.last_completed_write()
        begun = self._begun(timeline)
        what = ""
        if last is None or last.timestamp != self.plan.savepoint:
            found = "there is none" if last is None else f"it is {last.timestamp}.{last.action}"
            what = (
                f"{self.plan.savepoint} should be the last completed commit now, but {found}: a"
                " write completed during the restore"
            )
        elif begun:
            what = f"the write {min(begun)} began during the restore, upon rolled-back commits"
        if what:
            raise FormatError(
                f"{what}. The table accepts no writes until the restore completes: stop that"
                " writer, review a new plan, and request the restore again with that plan's id to"
                " roll that write back, too"
            )

    def _begun(self, timeline: Timeline) -> set[str]:
        """The writes that the plan does not know."""
        planned = {write.timestamp for write in self.table.timeline.writes}
        return {write.timestamp for write in timeline.writes} - planned

    def finish(self, metadata: RestoreMetadata) -> None:
        """Complete the restore and remove its rollbacks."""
        self.context.claim.check()
        self._writer.complete(self.instant, metadata.encode())
        trim(self._writer, self.plan.savepoint, metadata)

    def _reload(self) -> HudiTable:
        """The current table; raises if another task has the table, or completed the restore."""
        self.context.claim.check()
        now = self.table.reloaded()
        if all(i.timestamp != self.instant.timestamp for i in now.timeline.pending_restores):
            raise TransientError(f"restore {self.instant.timestamp} is no longer pending")
        return now

    def _by_folder(self, steps: Iterable[Step]) -> Mapping[str, list[str]]:
        """The names of data files by directory; every directory is checked once."""
        found = defaultdict[str, list[str]](list)
        for file in (file for step in steps for file in step.files):
            folder, _, name = file.path.rpartition("/")
            found[folder].append(name)
        return {
            self._data_file(f"{folder}/{names[0]}").rpartition("/")[0]: names
            for folder, names in found.items()
        }

    def _data_file(self, path: str) -> str:
        where = join(self.table.location, path)
        meta = join(self.table.location, ".hoodie")
        if not is_below(where, self.table.location) or is_below(where, meta):
            raise ConfinementError(f"{path} is not a data file of {self.table.location}")
        return where


def _batches(folders: Mapping[str, list[str]]) -> Iterator[dict[str, list[str]]]:
    """Divide files by directory into batches that are removed within seconds."""
    batch, count = dict[str, list[str]](), 0
    for folder, names in folders.items():
        for start in range(0, len(names), _BATCH):
            batch[folder] = names[start : start + _BATCH]
            count += len(batch[folder])
            if count >= _BATCH:
                yield batch
                batch, count = {}, 0
    if batch:
        yield batch


def _withdraw(writer: TimelineWriter, requested: Instant, content: bytes) -> None:
    """Remove a requested restore, unless another process has begun to carry it out.

    Without its plan, that restore could not be finished. So a process that begins a restore checks
    afterwards that the plan is still there, and a process that removes a plan checks afterwards
    that its restore has not begun.
    """
    if _is_begun(writer.table, requested):
        return
    writer.remove([requested])
    if _is_begun(writer.table, requested):
        writer.begin(requested, content)


def _is_begun(table: HudiTable, requested: Instant) -> bool:
    return any(
        file.timestamp == requested.timestamp and file.state is not InstantState.REQUESTED
        for file in table.reloaded().files
    )
