"""The history of a table or an event, and the next steps. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from tidegate.errors.commands import command_line
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningReleased,
    CleaningUndoRequested,
    Command,
    CommitCompleted,
    CommitCondemned,
    Event,
    LockReleased,
    Outcome,
    QuarantineRemovalRequested,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreDeclined,
    RestoreFailed,
    RestoreRequested,
    SavepointRemovalRequested,
    SavepointRequested,
    SavepointsCheckRequested,
    StopRequested,
    TaskEnded,
    TaskIssued,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumFinished,
    WithdrawalRequested,
)
from tidegate.events.verdict import Verdict, answered_by
from tidegate.ops.dead_letters import ListedDeadLetter
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.event_log.summary import reason_of
from tidegate.ops.waiting import PendingVacuum

_SERVICES: Mapping[type[Command], str] = {
    SavepointRequested: "the savepoint writer",
    SavepointRemovalRequested: "the savepoint writer",
    SavepointsCheckRequested: "the savepoint writer",
    RestoreRequested: "the restorer",
    RestoreApproved: "the restorer",
    CleaningReleased: "the cleaner",
    AbortedCleaningReleased: "the cleaner",
    CleaningUndoRequested: "the cleaner",
    QuarantineRemovalRequested: "the cleaner",
    CleaningHoldRequested: "the coordinator",
    CleaningHoldRemovalRequested: "the coordinator",
    WithdrawalRequested: "the coordinator",
    RestoreDeclined: "the coordinator",
}


@dataclass(frozen=True, slots=True)
class Story:
    """The events, oldest first, and the requests and vacuums that are not finished."""

    subject: str
    events: Sequence[LoggedEvent]
    waiting: Sequence[PendingVacuum]
    dead_letters: Sequence[ListedDeadLetter]
    left_out: int = 0
    """The number of older events that are left out."""
    waiting_in_all: int = 0
    """The number of all waiting vacuums; `waiting` has the oldest ones."""
    also_waiting: Collection[str] = ()
    """Ids of all vacuums among the events that still wait, also beyond `waiting`."""

    def shown(self) -> Iterator[LoggedEvent]:
        """The events for people: a repeat, and an end of a task without a message, add nothing."""
        ids = set[str]()
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
        steps = [*self._commands(), *self._vacuums(), *self._condemned(), *self._unknown_tables()]
        steps += [
            f"dead letter {dead_letter.dead_letter.dead_letter_id} of"
            f" {dead_letter.dead_letter.service} waits for a decision"
            f" ({dead_letter.dead_letter.error}):"
            f" {command_line('dead-letters show', dead_letter.dead_letter.dead_letter_id)}"
            for dead_letter in self.dead_letters
            if dead_letter.state == "open"
        ]
        return steps or ["nothing: every request has its outcome, and no vacuum waits"]

    def _commands(self) -> Iterator[str]:
        # a stop has no outcome of its own: the task that it stops has
        commands = [
            e for e in self._events() if isinstance(e, Command) and not isinstance(e, StopRequested)
        ]
        tasks = {e.caused_by: e for e in commands if isinstance(e, TaskIssued)}
        requests = {e.event_id: e for e in commands if not isinstance(e, TaskIssued)}
        answers = {event_id: _Answers() for event_id in requests}
        for event in self._events():
            if isinstance(event, Outcome):
                for answered in requests.keys() & answered_by(event):
                    answers[answered].add(event)
            if isinstance(event, RestoreCompleted):  # also of what another request had begun
                for its in answers.values():
                    its.resumed |= its.failed is not None
        approved = {
            command.request
            for event_id, command in requests.items()
            if isinstance(command, RestoreApproved) and answers[event_id].refused is None
        }
        newest = {type(command): event_id for event_id, command in requests.items()}
        for event_id, command in requests.items():
            refused = answers[event_id].refused
            if refused is not None and newest[type(command)] == event_id:
                yield (
                    f"{type(command).__name__} {event_id} was refused ({refused}), and nothing was"
                    f" changed: once that is mended, {_again(command)}"
                )
            elif event_id in approved and answers[event_id].waits is not None:
                continue  # its approval has a step of its own
            elif (step := _step(command, answers[event_id], tasks.get(event_id))) is not None:
                yield step

    def _vacuums(self) -> Iterator[str]:
        known = {vacuum.event_id for vacuum in self.waiting}.union(self.also_waiting)
        released = {e.caused_by for e in self._events() if isinstance(e, CleaningReleased)}
        for vacuum in self.waiting:
            holds = ", ".join(str(hold) for hold in vacuum.outstanding[:5])
            more = f" and {len(vacuum.outstanding) - 5} more" if len(vacuum.outstanding) > 5 else ""  # noqa: PLR2004
            more += "; it is overdue" if vacuum.overdue_since else ""
            yield (
                f"the cleaning after vacuum {vacuum.event_id} is released when these have ended:"
                f" {holds}{more}"
                if vacuum.outstanding
                else f"the cleaning after vacuum {vacuum.event_id} is released once the hold of the"
                f" table is removed ({vacuum.held_by}): {_remove_hold(vacuum.table)}"
                if vacuum.held_by
                else f"the cleaning after vacuum {vacuum.event_id} is released with the next event"
            )
        if (younger := self.waiting_in_all - len(self.waiting)) > 0:
            listed = command_line("waiting", table=self.waiting[0].table)
            yield f"{younger} younger vacuums wait, too: {listed}"
        vacuums = dict.fromkeys(e.event_id for e in self._events() if isinstance(e, VacuumFinished))
        for event_id in vacuums:
            if event_id not in known | released:
                yield (
                    f"vacuum {event_id} is neither waiting nor released: the coordinator has"
                    " not read it yet, or its release is older than the shown events; see:"
                    f" {command_line('status')}"
                )

    def _condemned(self) -> Iterator[str]:
        """Condemned commits to which no service reacts."""
        left = dict[str, CommitCondemned]()
        for event in self._events():
            if isinstance(event, CommitCondemned):
                left[event.instant] = event
            elif isinstance(event, SavepointsCheckRequested) and event.condemned:
                left.pop(event.condemned, None)
            elif isinstance(event, RestoreCompleted):
                for gone in event.instants:
                    left.pop(gone.instant, None)
        for instant, event in left.items():
            listing = command_line("savepoints list", event.table)
            planned = command_line("plan restore", table=event.table, savepoint="INSTANT")
            yield (
                f"commit {instant} is condemned, and no service reacted: a rule of"
                f" [[restores.rules]] with `condemned` would. Choose a savepoint from before it"
                f" ({listing}), then: {planned}"
            )

    def _unknown_tables(self) -> Iterator[str]:
        unknown: dict[str, str] = {}
        for event in self._events():
            if isinstance(event, UnknownTableReleased):
                unknown[event.table] = event.published_by
            elif isinstance(event, UnknownTableResolved | VacuumFinished):
                unknown.pop(event.table, None)
        for table, publisher in unknown.items():
            yield (
                f"{publisher} publishes releases of {table}, and no vacuum of it is known: correct"
                f" the name if a vacuum waits under another one: {command_line('waiting')}"
            )

    def _events(self) -> Iterator[Event]:
        return (event.event for event in self.events if event.event is not None)


@dataclass(slots=True)
class _Answers:
    """A summary of a command's outcomes, without the outcomes themselves: some are large."""

    verdicts: set[Verdict | None] = field(default_factory=set[Verdict | None])
    last: str | None = None
    """The kind of the last outcome."""
    failed: RestoreFailed | None = None
    resumed: bool = False
    """Whether the table was restored after the restore had failed."""
    refused: str | None = None
    """Why a person's request was refused."""
    waits: RestoreAwaitingApproval | CleaningDeferred | None = None
    """The last outcome, if a person has to act."""

    def add(self, outcome: Outcome) -> None:
        """Take the next outcome."""
        self.verdicts.add(outcome.verdict)
        self.last = type(outcome).__name__
        if outcome.verdict is Verdict.REFUSED and getattr(outcome, "requested_by", None):
            self.refused = ": ".join(
                filter(None, (reason_of(outcome), getattr(outcome, "message", None)))
            )
        self.waits = None
        if isinstance(outcome, RestoreAwaitingApproval | CleaningDeferred):
            self.waits = outcome
        if isinstance(outcome, RestoreFailed):
            self.failed = outcome


