"""What happened to a table or an event, and what happens next. Pure, but for the time now."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, Final

from tidegate.coordinator.vacuums import WaitingVacuum
from tidegate.errors.commands import command_line
from tidegate.events import (
    AbortedCleaningReleased,
    AttemptFailed,
    CleaningDeferred,
    CleaningProgressed,
    CleaningReleased,
    Command,
    CommitCompleted,
    CommitCondemned,
    CommitFlagged,
    Event,
    Outcome,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreFailed,
    RestoreProgressed,
    RestoreStarted,
    SavepointsCheckRequested,
    StopRequested,
    TaskEnd,
    TaskEnded,
    TaskIssued,
    VacuumFlagged,
)
from tidegate.events.base import TableAlarm, Verdict, answered_by
from tidegate.events.fields import span
from tidegate.events.reasons import Reason
from tidegate.events.wire import answered_id
from tidegate.ops.dead_letters import DeadLetter
from tidegate.ops.event_log import LoggedEvent, reason_of
from tidegate.ops.recent import Recent, by_time
from tidegate.ops.summary import NO_WRITES, approval_command, content_of, flagged
from tidegate.ops.waiting import PendingVacuum, hold_removal, holder
from tidegate.service.catalogue import COORDINATOR, EXECUTED

_HOLDS: Final = 5  # that a step names
_VARYING: Final = re.compile(r"[0-9a-f-]{8,}|\d+")
"""Ids and numbers in an error."""


@dataclass(frozen=True, slots=True)
class Story:
    """The events, oldest first, and the requests and vacuums that are not finished."""

    subject: str
    events: Sequence[LoggedEvent]
    waiting: Sequence[PendingVacuum]
    dead_letters: Sequence[DeadLetter]
    left_out: int = 0
    """The number of older events that are left out."""
    waiting_in_all: int = 0
    """The number of all waiting vacuums; `waiting` has the oldest ones."""
    vacuums: Sequence[WaitingVacuum] = ()
    """The vacuums of all VacuumFinished among the events."""
    also_waiting: Collection[str] = ()
    """Ids of those that still wait, also beyond `waiting`."""
    held: Sequence[Mapping[str, Any]] = ()
    """The hold of a person on the table (see `held_tables`), if there is one."""
    stopped: Collection[str] = ()
    """The services that do not run."""

    def shown(self) -> Iterator[LoggedEvent]:
        """The events for people: a repeat, and an end of a task without a message, add nothing.

        Of failed attempts at a task the last one is enough.
        """
        failed = [event for event in self._events() if isinstance(event, AttemptFailed)]
        ids = {event.event_id for event in failed}
        ids -= set({event.caused_by: event.event_id for event in failed}.values())
        for logged in self.events:
            event = logged.event
            if event is not None and event.event_id in ids:
                continue
            if event is not None:
                ids.add(event.event_id)
            if not isinstance(event, TaskEnded) or event.message:
                yield logged

    @property
    def table_of_commits(self) -> str | None:
        """The table of the first commit among the events, or None."""
        commits = (e for e in self._events() if isinstance(e, CommitCompleted))
        return next((commit.table for commit in commits), None)

    def next_steps(self) -> list[str]:
        """Sentences about the next steps and who has to take them; at least one."""
        steps = [
            f"the table is held by {holder(hold)}: {hold['reason']}; nothing of it is"
            f" cleaned until: {hold_removal(hold['table'])}"
            for hold in self.held
        ]
        steps += [*self._commands(), *self._vacuums(), *self._condemned(), *self._alarms()]
        steps += map(_decision, self.open_dead_letters())
        return steps or ["nothing: every request has its outcome, and no vacuum waits"]

    def open_dead_letters(self) -> Collection[Sequence[DeadLetter]]:
        """The open dead letters by service and reason: the same text, but for ids and numbers."""
        groups = defaultdict[tuple[str, str], list[DeadLetter]](list)
        for dead_letter in self.dead_letters:
            if dead_letter.state == "open":
                groups[dead_letter.service, _VARYING.sub("#", dead_letter.error)].append(
                    dead_letter
                )
        return groups.values()

    def _commands(self) -> Iterator[str]:
        # a stop has no outcome of its own: the task that it stops has
        commands = [
            e for e in self._events() if isinstance(e, Command) and not isinstance(e, StopRequested)
        ]
        tasks = {e.caused_by: e for e in commands if isinstance(e, TaskIssued)}
        requests = {e.event_id: e for e in commands if not isinstance(e, TaskIssued)}
        answers = defaultdict[str, _Answers](_Answers, {id_: _Answers() for id_ in requests})
        for event in self._events():
            if isinstance(event, Outcome):
                for answered in requests.keys() & answered_by(event):
                    answers[answered].outcomes.append(event)
            if isinstance(event, RestoreCompleted):  # also of what another request had begun
                for its in answers.values():
                    its.resumed |= its.failed is not None
        newest = {type(command): event_id for event_id, command in requests.items()}
        self._take_dead_letters(answers)
        silent = _without_step(requests, answers)
        for event_id, command in requests.items():
            # of an approval or a withdrawal whose request has ended there is nothing to ask for
            is_over = answers.get(getattr(command, "request", ""), _Answers()).has_ended
            refused = None if is_over else answers[event_id].refused
            if refused is not None and newest[type(command)] == event_id:
                yield (
                    f"{type(command).__name__} {event_id} was refused ({refused}), and nothing was"
                    f" changed: once that is mended, {_again(command)}"
                )
            elif event_id not in silent:
                yield from _step(command, answers[event_id], tasks.get(event_id), self)

    def _take_dead_letters(self, answers: Mapping[str, _Answers]) -> None:
        ends = {e.caused_by: e for e in self._events() if type(e) is TaskEnded and not e.highest}
        for task in self._events():
            end = ends.get(task.event_id)
            if isinstance(task, TaskIssued) and end and end.end is TaskEnd.DEAD_LETTERED:
                answers[task.caused_by or ""].dead = end.message
        for it in self.dead_letters:
            its = answers[answered_id(dict(it.headers)).decode(errors="replace")]
            if it.is_skipped:
                its.dead = it.error
            elif it.state == "open":
                its.redrive = command_line(
                    "dead-letters redrive", it.dead_letter_id, destructive=True, execute=True
                )

    def _vacuums(self) -> Iterator[str]:
        known = {vacuum.event_id for vacuum in self.waiting}.union(self.also_waiting)
        released = {e.caused_by for e in self._events() if isinstance(e, CleaningReleased)}
        # a later publication replaces an earlier one
        newest = {vacuum.id: vacuum.event_id for vacuum in self.vacuums}
        published = defaultdict[int, set[str]](set)
        for vacuum in self.vacuums:
            published[vacuum.content].add(vacuum.event_id)
        same = {event_id: ids for ids in published.values() for event_id in ids}
        for waits in self.waiting:
            others = ", ".join(sorted(same.get(waits.event_id, set()) - {waits.event_id}))
            again = f" (published again as {others})" if others else ""
            yield f"the cleaning after vacuum {waits.event_id}{again} is released {_when(waits)}"
        if (younger := self.waiting_in_all - len(self.waiting)) > 0:
            listed = command_line("waiting", table=self.waiting[0].table)
            yield f"{younger} younger vacuums wait, too: {listed}"
        for event_id in newest.values():
            if same[event_id].isdisjoint(known | released):
                yield (
                    f"vacuum {event_id} is neither waiting nor released: the coordinator has"
                    " not read it yet, or its release is older than the shown events; see:"
                    f" {command_line('status')}"
                )

    def _condemned(self) -> Iterator[str]:
        """Condemned commits to which no service reacts."""
        left = dict[str, CommitCondemned]()
        dead = {dead_letter.origin_location for dead_letter in self.dead_letters}
        for event, place in ((logged.event, logged.place) for logged in self.events):
            if isinstance(event, CommitCondemned) and place not in dead:
                left[event.instant] = event
            elif isinstance(event, SavepointsCheckRequested) and event.condemned:
                left.pop(event.condemned, None)
            elif isinstance(event, RestoreCompleted):
                for gone in event.instants:
                    left.pop(gone.instant, None)
        for instant, event in left.items():
            planned = command_line("plan restore", table=event.table, savepoint="INSTANT")
            yield (
                f"commit {instant} is condemned, and no service reacted: a rule of"
                f" [[restores.rules]] with `condemned` would. Choose a savepoint from before it"
                f" ({command_line('savepoints list', event.table)}), then: {planned}"
            )

    def _alarms(self) -> Iterator[str]:
        """Open alarms about a table, and flags of today; a request's or a vacuum's is its step."""
        recent = Recent(day_ago=datetime.now(UTC) - timedelta(days=1))
        for logged in self.events:
            recent.take(logged)
        for logged in by_time(recent.alarms):
            match logged.event:
                case CommitFlagged() | VacuumFlagged() as flag:
                    yield flagged(flag)
                case TableAlarm() as alarm:
                    yield f"{alarm.table}: {content_of(alarm)}"
                case _:
                    pass

    def _events(self) -> Iterator[Event]:
        return (event.event for event in self.events if event.event is not None)


@dataclass(slots=True)
class _Answers:
    """The outcomes of a command, in order, and its dead letter."""

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    resumed: bool = False
    """Whether the table was restored after the restore had failed."""
    dead: str | None = None
    """Why its task became a dead letter."""
    redrive: str = ""
    """The command that publishes its open dead letter again, if there is one."""

    def has(self, *verdicts: Verdict) -> bool:
        """Whether an outcome has one of these verdicts."""
        return any(outcome.verdict in verdicts for outcome in self.outcomes)

    @property
    def has_ended(self) -> bool:
        """Whether the command was carried out or refused."""
        return self.resumed or self.has(Verdict.DONE, Verdict.REFUSED)

    @property
    def refused(self) -> str | None:
        """Why a person's request was refused. Of one that was done, a copy may be refused later."""
        refusals = (
            ": ".join(filter(None, (reason_of(outcome), getattr(outcome, "message", None))))
            for outcome in reversed(self.outcomes)
            if outcome.verdict is Verdict.REFUSED
            and getattr(outcome, "requested_by", None)
            # a person who withdrew it knows; and what is too late stays so
            and reason_of(outcome) not in {Reason.WITHDRAWN, Reason.TOO_LATE}
        )
        return None if self.has(Verdict.DONE) else next(refusals, None)

    @property
    def failed(self) -> RestoreFailed | None:
        """Its restore's last failure."""
        failures = [it for it in self.outcomes if isinstance(it, RestoreFailed)]
        return failures[-1] if failures else None

    @property
    def has_begun(self) -> bool:
        """Whether its restore began: until it completes, the table takes no writes."""
        return any(isinstance(outcome, RestoreStarted) for outcome in self.outcomes)

    @property
    def last(self) -> Outcome | None:
        """Its last outcome."""
        return self.outcomes[-1] if self.outcomes else None

    @property
    def failing(self) -> str | None:
        """Why its task is tried again."""
        for it in reversed(self.outcomes):
            if isinstance(it, AttemptFailed):
                return f"attempt {it.attempt} failed: {it.message}"
            if isinstance(it, RestoreProgressed | CleaningProgressed):
                break
        return None


