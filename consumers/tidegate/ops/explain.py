"""The history of a table or an event in order, and the next steps."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from tidegate.coordinator.vacuums import WaitingVacuum
from tidegate.errors import FormatError, TidegateError
from tidegate.errors.commands import command_line
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningReleased,
    Command,
    CommitCompleted,
    CommitCondemned,
    CommitFlagged,
    Event,
    LockReleased,
    Outcome,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreFailed,
    SavepointsCheckRequested,
    StopRequested,
    TaskEnd,
    TaskEnded,
    TaskIssued,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumFinished,
    VacuumFlagged,
    table_identity,
)
from tidegate.events.base import Verdict, answered_by
from tidegate.events.fields import span
from tidegate.events.topics import VACUUMS
from tidegate.ops.dead_letters import DeadLetter, DeadLetterBox, DeadLetterFilter
from tidegate.ops.dead_letters.dead_letter import without_value
from tidegate.ops.event_log import (
    TOPICS,
    EventFilter,
    EventLog,
    LoggedEvent,
    reason_of,
    without_bytes,
)
from tidegate.ops.summary import approval_command, flag_key, flagged
from tidegate.ops.waiting import OldestVacuums, PendingVacuum, gate_stores, held_tables
from tidegate.savepoints.rules import SavepointRule, Tier, TierRule, covering
from tidegate.service.catalogue import COORDINATOR, EXECUTED
from tidegate.service.settings import Settings

_HOLDS: Final = 5  # that a step names


def described_rule(rules: Sequence[SavepointRule], table: str) -> str:
    """The rule that applies to a table, and what its tiers keep."""
    rule = covering(rules, table)
    if rule is None:
        return "no rule of [[savepoints]] covers this table: savepoints on request only"
    number = rules.index(rule) + 1
    named = f"rule {number} of [[savepoints]] (policy {rule.policy}, tables {rule.tables!r})"
    if not rule.tiers:
        return f"{named}: savepoints on request only"
    parts = [_described(tier) for tier in rule.tiers]
    parts += [f"at least {span(rule.min_gap)} apart"] if rule.min_gap else []
    parts += [f"at most {rule.max_count} in all"] if rule.max_count else []
    return f"{named}: {', '.join(parts)}"


def _described(tier: TierRule) -> str:
    named = f"every {tier.commits} commits" if tier.tier is Tier.EVERY_N else str(tier.tier)
    if tier.operations:
        named += f" {', '.join(tier.operations)}"
    keep = [f"the newest {tier.keep}"] if tier.keep else []
    keep += [f"for {span(tier.lifetime)}"] if tier.lifetime else []
    return f"{named} (retained: {' '.join(keep) or 'forever'})"


@dataclass(frozen=True, slots=True)
class _Story:
    """The events, oldest first, and the requests and vacuums that are not finished."""

    subject: str
    events: Sequence[LoggedEvent]
    waiting: Sequence[PendingVacuum]
    dead_letters: Sequence[DeadLetter]
    left_out: int = 0
    """The number of older events that are left out."""
    waiting_in_all: int = 0
    """The number of all waiting vacuums; `waiting` has the oldest ones."""
    also_waiting: Collection[str] = ()
    """Ids of all vacuums among the events that still wait, also beyond `waiting`."""
    held: Sequence[Mapping[str, Any]] = ()
    """The hold of a person on the table (see `held_tables`), if there is one."""

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
        steps = [
            f"{hold['requested_by']} holds the table ({hold['reason']}), and nothing of it is"
            f" cleaned until: {command_line('hold remove', hold['table'], reason='it is done')}"
            for hold in self.held
        ]
        steps += [*self._commands(), *self._vacuums(), *self._condemned()]
        steps += [*self._flagged(), *self._unknown_tables()]
        steps += [
            f"dead letter {dead_letter.dead_letter_id} of {dead_letter.service} waits for a"
            f" decision ({dead_letter.error}):"
            f" {command_line('dead-letters show', dead_letter.dead_letter_id)}"
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
        answers = defaultdict[str, _Answers](_Answers, {id_: _Answers() for id_ in requests})
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
        self._take_dead_letters(answers)
        for event_id, command in requests.items():
            # of an approval or a withdrawal whose request has ended there is nothing to ask for
            is_over = answers.get(getattr(command, "request", ""), _Answers()).has_ended
            refused = None if is_over else answers[event_id].refused
            if refused is not None and newest[type(command)] == event_id:
                yield (
                    f"{type(command).__name__} {event_id} was refused ({refused}), and nothing was"
                    f" changed: once that is mended, {_again(command)}"
                )
            elif event_id in approved and answers[event_id].waits is not None:
                continue  # its approval has a step of its own
            elif step := _step(command, answers[event_id], tasks.get(event_id), self.held):
                yield step

    def _take_dead_letters(self, answers: Mapping[str, _Answers]) -> None:
        ends = {e.caused_by: e for e in self._events() if type(e) is TaskEnded and not e.highest}
        for task in self._events():
            end = ends.get(task.event_id)
            if isinstance(task, TaskIssued) and end and end.end is TaskEnd.DEAD_LETTERED:
                answers[task.caused_by or ""].dead = end.message

    def _flagged(self) -> Iterable[str]:
        day_ago, newest = datetime.now(UTC) - timedelta(days=1), dict[str, str]()
        for logged in self.events:
            event = logged.event
            if isinstance(event, CommitFlagged | VacuumFlagged) and logged.at > day_ago:
                newest[flag_key(event)] = flagged(event)
            elif event is not None:
                newest.pop(event.caused_by or "", None)
        return newest.values()

    def _vacuums(self) -> Iterator[str]:
        known = {vacuum.event_id for vacuum in self.waiting}.union(self.also_waiting)
        released = {e.caused_by for e in self._events() if isinstance(e, CleaningReleased)}
        for vacuum in self.waiting:
            holds = ", ".join(map(str, vacuum.outstanding[:_HOLDS]))
            if (more := len(vacuum.outstanding) - _HOLDS) > 0:
                holds += f" and {more} more"
            if vacuum.outstanding:
                overdue = "; it is overdue" if vacuum.overdue_since else ""
                when = f"when these have ended: {holds}{overdue}"
            elif vacuum.held_by:
                when = "once the hold of the table is removed"
            else:
                when = "with the next event"
            yield f"the cleaning after vacuum {vacuum.event_id} is released {when}"
        if (younger := self.waiting_in_all - len(self.waiting)) > 0:
            listed = command_line("waiting", table=self.waiting[0].table)
            yield f"{younger} younger vacuums wait, too: {listed}"
        vacuums = [event for event in self._events() if isinstance(event, VacuumFinished)]
        # a later publication replaces an earlier one
        newest = {(e.partition, e.directories, e.own_lock_id): e.event_id for e in vacuums}
        for event_id in newest.values():
            if event_id not in known | released:
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
    dead: str | None = None
    """Why its task became a dead letter."""

    @property
    def has_ended(self) -> bool:
        """Whether the command was carried out or refused."""
        return self.resumed or bool(self.verdicts & {Verdict.DONE, Verdict.REFUSED})

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


def _step(
    command: Command, answers: _Answers, task: TaskIssued | None, held: Sequence[object]
) -> str | None:
    """The next step of a command; None if it is finished."""
    named = f"{type(command).__name__} {command.event_id}"
    workers = (name for name, kinds in EXECUTED.items() if isinstance(command, kinds))
    service = f"the {next(workers, COORDINATOR).replace('-', ' ')}"
    if answers.has_ended:
        return None
    if Verdict.FAILED in answers.verdicts:
        failed = answers.failed
        reason = f": {failed.message}" if failed else ""
        to = f" to {failed.savepoint}" if failed else ""
        return f"{named} failed half way{reason}; another request{to} resumes it"
    match answers.waits:
        case RestoreAwaitingApproval() as awaiting:
            until = awaiting.expires_at
            by = f" by {until:%Y-%m-%dT%H:%M:%SZ}" if until else ""
            approve = approval_command(awaiting)
            return f"{named} is carried out once a second person approves it{by}: {approve}"
        case CleaningDeferred() as deferred:
            after = f"after {span(timedelta(milliseconds=deferred.retry_after_ms))}"
            when = "when the hold of the table is removed" if held else after
            return f"{named} is released again {when}: {deferred.reason}: {deferred.message}"
        case None:
            if answers.dead is not None:
                state = f"is a dead letter: {answers.dead}"
            elif answers.last is not None:
                state = f"is under way: {service} has published {answers.last}"
            else:
                how = f", as task {task.number} of the table" if task else ""
                state = f"has no outcome yet: {service} will carry it out{how}"
            return f"{named} {state}"


def _again(command: Command) -> str:
    """How a refused command is repeated: a person asks for it again, or the next event does."""
    match command:
        case SavepointsCheckRequested():
            return "the next commit of the table repeats it"
        case CleaningReleased() | AbortedCleaningReleased():
            return "the next compaction of the table covers it"
        case _:
            return "ask again"


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


def held_by(vacuums: Iterable[VacuumFinished]) -> Callable[[Event], bool]:
    """Whether an event releases a lock or transaction that one of these vacuums waits for."""
    locks, transactions = set[int](), set[int]()
    for vacuum in vacuums:
        locks.update(lock.lock_id for lock in vacuum.locks)
        transactions.update(vacuum.open_transactions)
        transactions |= {it.transaction_id for it in vacuum.locks if it.transaction_id is not None}

    def is_released_by(event: Event) -> bool:
        return isinstance(event, LockReleased) and (
            event.lock_id in locks or event.transaction_id in transactions
        )

    return is_released_by


def explain(settings: Settings, subject: str, since: datetime | None, limit: int) -> _Story:
    """The history of a table, or of the chain of causes that an event belongs to.

    Args:
        settings: The deployment.
        subject: A table's name, or the id of an event or a dead letter, or its first characters.
        since: Only events that the broker appended from this time on; None: all.
        limit: Only this many of the newest events.

    Raises:
        TidegateError: there is no such table or event.
        ConfigError: no event names the table, or the topics do not exist.
        TransientError: no broker answers.
    """
    log = EventLog.of(settings)
    table = _table(subject)
    if table is not None:
        story = _story(settings, table, since, limit)
        if story.events or story.waiting or story.dead_letters:
            return story
    found = _event(log, subject, since)
    if found is None and (original := _original(settings, subject)) is not None:
        return explain(settings, original, since, limit)
    if found is None:
        if table is not None:
            log.check_named(table, "tables and events' ids are explained")
        raise TidegateError(f"nothing is known of {subject}: no event has this id or table")
    if (event := found.event) is None:
        raise TidegateError(f"the event at {found.place} can't be decoded: {found.problem}")
    with closing(_all_of(log, event.table, since)) as events:
        chain = ids_of_chain(event.event_id, (event.event for event in events if event.event))
    story = _story(settings, event.table, since, limit, chain)
    return replace(story, subject=event.event_id)


def _story(
    settings: Settings,
    table: str,
    since: datetime | None,
    limit: int,
    chain: Collection[str] | None = None,
) -> _Story:
    """The story of a table, or only of the events with these ids."""
    log, newest, count = EventLog.of(settings), deque[LoggedEvent](maxlen=limit), 0
    vacuums = log.read(VACUUMS, EventFilter((table,)), since=since) if chain else iter(())
    releases = held_by(
        logged.event
        for logged in _decoded(vacuums)
        if isinstance(logged.event, VacuumFinished) and logged.event.event_id in (chain or ())
    )
    with closing(_all_of(log, table, since)) as events:
        for logged in events:
            event = logged.event
            if chain is None or (event and (event.event_id in chain or releases(event))):
                newest.append(without_bytes(logged))
                count += 1
    shown, also = {logged.event.event_id for logged in newest if logged.event}, set[str]()

    def wanted(vacuum: WaitingVacuum) -> bool:
        if vacuum.event_id in shown:
            also.add(vacuum.event_id)
        return chain is None or vacuum.event_id in chain

    oldest, held = OldestVacuums(limit, wanted), list[Mapping[str, Any]]()
    for store in gate_stores(settings, table):
        oldest.take(store)
        held += held_tables(store)
    with DeadLetterBox(settings) as box:
        found = box.list(DeadLetterFilter(table=table), include_resolved=True)
        if chain is None:
            dead_letters = list(found)
        else:
            dead_letters = [
                replace(dead_letter, record=without_value(dead_letter.record))
                for batch in box.batches(found)
                for dead_letter in batch
                if (event := dead_letter.event(box.wire)) and event.event_id in chain
            ]
    left_out = count - len(newest)
    return _Story(table, newest, oldest.vacuums, dead_letters, left_out, oldest.count, also, held)


def _event(log: EventLog, event_id: str, since: datetime | None) -> LoggedEvent | None:
    """The newest event whose id begins with `event_id`; reads all partitions of all topics."""
    wanted = EventFilter(event_id=event_id)
    found = (it for topic in TOPICS for it in _decoded(log.read(topic, wanted, since=since)))
    return max(found, key=lambda logged: logged.at, default=None)


def _original(settings: Settings, dead_letter_id: str) -> str | None:
    """The id of a dead letter's event, or its table if that can't be decoded."""
    with DeadLetterBox(settings) as box:
        found = box.list(DeadLetterFilter(ids=(dead_letter_id,)), include_resolved=True)
        for batch in box.batches(islice(found, 1)):
            event = batch[0].event(box.wire)
            return event.event_id if event else batch[0].table
    return None


def _all_of(log: EventLog, table: str, since: datetime | None) -> Generator[LoggedEvent]:
    """The events of a table on all topics, by the broker's time."""
    wanted = EventFilter((table,))
    topics = [_decoded(log.read(topic, wanted, since=since)) for topic in TOPICS]
    yield from heapq.merge(*topics, key=lambda topic: topic.record.timestamp_ms)


def _decoded(found: Iterator[LoggedEvent | None]) -> Iterator[LoggedEvent]:
    return (logged for logged in found if logged is not None)


def _table(subject: str) -> str | None:
    try:
        return table_identity(subject)
    except FormatError:
        return None