def _step(command: Command, answers: _Answers, task: TaskIssued | None) -> str | None:
    """The next step of a command; None if it is finished."""
    named = f"{type(command).__name__} {command.event_id}"
    service = next(
        (name for kind, name in _SERVICES.items() if isinstance(command, kind)), "a service"
    )
    if answers.resumed or answers.verdicts & {Verdict.DONE, Verdict.REFUSED}:
        return None
    if Verdict.FAILED in answers.verdicts:
        failed = answers.failed
        reason = f": {failed.message}" if failed else ""
        to = f" to {failed.savepoint}" if failed else ""
        return f"{named} failed half way{reason}; another request{to} resumes it"
    match answers.waits:
        case RestoreAwaitingApproval(expires_at=until, plan_id=plan_id):
            by = f" by {until:%Y-%m-%dT%H:%M:%SZ}" if until else ""
            approve = command_line(
                "publish approval",
                request=command.event_id,
                plan_id=plan_id,
                table=command.table,
                location=command.location,
                reason="checked the plan",
            )
            return f"{named} is carried out once a second person approves it{by}: {approve}"
        case CleaningDeferred() as deferred:
            why = f"{deferred.reason}: {deferred.message}"
            return f"{named} is released again after a minute: {why}"
        case None:
            if answers.last is not None:
                return f"{named} is under way: {service} has published {answers.last}"
            how = f", as task {task.number} of the table" if task else ""
            return f"{named} has no outcome yet: {service} will carry it out{how}"


