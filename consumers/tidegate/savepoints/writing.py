"""Write a savepoint as Hudi does, once, even with concurrent writers.

Only the savepoint's own two files are written: first inflight, then completed. If an interrupted
attempt left an inflight file, it is completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tidegate.errors import TransientError
from tidegate.events import SavepointCreated, SavepointMark, SavepointRequested
from tidegate.events.fields import elapsed_ms
from tidegate.events.reasons import Reason
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.table import HudiTable
from tidegate.savepoints.derivation import InDoubt
from tidegate.savepoints.further_requests import is_wish, record_further_request
from tidegate.savepoints.incremental import derive_savepoint, list_savepoint
from tidegate.savepoints.lookup import clean_bound
from tidegate.savepoints.plan import SavepointPlan, check_bound, choose_commit
from tidegate.savepoints.rules import MOST_DERIVED, SavepointRule, covering
from tidegate.storage import ParallelMap
from tidegate.tables.hudi import TimelineWriter, open_table, refusing_unreadable
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse

SOURCE: Final = "savepoint-writer"
"""The source of the writer's outcomes."""
_SHOWN: Final = 900
"""Maximum length, in characters, of the reason why a savepoint was not derived."""
_REMOVES_FILES: Final = frozenset({Action.CLEAN, Action.RESTORE, Action.ROLLBACK})


def write_savepoint(  # noqa: PLR0913 - the last by name
    command: SavepointRequested,
    warehouse: Warehouse,
    parallel_map: ParallelMap,
    clock: Callable[[], datetime],
    rules: Iterable[SavepointRule] = (),
    *,
    claim: AnyClaim = NO_CLAIM,
) -> SavepointCreated:
    """Write a savepoint, or find it: then the outcome reports `already_there`.

    A task that is repeated, because its worker died, means the same commit, and finds what it made
    by the savepoint's mark.

    Raises:
        Refused: the commit can't have a savepoint.
        TransientError: a file was removed while it was being read, or a restore, rollback or clean
            began meanwhile; try again.
    """
    rule = covering(rules, command.table)
    with refusing_unreadable():
        return _Writer(warehouse, parallel_map, clock, rule, claim).write(command)


@dataclass(frozen=True, slots=True)
class _Writer:
    warehouse: Warehouse
    parallel_map: ParallelMap
    clock: Callable[[], datetime]
    rule: SavepointRule | None
    claim: AnyClaim

    def write(self, command: SavepointRequested) -> SavepointCreated:
        began = self.clock()
        table = open_table(self.warehouse, command.location, command.table)
        chosen = choose_commit(table.timeline, command.instant).timestamp
        if command.instant is None:  # a repeat of the task means the same commit
            chosen = self.claim.planned(chosen)
        commit = choose_commit(table.timeline, chosen).timestamp
        existing = _existing(table, commit)
        plan = None if existing else self._plan(table, commit)
        if plan is not None:
            self.claim.check()
            self._begin(table, plan)
        metadata = existing or self._metadata(command, plan)
        count = plan.file_count if plan else metadata.file_count
        is_claimed = existing is not None and self._claim_existing(table, command, commit, existing)
        ended = self.clock()
        created = SavepointCreated.about(
            command,
            source=SOURCE,
            occurred_at=ended,
            instant=commit,
            partitions=len(metadata.files),
            files=count,
            already_there=existing is not None and not _is_made_by(command, existing),
            duration_ms=elapsed_ms(began, ended),
            bytes=plan.bytes if plan else None,
            derived_from=plan.derived_from if plan else None,
            listed_because=plan.listed_because if plan else None,
            **({} if is_claimed else _marked(metadata, command)),
        )
        if plan is not None:
            self.claim.check()
            self._complete(table, plan, metadata)
        return created

    def _claim_existing(
        self, table: HudiTable, command: SavepointRequested, commit: str, there: SavepointMetadata
    ) -> bool:
        """Record a claim on an existing savepoint; return whether it is a person's without end."""
        if not is_wish(command, there):
            return False
        record_further_request(self.warehouse, table.location, command, commit)
        if _existing(table.reloaded(), commit) is None:
            raise TransientError(f"savepoint {commit} of {table.location} was removed meanwhile")
        return command.policy is None and command.lifetime_seconds is None

    def _metadata(
        self, command: SavepointRequested, plan: SavepointPlan | None
    ) -> SavepointMetadata:
        comment = command.mark.before(command.comment) if command.mark else command.comment
        moment_ms = int(self.clock().timestamp() * 1000)
        files = plan.files if plan else {}
        return SavepointMetadata(command.requested_by, moment_ms, comment, files)

    def _begin(self, table: HudiTable, plan: SavepointPlan) -> None:
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
        if _existing(table.reloaded(), plan.instant) is None:
            writer = TimelineWriter(self.warehouse, table, self.clock)
            savepoint = Instant(plan.instant, Action.SAVEPOINT, InstantState.INFLIGHT)
            header = plan.view.header() if plan.view else None
            writer.complete(savepoint, metadata.encode(header))

    def _plan(self, table: HudiTable, commit: str) -> SavepointPlan:
        if table.timeline.pending_restores:
            raise Refused(Reason.RESTORE_PENDING, "a restore of this table has not completed yet")
        bound = clean_bound(table)
        check_bound(commit, bound)
        most_derived = self.rule.most_derived if self.rule else MOST_DERIVED
        try:
            return derive_savepoint(table, commit, self.parallel_map, most_derived)
        except InDoubt as doubt:
            plan = list_savepoint(table, commit, bound, self.parallel_map)
            return replace(plan, listed_because=str(doubt)[:_SHOWN])


def _existing(table: HudiTable, commit: str) -> SavepointMetadata | None:
    found = table.timeline.find(Action.SAVEPOINT, commit)
    if found is None or found.state is not InstantState.COMPLETED:
        return None
    return SavepointMetadata.decode(table.read(found))


def _is_made_by(command: SavepointRequested, there: SavepointMetadata) -> bool:
    """Whether an earlier attempt of this request made a savepoint, as far as its mark shows."""
    return command.mark is not None and SavepointMark.parse(there.comment)[0] == command.mark


def _marked(metadata: SavepointMetadata, command: SavepointRequested) -> dict[str, object]:
    """The outcome's fields on how long the savepoint is kept, from its own mark."""
    mark, _ = SavepointMark.parse(metadata.comment)
    if mark is None:
        return {}
    more = command.tiers if mark.policy and mark.policy == command.policy else ()
    requested = command.lifetime_seconds if mark.policy and command.policy is None else None
    return {
        "policy": mark.policy,
        "tiers": tuple(dict.fromkeys((*mark.tiers, *more))),
        "decided_at": mark.decided_at,
        "lifetime_seconds": mark.lifetime_seconds if requested is None else requested,
    }


def _removals(timeline: Timeline) -> frozenset[Instant]:
    """The instants of actions that may remove data files, with their states."""
    return frozenset(i for i in timeline.instants if i.action in _REMOVES_FILES)