def _without_step(
    requests: Mapping[str, Command], answers: Mapping[str, _Answers]
) -> Collection[str]:
    """Of a restore and its approval one has the step: the approval until the restore goes on."""
    found = set[str]()
    for event_id, command in requests.items():
        if (
            isinstance(command, RestoreApproved)
            and answers[event_id].refused is None
            and command.request in requests
        ):
            waits = isinstance(answers[command.request].last, RestoreAwaitingApproval)
            found.add(command.request if waits else event_id)
    return found


def _step(
    command: Command, answers: _Answers, task: TaskIssued | None, story: Story
) -> Iterator[str]:
    """The next step of a command; none if it is finished."""
    named = f"{type(command).__name__} {command.event_id}"
    if answers.has_ended:
        return
    if failed := answers.failed:
        again = f"another request to {failed.savepoint} resumes it"
        yield f"{named} failed half way: {failed.message}; {NO_WRITES}; {again}"
        return
    match answers.last:
        case RestoreAwaitingApproval() as awaiting:
            until = awaiting.expires_at
            by = f" by {until:%Y-%m-%dT%H:%M:%SZ}" if until else ""
            approve = approval_command(awaiting)
            yield f"{named} is carried out once a second person approves it{by}: {approve}"
        case CleaningDeferred() as deferred:
            after = f"after {span(timedelta(milliseconds=deferred.retry_after_ms))}"
            when = "when the hold of the table is removed" if story.held else after
            yield f"{named} is released again {when}: {deferred.reason}: {deferred.message}"
        case _:
            yield f"{named} {_progress(command, answers, task, story.stopped)}"


