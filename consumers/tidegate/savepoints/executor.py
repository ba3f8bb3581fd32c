"""The savepoint writer: carries out requests, and applies policies to the timelines of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import ClassVar, Final

from tidegate.errors import PermanentError
from tidegate.events import (
    Command,
    CommitFlag,
    CommitFlagged,
    Outcome,
    SavepointCreated,
    SavepointRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    SavepointRequested,
    SavepointsChecked,
    SavepointsCheckRequested,
)
from tidegate.events.fields import elapsed_ms
from tidegate.hudi.instant import Action
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.table import HudiTable
from tidegate.runtime.protocols import Published
from tidegate.savepoints.lookup import made_at, pinned_by, read_savepoints, superseded_files
from tidegate.savepoints.removal import removals_begun, remove_savepoint
from tidegate.savepoints.retention import Check, Savepoint
from tidegate.savepoints.rules import SavepointRule, rule_of
from tidegate.savepoints.timeline_view import TimelineViews
from tidegate.savepoints.writing import SOURCE, write_savepoint
from tidegate.storage import ParallelMap
from tidegate.tables.claim import Claim, Task
from tidegate.tables.hudi import claim_table, open_table, refusing_unreadable
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse

_SHOWN: Final = 900
"""Maximum length of lists in outcomes."""
_NAMED: Final = 10
"""How many commits a message names."""
_AT_ONCE: Final = 50
"""Maximum of savepoints that one check makes, and that it removes: the next check goes on."""
_AGAIN_AFTER: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Done:
    """The savepoints that a check has made and removed, and those that it could not make."""

    made: set[str] = field(default_factory=set[str])
    removed: set[str] = field(default_factory=set[str])
    refused: set[str] = field(default_factory=set[str])


class SavepointWriter:
    """Carries out SavepointRequested (`writing.py`) and SavepointRemovalRequested (`removal.py`).

    SavepointsCheckRequested, too: it applies the policy (`retention.py`) to the timeline. Never two
    at once for one table.
    """

    name: ClassVar[str] = SOURCE
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
            return write_savepoint(
                command, self.warehouse, self.parallel_map, self.clock, self.rules, claim=claim
            )
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
        done = _Done()
        there = self._views.of(table, rule, held).made_at(command.occurred_at)
        at_first = frozenset(claim.planned(" ".join(sorted(there))).split())
        # an earlier attempt may have died before it published what it removed
        begun = removals_begun(self.warehouse, table, command.event_id) - table.timeline.savepoints
        resumed = dict.fromkeys(sorted(begun), "an earlier attempt began its removal")
        yield from self._remove(command, claim, resumed, {}, done)
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
            found = view.check(rule, now, done.refused)
            if not found.due or table.timeline.pending_restores:
                break
            instant, tiers = next(iter(found.due.items()))
            outcome = self._answer(_requested(command, rule, instant, tiers), claim)
            (done.made if isinstance(outcome, SavepointCreated) else done.refused).add(instant)
            yield _caused(outcome, command)
            table = table.reloaded()
        view = self._views.of(table, rule, held)
        before = view.made_at(command.occurred_at) - at_first - done.made
        for saved in [saved for saved in view.savepoints if saved.instant in before]:
            done.made.add(saved.instant)
            request = _requested(command, rule, saved.instant, saved.tiers)
            yield _caused(self._answer(request, claim), command)
        found = view.check(rule, now, done.refused)
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
            yield from self._remove(command, claim, going, marks, done)
        yield self._checked(command, table.reloaded(), found, done, began)

    def _remove(
        self,
        command: SavepointsCheckRequested,
        claim: AnyClaim,
        going: Mapping[str, str],
        marks: Mapping[str, Savepoint],
        done: _Done,
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
                done.removed.add(instant)
            yield _caused(outcome, command)

    def _checked(
        self,
        command: SavepointsCheckRequested,
        table: HudiTable,
        found: Check,
        done: _Done,
        began: datetime,
    ) -> SavepointsChecked:
        there = sorted(table.timeline.savepoints)
        unfinished = bool(found.due.keys() - done.refused or found.removable.keys() - done.removed)
        ended = self.clock()
        bad = command.condemned
        measured = self._measured(table) if command.measure else {}
        return SavepointsChecked.about(
            command,
            source=self.name,
            occurred_at=ended,
            made=len(done.made),
            removed=len(done.removed),
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
