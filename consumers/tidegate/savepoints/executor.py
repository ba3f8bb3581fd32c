"""The savepoint writer: writes a savepoint as Hudi does, once, even with concurrent writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final

from tidegate.errors import ConfinementError, FormatError, PermanentError, TransientError
from tidegate.events import (
    Command,
    Outcome,
    SavepointCreated,
    SavepointMark,
    SavepointRejected,
    SavepointRemovalRequested,
    SavepointRequested,
)
from tidegate.events.reasons import Reason
from tidegate.hudi import Action, Instant, InstantState, SavepointMetadata, Timeline
from tidegate.hudi_reader import HudiTable
from tidegate.savepoints.claims import claim, is_wish
from tidegate.savepoints.derivation import MOST_DERIVED, InDoubt
from tidegate.savepoints.full_listing import list_savepoint
from tidegate.savepoints.incremental import derive_savepoint
from tidegate.savepoints.lookup import clean_bound
from tidegate.savepoints.pins import newest_files, review_savepoints
from tidegate.savepoints.plan import (
    SavepointPlan,
    check_bound,
    choose_commit,
    commit_before,
)
from tidegate.savepoints.removal import SavepointRemover
from tidegate.savepoints.repeats import Repeats, was_removed, without_review
from tidegate.storage import NotFound, ParallelMap
from tidegate.tables.claim import Claim, Task
from tidegate.tables.hudi import TimelineWriter, claim_table, open_table
from tidegate.tables.refusal import Refused, refusal_of
from tidegate.tables.task_numbers import NO_CLAIM, Unclaimed
from tidegate.tables.warehouse import Warehouse

_SHOWN: Final = 900
"""Maximum length, in characters, of the reason why a savepoint was not derived."""
_REMOVES_FILES: Final = frozenset({Action.CLEAN, Action.RESTORE, Action.ROLLBACK})


class SavepointWriter:
    """Carries out SavepointRequested; its outcome is SavepointCreated or SavepointRejected.

    Carries out SavepointRemovalRequested, too (`removal.py`), never both at once for one table.

    Writes only the savepoint's own two files of the table: first inflight, then completed. If an
    interrupted attempt left an inflight file, it is completed. If the savepoint exists already,
    the outcome reports `already_there`. A repeated request gets its first outcome again, so a
    savepoint that was removed meanwhile does not come back.
    """

    name: ClassVar[str] = "savepoint-writer"
    consumes: ClassVar[tuple[type[Command], ...]] = (SavepointRequested, SavepointRemovalRequested)
    checks_past_outcomes: ClassVar[bool] = False

    def __init__(
        self,
        warehouse: Warehouse,
        parallel_map: ParallelMap,
        clock: Callable[[], datetime],
        most_derived: Callable[[str], int] | None = None,
    ) -> None:
        """Take the warehouse, the parallel map for listings, and a clock (aware times).

        `most_derived` returns how many savepoints in a row may be derived for a table's name.
        """
        self.most_derived = most_derived or _most_derived
        self.warehouse = warehouse
        self.parallel_map = parallel_map
        self.clock = clock

    def is_answered(
        self,
        command: Command,  # noqa: ARG002 - the protocol's
        outcomes: Sequence[Outcome],  # noqa: ARG002 - the protocol's
    ) -> bool:
        """Return False: a savepoint destroys nothing, so every request is carried out."""
        return False

    def claim(self, command: Command, task: Task) -> Claim:
        """Claim the table."""
        return claim_table(self.warehouse, command.location, task)

    def execute(self, command: Command, claim: Unclaimed = NO_CLAIM) -> Iterator[Outcome]:
        """Write or remove the savepoint, or yield a rejection.

        Raises:
            Overtaken, AlreadyDone: another task, or another worker of this one, has the table.
            PermanentError: the command is of another type.
            TransientError: a file was removed while it was being read; try again.
        """
        if isinstance(command, SavepointRemovalRequested):
            yield SavepointRemover(self.warehouse, self.clock, self.name, claim).answer(command)
            return
        if not isinstance(command, SavepointRequested):
            raise PermanentError(f"{self.name} can't carry out a {type(command).__name__}")
        try:
            yield self._savepoint(command, claim)
        except Refused as refused:
            yield self._rejected(command, refused)
        except (ConfinementError, FormatError) as error:
            yield self._rejected(command, refusal_of(error))
        except NotFound as error:
            raise TransientError(f"{error} was removed while it was being read") from error

    def _savepoint(self, command: SavepointRequested, task: Unclaimed) -> SavepointCreated:
        began = self.clock()
        table = open_table(self.warehouse, command.location, command.table)
        repeats = Repeats.of(self.warehouse, table.location, command)
        previous = repeats.outcome()
        if previous and was_removed(table.timeline, previous):
            return without_review(previous)
        chosen = task.planned(self._commit(table, command, previous))
        commit = choose_commit(table.timeline, chosen).timestamp
        existing = self._existing(table, commit)
        plan = None if existing else self._begin(table, commit, command, task)
        metadata = existing or self._metadata(command, plan)
        count = plan.file_count if plan else metadata.file_count
        is_claimed = existing is not None and self._claim_existing(table, command, commit, existing)
        review = self._review(table, metadata, commit) if command.review else {}
        ended = self.clock()
        created = SavepointCreated.about(
            command,
            source=self.name,
            occurred_at=ended,
            instant=commit,
            partitions=len(metadata.files),
            files=count,
            already_there=existing is not None,
            duration_ms=max(0, int((ended - began).total_seconds() * 1000)),
            bytes=plan.bytes if plan else None,
            derived_from=plan.derived_from if plan else None,
            listed_because=plan.listed_because if plan else None,
            **({} if is_claimed else _marked(metadata, command)),
            **review,
        )
        repeats.put(created, ended)
        if plan is not None:
            task.check()
            self._complete(table, plan, metadata)
        return created

    def _claim_existing(
        self, table: HudiTable, command: SavepointRequested, commit: str, there: SavepointMetadata
    ) -> bool:
        """Record a person's claim on an existing savepoint; return whether it has no end."""
        if not is_wish(command, there):
            return False
        claim(self.warehouse, table.location, command, commit)
        if self._existing(table.reloaded(), commit) is None:
            raise TransientError(f"savepoint {commit} of {table.location} was removed meanwhile")
        return command.lifetime_seconds is None

    @staticmethod
    def _commit(
        table: HudiTable, command: SavepointRequested, previous: SavepointCreated | None
    ) -> str:
        if previous is None and command.before is not None:
            return commit_before(table.timeline, command.before).timestamp
        wanted = previous.instant if previous else command.instant
        return choose_commit(table.timeline, wanted).timestamp

    def _begin(
        self, table: HudiTable, commit: str, command: SavepointRequested, task: Unclaimed
    ) -> SavepointPlan:
        plan = self._plan(table, commit, self.most_derived(command.table))
        task.check()
        self._claim(table, plan)
        return plan

    def _metadata(
        self, command: SavepointRequested, plan: SavepointPlan | None
    ) -> SavepointMetadata:
        comment = command.mark.before(command.comment) if command.mark else command.comment
        moment_ms = int(self.clock().timestamp() * 1000)
        files = plan.files if plan else {}
        return SavepointMetadata(command.requested_by, moment_ms, comment, files)

    def _review(self, table: HudiTable, made: SavepointMetadata, commit: str) -> dict[str, object]:
        """The review fields of the outcome, including the savepoint that is about to be completed.

        Costs another listing and a read of every savepoint. A policy asks for it once a day.
        """
        found = review_savepoints(
            table, newest_files(table, self.parallel_map), {commit: made}, self.clock()
        )
        return {
            "reviewed": True,
            "savepoints": found.savepoints,
            "pinned_files": found.pinned_files,
            "pinned_bytes": found.pinned_bytes,
        }

    def _claim(self, table: HudiTable, plan: SavepointPlan) -> None:
        """Create the inflight file, and remove it again if the plan may be outdated.

        Once the inflight file exists, no restore begins. A restore, rollback or clean that began
        earlier may have removed planned files or the commit itself. If the savepoint from which
        this one was derived is gone, a clean may remove files that were not listed again.
        """
        commit, base = plan.instant, plan.derived_from
        writer = TimelineWriter(self.warehouse, table, self.clock)
        inflight = Instant(commit, Action.SAVEPOINT, InstantState.INFLIGHT)
        is_ours = writer.begin(inflight)
        now = table.reloaded().timeline
        is_there = now.completed_write(commit) is not None
        is_kept = base is None or base in now.savepoints
        if is_there and is_kept and _removals(now) == _removals(table.timeline):
            return
        if is_ours:
            # safe: another writer that finds an inflight file checks the timeline, too
            writer.remove([inflight])
        raise TransientError(
            f"while savepoint {commit} was being planned, a restore, rollback or clean of"
            f" {table.location} began, or the previous savepoint was removed"
        )

    def _complete(self, table: HudiTable, plan: SavepointPlan, metadata: SavepointMetadata) -> None:
        if self._existing(table.reloaded(), plan.instant) is None:
            writer = TimelineWriter(self.warehouse, table, self.clock)
            savepoint = Instant(plan.instant, Action.SAVEPOINT, InstantState.INFLIGHT)
            header = plan.view.header() if plan.view else None
            writer.complete(savepoint, metadata.encode(header))

    def _plan(self, table: HudiTable, commit: str, most_derived: int) -> SavepointPlan:
        if table.timeline.pending_restores:
            raise Refused(Reason.RESTORE_PENDING, "a restore of this table has not completed yet")
        bound = clean_bound(table)
        check_bound(commit, bound)
        try:
            return derive_savepoint(table, commit, self.parallel_map, most_derived)
        except InDoubt as doubt:
            plan = list_savepoint(table, commit, bound, self.parallel_map)
            return replace(plan, listed_because=str(doubt)[:_SHOWN])

    def _existing(self, table: HudiTable, commit: str) -> SavepointMetadata | None:
        done = table.timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
        found = next((i for i in done if i.timestamp == commit), None)
        return SavepointMetadata.decode(table.read(found)) if found else None

    def _rejected(self, command: SavepointRequested, refused: Refused) -> SavepointRejected:
        return SavepointRejected.about(
            command,
            source=self.name,
            occurred_at=self.clock(),
            instant=command.instant,
            reason=refused.reason,
            message=refused.message,
        )


def _marked(metadata: SavepointMetadata, command: SavepointRequested) -> dict[str, object]:
    """The outcome's fields on how long the savepoint is kept, from its own mark."""
    mark, _ = SavepointMark.parse(metadata.comment)
    if mark is None:
        return {}
    more = command.tiers if mark.policy and mark.policy == command.policy else ()
    return {
        "policy": mark.policy,
        "tiers": tuple(dict.fromkeys((*mark.tiers, *more))),
        "decided_at": mark.decided_at,
        "lifetime_seconds": mark.lifetime_seconds,
    }


def _removals(timeline: Timeline) -> frozenset[Instant]:
    """The instants of actions that may remove data files, with their states."""
    return frozenset(i for i in timeline.instants if i.action in _REMOVES_FILES)


def _most_derived(table: str) -> int:  # noqa: ARG001 - the same for every table
    return MOST_DERIVED