def _progress(
    command: Command, answers: _Answers, task: TaskIssued | None, stopped: Collection[str]
) -> str:
    """How far a command is that no person has to decide on."""
    workers = (name for name, kinds in EXECUTED.items() if isinstance(command, kinds))
    worker = next(workers, COORDINATOR)
    service = f"the {worker.replace('-', ' ')}"
    needed = [worker] if task or answers.last else [COORDINATOR, worker]
    if answers.dead is not None and answers.has_begun:
        then = answers.redrive and f"; mend the cause, then: {answers.redrive}"
        return f"failed half way: {answers.dead}; {NO_WRITES}{then}"
    if answers.dead is not None:
        return f"is a dead letter: {answers.dead}"
    if down := next((name for name in needed if name in stopped), None):
        why = f" ({answers.failing})" if answers.failing else ""
        run = command_line("run", down)
        return f"waits for the {down.replace('-', ' ')}, which is not running{why}: {run}"
    if answers.failing is not None:
        return f"is tried again by {service}: {answers.failing}"
    if answers.last is not None:
        return f"is under way: {service} has published {type(answers.last).__name__}"
    how = f", as task {task.number} of the table" if task else ""
    return f"has no outcome yet: {service} will carry it out{how}"


def _when(vacuum: PendingVacuum) -> str:
    """When a waiting vacuum's cleaning is released."""
    if vacuum.outstanding:
        holds = ", ".join(map(str, vacuum.outstanding[:_HOLDS]))
        if (more := len(vacuum.outstanding) - _HOLDS) > 0:
            holds += f" and {more} more"
        return f"when these have ended: {holds}{_overdue(vacuum)}"
    return "once the hold of the table is removed" if vacuum.held_by else "with the next event"


