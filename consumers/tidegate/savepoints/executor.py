"""The savepoint writer: writes a savepoint as Hudi does, once, even with concurrent writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import ClassVar, Final

from tidegate.errors import PermanentError, TransientError
from tidegate.events import (
    Command,
    CommitFlag,
    CommitFlagged,
    Outcome,
    SavepointCreated,
    SavepointMark,
    SavepointRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    SavepointRequested,
    SavepointsChecked,
    SavepointsCheckRequested,
)
from tidegate.events.fields import elapsed_ms
from tidegate.events.reasons import Reason
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.table import HudiTable
from tidegate.runtime.protocols import Published
from tidegate.savepoints.derivation import InDoubt
from tidegate.savepoints.further_requests import is_wish, record_further_request
from tidegate.savepoints.incremental import derive_savepoint, list_savepoint
from tidegate.savepoints.lookup import (
    clean_bound,
    made_at,
    pinned_by,
    read_savepoints,
    superseded_files,
)
from tidegate.savepoints.plan import SavepointPlan, check_bound, choose_commit
from tidegate.savepoints.removal import removals_begun, remove_savepoint
from tidegate.savepoints.retention import Check, Savepoint
from tidegate.savepoints.rules import MOST_DERIVED, SavepointRule, covering, rule_of
from tidegate.savepoints.timeline_view import TimelineViews
from tidegate.storage import ParallelMap
from tidegate.tables.claim import Claim, Task
from tidegate.tables.hudi import TimelineWriter, claim_table, open_table, refusing_unreadable
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse

_SHOWN: Final = 900
"""Maximum length, in characters, of the reason why a savepoint was not derived; and of lists."""
_NAMED: Final = 10
"""How many commits a message names."""
_AT_ONCE: Final = 50
"""Maximum of savepoints that one check makes, and that it removes: the next check goes on."""
_AGAIN_AFTER: Final = timedelta(minutes=1)
_REMOVES_FILES: Final = frozenset({Action.CLEAN, Action.RESTORE, Action.ROLLBACK})


class SavepointWriter:
    """Carries out SavepointRequested; its outcome is SavepointCreated or SavepointRejected.

    Carries out SavepointRemovalRequested, too (`removal.py`), and SavepointsCheckRequested: it
    applies the policy (`retention.py`) to the timeline. Never two at once for one table.

    Writes only the savepoint's own two files of the table: first inflight, then completed. If an
    interrupted attempt left an inflight file, it is completed. If the savepoint exists already,
    the outcome reports `already_there`. A task that is repeated, because its worker died, means the
    same commit, and finds what it made by the savepoint's mark.
    """

    name: ClassVar[str] = "savepoint-writer"
    consumes: ClassVar[tuple[type[Command], ...]] = (
        SavepointRequested,
        SavepointRemovalRequested,
        SavepointsCheckRequested,
    )

    def __init__(
        self,
        warehouse: Warehouse,
        parallel_map: ParallelMap,
        clock: Callable[[], datetime],
        rules: tuple[SavepointRule, ...] = (),
    ) -> None:
        """Take the warehouse, the parallel map for listings, a clock (aware times), the policy."""
        self.rules = rules
        self._views = TimelineViews(warehouse, clock)
        self.warehouse = warehouse
        self.parallel_map = parallel_map
        self.clock = clock

    def claim(self, command: Command, task: Task) -> Claim:
        """Claim the table."""
        return claim_table(self.warehouse, command.location, task)

    def execute(
        self, command: Command, claim: AnyClaim = NO_CLAIM, grounds: Sequence[Published] = ()
    ) -> Iterator[Outcome]:
        """Write or remove the savepoint, or yield a rejection.

        Raises:
            Overtaken, AlreadyDone: another task, or another worker of this one, has the table.
            PermanentError: the command is of another type.
            TransientError: a file was removed while it was being read; try again.
        """
        if isinstance(command, SavepointRemovalRequested):
            yield remove_savepoint(command, self.warehouse, self.clock, self.name, claim=claim)
        elif isinstance(command, SavepointRequested):
            # the timeline names the requester as people are shown it
            by = grounds[0].named if grounds else command.requested_by
            yield self._answer(command.model_copy(update={"requested_by": by}), claim)
        elif isinstance(command, SavepointsCheckRequested):
            try:
                with refusing_unreadable():
                    yield from self._check(command, claim)
            except Refused as refused:
                yield self._rejected(command, refused)
        else:
            raise PermanentError(f"{self.name} can't carry out a {type(command).__name__}")

    def _answer(self, command: SavepointRequested, claim: AnyClaim) -> Outcome:
        try:
            with refusing_unreadable():
                return self._savepoint(command, claim)
        except Refused as refused:
            return self._rejected(command, refused)

    def _check(self, command: SavepointsCheckRequested, claim: AnyClaim) -> Iterator[Outcome]:
        """Make the savepoints that are due, remove those that may go, and report. Idempotent."""
        began = self.clock()
        # neither of two clocks that is ahead ends a lifetime early
        now = min(began, command.occurred_at)
        rule = rule_of(self.rules, command.table)
        table = open_table(self.warehouse, command.location, command.table)
        held = dict.fromkeys(command.wanted)
        refused, made, removed = set[str](), set[str](), set[str]()
        there = self._views.of(table, rule, held).made_at(command.occurred_at)
        at_first = frozenset(claim.planned(" ".join(sorted(there))).split())
        # an earlier attempt may have died before it published what it removed
        begun = removals_begun(self.warehouse, table, command.event_id) - table.timeline.savepoints
        resumed = dict.fromkeys(sorted(begun), "an earlier attempt began its removal")
        yield from self._remove(command, claim, resumed, {}, removed)
        table = table.reloaded()
        missing, bad = _missing(command, table.timeline), command.condemned
        if bad is not None and not table.timeline.is_committed(bad):
            missing = list(dict.fromkeys((bad, *missing)))
            command = command.model_copy(update={"condemned": None})  # no restore follows from it
        if missing:
            named = ", ".join(missing[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
            message = (
                "published or condemned, but not completed on the timeline of"
                f" {command.location}: {named}. Correct the instant or the location at its"
                " publisher"
            )
            yield _flagged(command, now, missing[0], CommitFlag.NOT_ON_TIMELINE, message)
        for _ in range(_AT_ONCE):
            view = self._views.of(table, rule, held)
            found = view.check(rule, now, refused)
            if not found.due or table.timeline.pending_restores:
                break
            instant, tiers = next(iter(found.due.items()))
            outcome = self._answer(_requested(command, rule, instant, tiers), claim)
            done = made if isinstance(outcome, SavepointCreated) else refused
            done.add(instant)
            yield _caused(outcome, command)
            table = table.reloaded()
        view = self._views.of(table, rule, held)
        before = view.made_at(command.occurred_at) - at_first - made
        for saved in [saved for saved in view.savepoints if saved.instant in before]:
            made.add(saved.instant)
            request = _requested(command, rule, saved.instant, saved.tiers)
            yield _caused(self._answer(request, claim), command)
        found = view.check(rule, now, refused)
        if found.withheld and rule is not None:
            message = (
                f"a savepoint of this commit is due, but policy {rule.policy} has max_count ="
                f" {rule.max_count} savepoints on the table, and all of them are still kept: raise"
                " max_count, or let the tiers keep less"
            )
            flag = CommitFlag.SAVEPOINTS_AT_MAXIMUM
            yield _flagged(command, now, max(found.withheld), flag, message)
        if not table.timeline.pending_restores:
            going = dict(islice(found.removable.items(), _AT_ONCE))
            marks = {saved.instant: saved for saved in view.savepoints}
            yield from self._remove(command, claim, going, marks, removed)
        yield self._checked(command, table.reloaded(), (found, refused), (made, removed), began)

    def _remove(
        self,
        command: SavepointsCheckRequested,
        claim: AnyClaim,
        going: Mapping[str, str],
        marks: Mapping[str, Savepoint],
        removed: set[str],
    ) -> Iterator[Outcome]:
        """Remove savepoints, each with its mark; a repeated check makes the same requests."""
        for instant, why in going.items():
            request = SavepointRemovalRequested.about(
                command,
                source=self.name,
                occurred_at=command.occurred_at,
                instant=instant,
                requested_by=self.name,
                reason=why,
            )
            mark = marks.get(instant)
            ended = (mark.policy, mark.lifetime) if mark else (None, None)
            outcome = remove_savepoint(
                request, self.warehouse, self.clock, self.name, ended=ended, claim=claim
            )
            if isinstance(outcome, SavepointRemoved):
                removed.add(instant)
            yield _caused(outcome, command)

    def _checked(
        self,
        command: SavepointsCheckRequested,
        table: HudiTable,
        last: tuple[Check, AbstractSet[str]],
        done: tuple[AbstractSet[str], AbstractSet[str]],
        began: datetime,
    ) -> SavepointsChecked:
        (found, refused), (made, removed) = last, done
        there = sorted(table.timeline.savepoints)
        unfinished = bool(found.due.keys() - refused or found.removable.keys() - removed)
        ended = self.clock()
        bad = command.condemned
        measured = self._measured(table) if command.measure else {}
        return SavepointsChecked.about(
            command,
            source=self.name,
            occurred_at=ended,
            made=len(made),
            removed=len(removed),
            savepoints=len(there),
            unowned=found.unowned[:_SHOWN],
            next_check=ended + _AGAIN_AFTER if unfinished else found.next_check,
            condemned=bad,
            commits=command.commits,
            newest_before=max((at for at in there if bad and at < bad), default=None),
            later=[at for at in there if bad and at >= bad][:_SHOWN],
            duration_ms=elapsed_ms(began, ended),
            **measured,
        )

    def _measured(self, table: HudiTable) -> dict[str, object]:
        """The files that savepoints pin. Costs a listing and a read of every savepoint."""
        listed = superseded_files(table, self.parallel_map)
        pinned, times = dict[tuple[str, str], int](), list[datetime]()
        for _, metadata in read_savepoints(table):
            pinned |= pinned_by(metadata, listed)
            times.append(made_at(metadata))
        return {
            "pinned_files": len(pinned),
            "pinned_bytes": sum(pinned.values()),
            "oldest_at": min(times, default=None),
        }

    def _savepoint(self, command: SavepointRequested, task: AnyClaim) -> SavepointCreated:
        began = self.clock()
        table = open_table(self.warehouse, command.location, command.table)
        chosen = choose_commit(table.timeline, command.instant).timestamp
        if command.instant is None:  # a repeat of the task means the same commit
            chosen = task.planned(chosen)
        commit = choose_commit(table.timeline, chosen).timestamp
        existing = self._existing(table, commit)
        rule = covering(self.rules, command.table)
        most_derived = rule.most_derived if rule else MOST_DERIVED
        plan = None if existing else self._plan(table, commit, most_derived)
        if plan is not None:
            task.check()
            self._claim(table, plan)
        metadata = existing or self._metadata(command, plan)
        count = plan.file_count if plan else metadata.file_count
        is_claimed = existing is not None and self._claim_existing(table, command, commit, existing)
        ended = self.clock()
        created = SavepointCreated.about(
            command,
            source=self.name,
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
            task.check()
            self._complete(table, plan, metadata)
        return created

    def _claim_existing(
        self, table: HudiTable, command: SavepointRequested, commit: str, there: SavepointMetadata
    ) -> bool:
        """Record a claim on an existing savepoint; return whether it is a person's without end."""
        if not is_wish(command, there):
            return False
        record_further_request(self.warehouse, table.location, command, commit)
        if self._existing(table.reloaded(), commit) is None:
            raise TransientError(f"savepoint {commit} of {table.location} was removed meanwhile")
        return command.policy is None and command.lifetime_seconds is None

    def _metadata(
        self, command: SavepointRequested, plan: SavepointPlan | None
    ) -> SavepointMetadata:
        comment = command.mark.before(command.comment) if command.mark else command.comment
        moment_ms = int(self.clock().timestamp() * 1000)
        files = plan.files if plan else {}
        return SavepointMetadata(command.requested_by, moment_ms, comment, files)

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
        found = table.timeline.find(Action.SAVEPOINT, commit)
        if found is None or found.state is not InstantState.COMPLETED:
            return None
        return SavepointMetadata.decode(table.read(found))

    def _rejected(
        self, command: SavepointRequested | SavepointsCheckRequested, refused: Refused
    ) -> SavepointRejected:
        return SavepointRejected.about(
            command,
            source=self.name,
            occurred_at=self.clock(),
            instant=command.instant if isinstance(command, SavepointRequested) else None,
            **refused.fields,
        )


