"""The savepoint writer: writes a savepoint as Hudi does, once, whoever else tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import ClassVar

from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.events import (
    Command,
    Outcome,
    SavepointCreated,
    SavepointRejected,
    SavepointRequested,
)
from tidegate.fanout import FanOut
from tidegate.hudi import Action, Instant, SavepointMetadata, State
from tidegate.hudi_reader import HudiTable, list_partitions
from tidegate.hudi_tables import TimelineWriter, open_table
from tidegate.refusals import Refusal, Refused, granted
from tidegate.savepoints.lookup import clean_bound, read_commits
from tidegate.savepoints.plan import SavepointPlan, check_bound, choose_commit, plan_savepoint
from tidegate.savepoints.repeats import Repeats, was_removed
from tidegate.storage import NotFound
from tidegate.warehouse import Warehouse


class SavepointWriter:
    """Answers a SavepointRequested with SavepointCreated or SavepointRejected.

    Nothing of the table's but the savepoint's own two files is written, inflight first, then
    completed. An inflight file that a dead process left is taken up; a completed one is the answer.
    A request that was answered is answered the same for ever: a savepoint that was removed since
    does not come back.

    Reason codes: those of `hudi_tables.opening` and `savepoints.plan`, and restore-pending.
    """

    name: ClassVar[str] = "savepoint-writer"
    hears: ClassVar[tuple[type[Command], ...]] = (SavepointRequested,)
    looks_back: ClassVar[bool] = False

    def __init__(
        self, warehouse: Warehouse, fan_out: FanOut, clock: Callable[[], datetime]
    ) -> None:
        """Take what may be changed, what lists many partitions at once, and the time (aware)."""
        self.warehouse = warehouse
        self.fan_out = fan_out
        self.clock = clock

    def is_answered(self, outcomes: Sequence[Outcome]) -> bool:  # noqa: ARG002 - the protocol's
        """Never: a savepoint destroys nothing."""
        return False

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Write the savepoint, or say why not.

        Raises:
            PermanentError: the command is no SavepointRequested.
            TransientError: a file went away while it was needed; the next look may go well.
        """
        if not isinstance(command, SavepointRequested):
            raise PermanentError(f"{self.name} does not answer a {type(command).__name__}")
        try:
            yield self._savepoint(command)
        except Refused as refused:
            yield self._rejected(command, refused.refusal)
        except FormatError as error:
            yield self._rejected(command, Refusal("unreadable-table", str(error)))
        except NotFound as error:
            raise TransientError(f"{error} went away in between") from error

    def _savepoint(self, command: SavepointRequested) -> SavepointCreated:
        began = self.clock()
        table = open_table(self.warehouse, command.location, command.table)
        repeats = Repeats.of(self.warehouse, table.location, command)
        kept = repeats.given()
        if kept and was_removed(table.timeline, kept):
            return kept
        wanted = kept.instant if kept else command.instant
        commit = granted(choose_commit(table.timeline, wanted)).timestamp
        there = self._existing(table, commit)
        metadata = there or self._begin(command, table, commit)
        ended = self.clock()
        created = SavepointCreated.about(
            command,
            said_by=self.name,
            occurred_at=ended,
            instant=commit,
            partitions=len(metadata.files),
            files=metadata.file_count,
            already_there=there is not None,
            duration_ms=max(0, int((ended - began).total_seconds() * 1000)),
        )
        repeats.keep(created, ended)
        if there is None:
            self._complete(table, commit, metadata)
        return created

    def _begin(
        self, command: SavepointRequested, table: HudiTable, commit: str
    ) -> SavepointMetadata:
        plan = self._plan(table, commit)
        writer = TimelineWriter(self.warehouse, table, self.clock)
        writer.begin(Instant(commit, Action.SAVEPOINT, State.INFLIGHT))
        moment_ms = int(self.clock().timestamp() * 1000)
        return SavepointMetadata(command.requested_by, moment_ms, command.comment, plan.files)

    def _complete(self, table: HudiTable, commit: str, metadata: SavepointMetadata) -> None:
        if self._existing(table.reloaded(), commit) is None:
            writer = TimelineWriter(self.warehouse, table, self.clock)
            savepoint = Instant(commit, Action.SAVEPOINT, State.INFLIGHT)
            writer.complete(savepoint, metadata.encode())

    def _plan(self, table: HudiTable, commit: str) -> SavepointPlan:
        if table.timeline.pending_restores:
            raise Refused("restore-pending", "a restore of this table has not completed yet")
        granted(check_bound(commit, clean_bound(table)))
        commits = read_commits(table, self.fan_out)
        partitions = list_partitions(self.warehouse, table.location, self.fan_out)
        return granted(plan_savepoint(commit, table.timeline, commits, partitions))

    def _existing(self, table: HudiTable, commit: str) -> SavepointMetadata | None:
        done = table.timeline.of_action(Action.SAVEPOINT, State.COMPLETED)
        found = next((i for i in done if i.timestamp == commit), None)
        return SavepointMetadata.decode(table.read(found)) if found else None

    def _rejected(self, command: SavepointRequested, refusal: Refusal) -> SavepointRejected:
        return SavepointRejected.about(
            command,
            said_by=self.name,
            occurred_at=self.clock(),
            instant=command.instant,
            reason=refusal.reason,
            message=refusal.message,
        )