def _again(command: Command) -> str:
    """How a refused command is repeated: a person asks for it again, or the next event does."""
    match command:
        case SavepointsCheckRequested():
            return "the next commit of the table repeats it"
        case CleaningReleased() | AbortedCleaningReleased():
            return "the next compaction of the table covers it"
        case _:
            return "ask again"


def _remove_hold(table: str) -> str:
    return command_line("hold remove", table, reason="no longer needed")


def ids_of_chain(event_id: str, events: Iterable[Event]) -> frozenset[str]:
    """The ids of an event, its causes, and all effects of those.

    Args:
        event_id: The event.
        events: All events of its table, in any order.
    """
    causes: dict[str, str] = {}
    effects: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.caused_by is not None:
            causes[event.event_id] = event.caused_by
            effects[event.caused_by].add(event.event_id)
    root, seen = event_id, {event_id}
    while (cause := causes.get(root)) is not None and cause not in seen:
        seen.add(cause)
        root = cause
    found, left = set[str](), [root]
    while left:
        current = left.pop()
        if current not in found:
            found.add(current)
            left += effects[current]
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class HeldIds:
    """The locks and transactions that vacuums wait for, to recognise their releases."""

    locks: frozenset[int]
    transactions: frozenset[int]

    @classmethod
    def of(cls, vacuums: Iterable[VacuumFinished]) -> Self:
        """The holds of some vacuums; a vacuum may name 100,000."""
        locks, transactions = set[int](), set[int]()
        for vacuum in vacuums:
            locks.update(lock.lock_id for lock in vacuum.locks)
            transactions.update(vacuum.open_transactions)
            transactions.update(
                lock.transaction_id for lock in vacuum.locks if lock.transaction_id is not None
            )
        return cls(frozenset(locks), frozenset(transactions))

    def has_ended_by(self, event: Event) -> bool:
        """Whether an event releases one of them."""
        return isinstance(event, LockReleased) and (
            event.lock_id in self.locks or event.transaction_id in self.transactions
        )
