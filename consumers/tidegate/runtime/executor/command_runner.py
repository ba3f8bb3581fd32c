"""Carries a task out, attempt by attempt: claims the table, executes, publishes outcomes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from tidegate.errors import DeliveryError, FormatError, TidegateError, TransientError
from tidegate.events import (
    Answer,
    AttemptFailed,
    CleaningProgressed,
    CleaningStarted,
    Command,
    OriginalMessage,
    Outcome,
    RestoreFailed,
    RestoreProgressed,
    RestoreStarted,
    Stopped,
    StopRequested,
    TaskEnd,
    TaskEnded,
    TaskIssued,
)
from tidegate.events.reasons import Reason
from tidegate.events.refusals import refusal
from tidegate.events.topics import OUTCOME_TOPIC, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.authorization import Authorization, TrustedKey, Unauthorized
from tidegate.runtime.bus import Bus, Record
from tidegate.runtime.input.uncopied import RefusalLimit
from tidegate.runtime.protocols import Executor, Published
from tidegate.runtime.retry import RetryPolicy
from tidegate.signatures.tokens import Sign, unsigned
from tidegate.tables.claim import AlreadyDone, Claim, NumberTaken, Task
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import Overtaken

log = logging.getLogger(__name__)
PROGRESS: Final = (CleaningStarted, CleaningProgressed, RestoreStarted, RestoreProgressed)
"""The outcomes after which a task goes on: published at once. All others are its last ones."""


@dataclass(slots=True)
class Attempts:
    """A task, and how many attempts at it have failed so far."""

    record: Record
    issued: TaskIssued
    command: Command
    """The one that the task carries."""
    failed: int = 0
    since: datetime | None = None
    """When the first one did."""


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs commands for one executor; safe to call from any thread."""

    executor: Executor
    bus: Bus
    prefix: str
    wire: Wire
    retries: RetryPolicy
    authorization: Authorization = field(default_factory=Authorization)
    deployment: str = ""
    """The id of the cluster and the prefix of the topics."""
    sign: Sign = unsigned
    refusals: RefusalLimit = field(default_factory=RefusalLimit)

    def attempt(self, attempts: Attempts) -> float | None:
        """Make one attempt. The caller waits between two attempts, so that no thread has to.

        Args:
            attempts: The same object for every attempt at this task.

        Returns:
            None if the command is done, now or by an earlier run; otherwise the seconds to wait
            before the next attempt.

        Raises:
            Exception: the fault of the last attempt, unchanged: another attempt can't help.
        """
        with self.logging_of(attempts.command):
            return self._attempt(attempts)

    def logging_of(self, command: Command) -> AbstractContextManager[object]:
        """While it is open, every line that is logged has the service, the table and the ids."""
        bound = {"table": command.table, "event_id": command.event_id, "cause": command.caused_by}
        return structlog.contextvars.bound_contextvars(service=self.executor.name, **bound)

    def _attempt(self, attempts: Attempts) -> float | None:
        kind = type(attempts.command).__name__
        try:
            self._carry_out(attempts)
        except Exception as error:
            attempts.failed += 1
            wait = self.retries.wait_after(attempts.failed, error)
            if wait is None:
                raise
            # once: all commands that wait for the storage would fill the log during an outage
            log.log(
                logging.WARNING if attempts.failed == 1 else logging.DEBUG,
                "%s: attempt %d failed, the next one is in %.1f s: %s",
                *(kind, attempts.failed, wait, error),
            )
            self._publish_failed(attempts, error)
            return wait
        if attempts.failed:
            log.info("%s is done after %d failed attempts", kind, attempts.failed)
        return None

    def _publish_failed(self, attempts: Attempts, error: Exception) -> None:
        """Publish a failed attempt: not each one, or an outage would fill the topic."""
        attempts.since = attempts.since or datetime.now(UTC)
        if attempts.failed.bit_count() > 1 or isinstance(error, DeliveryError):
            return
        event = AttemptFailed.about(
            attempts.command,
            number=attempts.issued.number,
            kind=type(attempts.command).__name__,
            attempt=attempts.failed,
            since=attempts.since,
            message=str(error) or type(error).__name__,
            source=self.executor.name,
            occurred_at=datetime.now(UTC),
        )
        with suppress(TransientError, DeliveryError):  # the next attempt is what counts
            self._send(event)

    def _carry_out(self, attempts: Attempts) -> None:
        """Claim the location, execute, record the last outcomes there, and publish them."""
        issued, record = attempts.issued, attempts.record
        try:
            self.authorization.check(issued, record)
        except Unauthorized as refused:  # not the coordinator's: no task of its has ended
            self.refusals.require(record, f"{refused.reason}: {refused.message}")
            self._publish(*self._refusals(attempts.command, refused))
            return
        outcomes = self._last_outcomes(attempts)
        # a tenant may have put them on the table, and the worker would sign them
        if any((it.table, it.location) != (issued.table, issued.location) for it in outcomes):
            raise FormatError("the outcomes on the table are of another table or location")
        self._publish(*outcomes)

    def _last_outcomes(self, attempts: Attempts) -> Sequence[Outcome]:
        """Do what the task says; return what is to be published at its end."""
        issued, record, command = attempts.issued, attempts.record, attempts.command
        task = self._task(issued, is_first=attempts.failed == 0)
        signer: str | None = None
        claim: Claim | None = None
        try:
            try:  # the message that the person or the coordinator signed
                signed_by = self._signed_by(command, issued.command, record)
            except Unauthorized as refused:
                signer = refused.signed_by
                raise
            grounds = [Published(command, issued.command.appended_at, signed_by)]
            signer = grounds[0].signer
            grounds += [self._ground(ground, record) for ground in issued.grounds]
            claim = self.executor.claim(command, task)
            if isinstance(command, StopRequested):
                last, stopped = _stopped(command, claim)
            else:
                last, stopped = [*self._executed(command, claim, grounds)], None
            return claim.finish([*last, self.ended(issued, stopped=stopped)])
        except Overtaken as later:
            log.info("nothing is done: %s", later)
            if claim is not None:  # half way, by its stop
                return ()
            # a copy, a late repeat; or the coordinator's rows were lost, and it begins again at 1:
            # the table no longer says which, and without an answer the table would stand still
            return [self.ended(issued, end=TaskEnd.NUMBER_TAKEN, highest=later.highest)]
        except AlreadyDone as done:
            log.info("task %d is done: its outcome is published again", task.number)
            return done.outcomes
        except NumberTaken as taken:
            return [self.ended(issued, end=TaskEnd.NUMBER_TAKEN, highest=taken.number)]
        except (Refused, Unauthorized) as refused:  # nothing is on the table
            return [*self._refusals(command, refused, signer), self.ended(issued)]

    def _executed(
        self, command: Command, claim: Claim, grounds: Sequence[Published]
    ) -> Iterator[Outcome]:
        """Execute; publish the outcomes about progress, and yield the last ones."""
        for outcome in self.executor.execute(command, claim, grounds):
            answer = _with_asker(outcome, command, grounds[0].signer)
            if isinstance(answer, PROGRESS):
                self._publish(answer)
            else:
                yield answer

    def _task(self, issued: TaskIssued, *, is_first: bool = False) -> Task:
        about = issued.number, issued.event_id, issued.table
        return Task(*about, self.deployment, is_first)

    def publish_redriven(self, issued: TaskIssued, record: Record) -> None:
        """Publish that a task is to be issued again, above the numbers that are on the table."""
        if self._is_issued(issued, record):
            self._publish(self.ended(issued, end=TaskEnd.REDRIVEN))

    def publish_end(
        self, issued: TaskIssued, record: Record, error: Exception, command: Command | None = None
    ) -> None:
        """Publish that a task is among the dead letters: the next of its table may be issued.

        `command` is that of a task that was tried: it is ended on the table first. If it is done
        there, and its outcomes could not be published, a redrive must not do it again.
        """
        if self._is_issued(issued, record):
            how = {"end": TaskEnd.DEAD_LETTERED, "message": str(error) or "failed"}
            end = self.ended(issued, **how)
            # a stop is not ended: its next attempt has to take the table
            if command is not None and not isinstance(command, StopRequested):
                end = self._record_end(command, issued, end)
            self._publish(end)

    def _record_end(self, command: Command, issued: TaskIssued, end: TaskEnded) -> TaskEnded:
        """Record that a task is given up, for a stalled worker that may carry it out, too.

        Returns:
            How it ended: by the table it may be done.
        """
        try:
            claim = self.executor.claim(command, self._task(issued))
            recorded = claim.finish([end])
            claim.outlast()
        except AlreadyDone as done:
            recorded = done.outcomes
        except (Overtaken, NumberTaken) as other:
            log.info("task %d has ended on the table, too: %s", issued.number, other)
            return end
        except (OSError, TidegateError) as error:  # mostly why it is given up
            log.warning("the table does not record the end of task %d: %s", issued.number, error)
            return end
        last = recorded[-1]
        is_done = isinstance(last, TaskEnded) and last.end is TaskEnd.ANSWERED
        return self.ended(issued) if is_done and last.caused_by == issued.event_id else end

    def _is_issued(self, issued: TaskIssued, record: Record) -> bool:
        """Whether the coordinator signed a task, also if that is long ago: it is redriven."""
        try:
            self.authorization.check(issued, record)
        except Unauthorized as refused:
            return refused.reason is Reason.SIGNATURE_EXPIRED
        return True

    def ended(self, issued: TaskIssued, **how: Any) -> TaskEnded:  # noqa: ANN401 - checked by the model
        """The last word on a task."""
        fields = {"number": issued.number, "source": self.executor.name}
        return TaskEnded.about(issued, **fields, occurred_at=datetime.now(UTC), **how)

    def _refusals(
        self, command: Command, refused: Unauthorized | Refused, signer: str | None = None
    ) -> Sequence[Outcome]:
        """The answer to the requester. A stop has none: the task ends by itself."""
        if isinstance(command, StopRequested):
            log.warning("task %d can't be stopped: %s", command.stops, refused)
            return ()
        name, at = self.executor.name, datetime.now(UTC)
        answer = refusal(command, refused.reason, refused.message, name, at)
        return (answer.to(command, signer),)

    def _ground(self, message: OriginalMessage, record: Record) -> Published:
        """A message that the task rests on besides its command.

        Raises:
            Unauthorized: it does not count.
            FormatError: it is not a command.
        """
        event = self.wire.deserialize(record.key, message.value, message.pairs)
        if not isinstance(event, Command):
            raise FormatError(f"a task rests on a {type(event).__name__}, not on a command")
        signed_by = self._signed_by(event, message, record)
        return Published(event, message.appended_at, signed_by)

    def _signed_by(
        self, command: Command, message: OriginalMessage, record: Record
    ) -> TrustedKey | None:
        """The signer of a message that a task carries.

        The coordinator signs what it requests for tasks, a person for requests. Both topics are
        this deployment's, whatever the task says.

        Raises:
            Unauthorized: it does not count.
        """
        topics = {record.partition.topic, topic_of(type(command)).name(self.prefix)}
        topic = message.topic if message.topic in topics else record.partition.topic
        original = record._replace(
            partition=record.partition._replace(topic=topic),
            value=message.value,
            headers=message.pairs,
            timestamp_ms=int(message.appended_at.timestamp() * 1000),
        )
        return self.authorization.check(command, original)

    def _publish(self, *outcomes: Outcome) -> None:
        for outcome in outcomes:
            hint = _hint(outcome)
            log.info("%s%s", type(outcome).__name__, f": {hint}" if hint else "")
            self._send(outcome)

    def _send(self, outcome: Outcome) -> None:
        message = self.wire.serialize(outcome, OUTCOME_TOPIC.name(self.prefix))
        self.bus.send([self.sign(outcome, message)])