def _overdue(vacuum: PendingVacuum) -> str:
    """That it is overdue, and how the end of its first reader is published."""
    if vacuum.overdue_since is None or vacuum.metastore:  # a Metastore's bridge publishes the ends
        return "; it is overdue" if vacuum.overdue_since else ""
    first = vacuum.outstanding[0]
    release = command_line(
        "publish lock-released",
        table=vacuum.table,
        location=vacuum.location,
        lock_id=None if first.transaction_id else first.lock_id,
        transaction_id=first.transaction_id,
    )
    return f"; it is overdue. If {first} has ended and its release was lost: {release}"


def _decision(dead_letters: Sequence[DeadLetter]) -> str:
    """The decision on dead letters of one service and reason."""
    first, *others = dead_letters
    if not others:
        show = command_line("dead-letters show", first.dead_letter_id)
        return (
            f"dead letter {first.dead_letter_id} of {first.service} waits for a decision"
            f" ({first.error}): {show}"
        )
    characters = zip(*(dead_letter.error for dead_letter in dead_letters), strict=False)
    alike = takewhile(lambda them: len(set(them)) == 1, characters)
    text = "".join(them[0] for them in alike).strip() or None
    table, service = first.table, first.service
    listed = command_line("dead-letters list", table=table, service=service, error=text)
    discard = command_line(
        "dead-letters discard", table=table, service=service, error=text, reason="WHY"
    )
    return (
        f"{len(dead_letters)} dead letters of {first.service} wait for a decision"
        f" ({first.error}): {listed}; if none is needed: {discard}"
    )


def _again(command: Command) -> str:
    """How a refused command is repeated: a person asks for it again, or the next event does."""
    match command:
        case SavepointsCheckRequested():
            return "the next commit of the table repeats it"
        case CleaningReleased() | AbortedCleaningReleased():
            return "the next compaction of the table covers it"
        case _:
            return "ask again"