def _requested(
    command: SavepointsCheckRequested,
    rule: SavepointRule | None,
    instant: str,
    tiers: Sequence[str],
) -> SavepointRequested:
    """The request of a savepoint that is due; a repeated check makes the same one."""
    policy = rule.policy if rule else None
    return SavepointRequested.about(
        command,
        source=SavepointWriter.name,
        occurred_at=command.occurred_at,
        instant=instant,
        requested_by=f"policy:{policy}",
        policy=policy,
        tiers=tiers,
    )


def _is_made_by(command: SavepointRequested, there: SavepointMetadata) -> bool:
    """Whether an earlier attempt of this request made a savepoint, as far as its mark shows."""
    return command.mark is not None and SavepointMark.parse(there.comment)[0] == command.mark


def _caused(outcome: Outcome, command: SavepointsCheckRequested) -> Outcome:
    """The outcome as one of the check."""
    fields = outcome.model_dump() | {"caused_by": command.event_id, "event_id": ""}
    return type(outcome).model_validate(fields)


def _flagged(
    command: SavepointsCheckRequested, at: datetime, instant: str, flag: CommitFlag, message: str
) -> CommitFlagged:
    fields = {"source": SavepointWriter.name, "occurred_at": at}
    return CommitFlagged.about(command, **fields, instant=instant, flag=flag, message=message)


def _missing(command: SavepointsCheckRequested, timeline: Timeline) -> list[str]:
    """The published commits that the timeline does not have as completed.

    A later restore or rollback explains it: such a commit is not among them.
    """
    undone = timeline.of_action(Action.RESTORE) + timeline.of_action(Action.ROLLBACK)
    newest = max((instant.timestamp for instant in undone), default="")
    return [at for at in command.commits if at > newest and not timeline.is_committed(at)]


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