def _stopped(stop: StopRequested, claim: Claim) -> tuple[Sequence[Outcome], Stopped]:
    """How far the task is that the claim of a stop has overtaken, and its outcomes if done."""
    claim.overtake()
    done = claim.outcomes_of(stop.stops)
    # the number may be that of another task: the coordinator's rows were lost
    if done and done[-1].caused_by == stop.caused_by:
        return done, Stopped.DONE
    try:
        begun = claim.has_begun(stop.stops, stop.command)
    except Refused:  # its next task says why; this one is overtaken, and publishes nothing
        begun = True
    return (), Stopped.BEGUN if begun else Stopped.NOT_BEGUN


def _with_asker(outcome: Outcome, command: Command, signer: str | None) -> Outcome:
    """The outcome with the requester from the command: the executor's may be from a table's file.

    An outcome that answers another command, such as the restore of an approval, has its requester
    from the executor.
    """
    if not isinstance(outcome, Answer) or outcome.caused_by != command.event_id:
        return outcome
    return outcome.to(command, signer)


def _hint(outcome: Outcome) -> str:
    """The text that follows an outcome's kind in the log."""
    if isinstance(outcome, RestoreStarted) and outcome.resumed:
        return f"it resumes the restore {outcome.restore_instant}, which an earlier attempt began"
    if isinstance(outcome, RestoreFailed):
        return f"{outcome.message}; another request to the savepoint resumes it"
    reason = getattr(outcome, "reason", None)
    return f"{reason}" if reason else ""
