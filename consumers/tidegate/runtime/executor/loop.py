"""The loop of an executor: a task is acknowledged once its outcomes are on the broker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import NamedTuple

from tidegate.errors import FormatError, StopService
from tidegate.events import Command, Event, StopRequested, TaskIssued
from tidegate.events.topics import CARRIED, DEFAULT_PREFIX, OUTCOME_TOPIC, REQUESTS, TASK_TOPIC
from tidegate.events.wire import Wire, carried_kind, command_of
from tidegate.runtime.authorization import Authorization
from tidegate.runtime.bus import Bus, Partition, Record, require_copartitioned
from tidegate.runtime.executor.command_runner import Attempts, CommandRunner
from tidegate.runtime.executor.keyed_executor import LONG_SECONDS, KeyedExecutor
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit
from tidegate.runtime.input.dead_letters import REDRIVEN_FROM, DeadLetterQueue
from tidegate.runtime.input.decoder import Decoder
from tidegate.runtime.protocols import Executor
from tidegate.runtime.retry import BROKER_RETRIES, TABLE_RETRIES, RetryPolicy
from tidegate.signatures.tokens import Sign, unsigned

log = logging.getLogger(__name__)
BATCH = 100
POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
REVOKE_SECONDS = 1.0
"""How long the group waits for running commands at a rebalance. Most end within it and are
acknowledged before their partition goes to another process, which would run them again."""
_CHECK_SECONDS = 0.01


@dataclass(slots=True)
class _OffsetTracker:
    """The records read from one partition, and the offset before which all of them are done."""

    end: int
    """The offset after the last record that was read; at first the group's committed offset."""
    max_tasks: int = 2000
    """So many unfinished tasks are read before the partition is paused."""
    max_bytes: int = 16 * 2**20
    """So many bytes of their messages are."""
    is_lost: bool = False
    """Whether the partition is no longer this process's: none of its commands starts any more."""
    tasks: set[bytes | None] = field(default_factory=set[bytes | None])
    """The messages of the tasks that are not done."""
    _pending: dict[int, int] = field(default_factory=dict[int, int])
    """The sizes of the records that are not done, by offset, ascending."""
    _size: int = 0
    _committed: int | None = None

    def __post_init__(self) -> None:
        """Nothing is to be committed before something was read."""
        self._committed = self.end

    def start(self, offset: int, size: int = 0) -> None:
        """Add a record that was read, of `size` bytes. Offsets ascend from call to call."""
        self._pending[offset] = size
        self._size += size
        self.end = offset + 1

    def finish(self, offset: int) -> None:
        """Mark a record as done: processed, or written to the dead letters."""
        self._size -= self._pending.pop(offset)

    def next_commit(self) -> int | None:
        """Return the offset to commit, or None if it has not changed since the last call.

        It is the offset of the first record that is not done, or of the next record to read.
        """
        position = next(iter(self._pending), self.end)
        if position == self._committed:
            return None
        self._committed = position
        return position

    def pass_end(self, end: int) -> None:
        """Advance past offsets that hold no record: all records before `end` were read."""
        self.end = max(self.end, end)

    def commit_again(self) -> None:
        """Make `next_commit` return the offset once more: its metadata has changed."""
        self._committed = None

    @property
    def is_full(self) -> bool:
        """Whether the partition must be paused until some of its records are done."""
        return self.pending >= self.max_tasks or self._size >= self.max_bytes

    @property
    def pending(self) -> int:
        """How many records were read and are not done.

        Finished records do not count, even behind an unfinished one: they need no memory.
        """
        return len(self._pending)


class _Task(NamedTuple):
    attempts: Attempts
    offsets: _OffsetTracker
    """The partition's tracker. Once the partition is lost, the task does not start any more."""


class ExecutorLoop:
    """Runs one executor as a member of its consumer group.

    The loop polls the group while commands run, so a long restore never costs the membership.
    Order of calls: `step` repeatedly, or `run` until stopped; then `close`.
    """

    def __init__(  # noqa: PLR0913 - settings, all by name
        self,
        executor: Executor,
        bus: Bus,
        prefix: str = DEFAULT_PREFIX,
        *,
        threads: int = 4,
        max_tasks: int = 2000,
        retries: RetryPolicy = TABLE_RETRIES,
        limit: DeadLetterLimit | None = None,
        wire: Wire | None = None,
        stop_seconds: float = STOP_SECONDS,
        authorization: Authorization | None = None,
        sign: Sign = unsigned,
    ) -> None:
        """Join the group.

        Args:
            executor: What runs the commands.
            bus: The broker.
            prefix: The prefix of the topics' and the group's names.
            threads: How many tables' commands run at the same time.
            max_tasks: How many unfinished tasks a partition may have before it is paused.
            retries: How often a command is tried.
            limit: Stops the service when too many messages become dead letters.
            wire: How events are encoded.
            stop_seconds: How long `close` waits for running commands.
            authorization: Who may have commands executed; by default every publisher of commands.
            sign: Signs the outcomes; by default they are not signed.

        Raises:
            ConfigError: a topic does not exist.
        """
        self._name, wire = executor.name, wire or Wire()
        self._max_tasks = max_tasks
        self._runner = CommandRunner(
            executor,
            bus,
            prefix,
            wire,
            retries,
            authorization or Authorization(),
            f"{bus.cluster_id()}/{prefix}",
            sign,
        )
        # the poll thread decodes and dead-letters: its retries must end before the poll is due
        poll_retries, limit = retries.at_most(BROKER_RETRIES), limit or DeadLetterLimit()
        self._dead_letters = DeadLetterQueue(executor.name, bus, prefix, poll_retries, limit)
        self._tasks = KeyedExecutor[_Task](threads, self._run_task)
        self._offsets: dict[Partition, _OffsetTracker] = {}
        self._finished: SimpleQueue[tuple[_Task, BaseException | None]] = SimpleQueue()
        self._paused: set[Partition] = set()
        self._closing, self._stop_seconds = False, stop_seconds
        self._stopped = False
        self._fault: StopService | None = None
        self._wire, self._poll_retries = wire, poll_retries
        topic = TASK_TOPIC.name(prefix)
        count = require_copartitioned(bus, [topic, OUTCOME_TOPIC.name(prefix)])
        self._consumes = executor.consumes
        self._others = {*CARRIED, *REQUESTS} - {*executor.consumes, StopRequested}
        self._stops = {kind.__name__ for kind in executor.consumes}
        """The kinds of commands whose tasks it stops."""
        kinds = (TaskIssued, *CARRIED)
        self._decoder = Decoder(kinds, prefix, count, poll_retries, wire)
        self._subscription = bus.subscribe(f"{prefix}.{executor.name}", [topic], self)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set.

        Raises:
            StopService: this process must not go on; no unfinished command was acknowledged.
        """
        while not stop.is_set():
            self.step(POLL_SECONDS)

    def step(self, timeout: float) -> int:
        """Queue arrived commands and commit finished ones; return the number of records read."""
        records = self._subscription.poll(min(BATCH, self._max_tasks), timeout)
        for record in records:
            self._accept(record)
        self._pass_ends()
        self._commit_finished()
        for task in self._tasks.relieve():
            command = task.attempts.command
            log.warning(
                "%s of %s has been running for %.0f s and goes on",
                *(type(command).__name__, command.table, LONG_SECONDS),
                extra={"service": self._name, "event_id": command.event_id},
            )
        return len(records)

    @property
    def pending(self) -> int:
        """How many records were read and are not done. A restart reads them again."""
        return sum(tracker.pending for tracker in self._offsets.values())

    def close(self, deadline: float | None = None) -> bool:
        """Let running commands finish, start no other, leave the group.

        Args:
            deadline: How many seconds to wait for running commands; None: `stop_seconds`.

        Returns:
            Whether all of them have ended.
        """
        self._closing = True
        ended = self._tasks.close(self._stop_seconds if deadline is None else deadline)
        try:
            self._commit_finished()
            if self.pending:
                log.info("%s leaves %d commands to its successor", self._name, self.pending)
        finally:
            self._subscription.close()
        return ended

    def assigned(self, starts: Mapping[Partition, int]) -> None:
        """Begin with these partitions; the count of dead letters continues from the metadata."""
        self._offsets = {
            partition: _OffsetTracker(start, self._max_tasks) for partition, start in starts.items()
        }
        for partition in starts:
            history = self._subscription.committed_metadata(partition)
            self._dead_letters.restore(partition, history)
        log.info("%s owns %d partitions", self._name, len(starts))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Start no further command, wait a moment for running ones, commit what is done.

        A command that runs for longer goes on but is not acknowledged: the next owner of the
        partition reads its task again, and finds its claim on the table. If that is this process,
        the task is queued behind what runs of its table.
        """
        self._stop_starting(partitions)
        if not self._closing:
            self._await_running()
        self._collect_finished()
        self._write_recorded(all_of_them=True)
        self._dead_letters.forget()
        self._commit(partitions, wait=True)
        self._offsets = {p: t for p, t in self._offsets.items() if not t.is_lost}

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Drop the commands that have not started; commit nothing."""
        self._stop_starting(partitions)
        self._dead_letters.forget()
        self._offsets = {p: t for p, t in self._offsets.items() if not t.is_lost}

    def _stop_starting(self, partitions: Sequence[Partition]) -> None:
        for partition in self._offsets.keys() & set(partitions):
            self._offsets[partition].is_lost = True
        self._tasks.discard(lambda task: task.offsets.is_lost)
        self._paused -= set(partitions)

    def _await_running(self) -> None:
        until = time.monotonic() + REVOKE_SECONDS
        while time.monotonic() < until and self._tasks.is_running:
            time.sleep(_CHECK_SECONDS)

    def _accept(self, record: Record) -> None:
        offsets = self._offsets.get(record.partition)
        if offsets is None:
            return  # revoked since the poll: the partition's next owner reads the record
        offsets.start(record.offset, len(record.value or b""))
        self._queue(record, offsets)
        if offsets.is_full and record.partition not in self._paused:
            self._paused.add(record.partition)
            self._subscription.pause([record.partition])

    def _queue(self, record: Record, offsets: _OffsetTracker) -> None:
        found = self._decoded(record)
        # The coordinator repeats a task hourly until it has ended. Behind one that is given up, the
        # repeat would be carried out after that was published, and perhaps while people hold the
        # table. Skipped, it costs nothing: the first one's offset is not committed yet.
        if found is None or record.value in offsets.tasks:
            offsets.finish(record.offset)
            return
        offsets.tasks.add(record.value)
        issued, command = found
        task = _Task(Attempts(record, issued, command), offsets)
        # a stop runs beside the task that it stops
        self._tasks.put((command.table, isinstance(command, StopRequested)), task)

    def _pass_ends(self) -> None:
        """Advance past the offsets before an input's end that hold no record."""
        for partition, end in self._subscription.ends().items():
            if (tracker := self._offsets.get(partition)) is not None:
                tracker.pass_end(end)

    def _decoded(self, record: Record) -> tuple[TaskIssued, Command] | None:
        """A task for this executor, and its command; None: another's, or a dead letter."""
        issued = None
        try:
            issued = self._decoder.decode(record)
            if issued is None:
                return None
            task = _task(issued)
            command = self._poll_retries.call(lambda: self._command_of(task))
        except FormatError as error:
            self._dead_letters.send(record, error)
            if isinstance(issued, TaskIssued):
                ended, fault = issued, error
                self._poll_retries.call(lambda: self._runner.publish_end(ended, record, fault))
            return None
        if not isinstance(issued, TaskIssued) or command is None or not self._is_its(command):
            return None
        if any(name == REDRIVEN_FROM for name, _ in record.headers):
            self._poll_retries.call(lambda: self._runner.publish_redriven(issued, record))
            return None
        return issued, command

    def _is_its(self, command: Command) -> bool:
        if isinstance(command, StopRequested):
            return command.kind in self._stops
        return isinstance(command, self._consumes)

    def _command_of(self, task: TaskIssued) -> Command | None:
        """The command that a task carries; None: another worker's, which decodes it."""
        if carried_kind(task, self._wire) in self._others:
            return None
        return command_of(task, self._wire)

    def _write_recorded(self, *, all_of_them: bool = False) -> None:
        for partition in self._dead_letters.write_recorded(all_of_them=all_of_them):
            if (tracker := self._offsets.get(partition)) is not None:
                tracker.commit_again()

    def _commit_finished(self) -> None:
        stop = self._collect_finished()
        self._write_recorded()
        self._commit(self._offsets, wait=False)
        if stop and not self._stopped:  # raised once: `close` calls this again after the fault
            self._stopped = True
            raise stop

    def _collect_finished(self) -> StopService | None:
        """Mark finished tasks as done; return the fault that must stop the service, if any."""
        stop = self._fault
        while not self._finished.empty():
            task, fault = self._finished.get()
            if fault is None:
                record = task.attempts.record
                task.offsets.finish(record.offset)
                task.offsets.tasks.discard(record.value)
            elif isinstance(fault, StopService):
                stop = stop or fault
        self._fault = stop
        return stop

    def _commit(self, partitions: Iterable[Partition], *, wait: bool) -> None:
        offsets = {
            partition: offset
            for partition in partitions
            if partition in self._offsets
            and (offset := self._offsets[partition].next_commit()) is not None
        }
        metadata = {partition: self._dead_letters.history(partition) for partition in offsets}
        self._subscription.commit(offsets, metadata, wait=wait)
        ready = {p for p in self._paused if not self._offsets[p].is_full}
        if ready:
            self._paused -= ready
            self._subscription.resume(ready)

    def _run_task(self, task: _Task) -> float | None:
        """Make one attempt at a command, on a thread; return the wait before the next, if any."""
        if task.offsets.is_lost:
            return None  # the partition's next owner runs it
        try:
            wait = self._runner.attempt(task.attempts)
            if wait is not None:
                return wait
            self._dead_letters.limit.succeeded(task.attempts.record.partition)
        except StopService as error:
            self._finished.put((task, error))
        except Exception as error:  # noqa: BLE001 - one bad command must not hold up its table
            self._finished.put((task, self._give_up(task, error)))
        except BaseException as error:  # noqa: BLE001 - a thread must not die unnoticed
            self._finished.put((task, StopService(f"{self._name}: {error!r}")))
        else:
            self._finished.put((task, None))
        return None

    def _give_up(self, task: _Task, error: Exception) -> BaseException | None:
        """Dead-letter a command; where that fails, the service stops and it stays unacknowledged.

        Returns:
            None once the dead letter is on the broker, otherwise the error that prevented it.
        """
        if self._closing or task.offsets.is_lost:
            return error  # the next owner starts its attempts anew
        attempts = task.attempts
        try:
            with self._runner.logging_of(attempts.command):
                self._dead_letters.send(attempts.record, error)
                self._runner.publish_end(attempts.issued, attempts.record, error, attempts.command)
        except Exception as fault:  # noqa: BLE001 - the poll thread raises it
            stop = StopService(f"a dead letter could not be written: {fault}")
            stop.__cause__ = fault
            return fault if isinstance(fault, StopService) else stop
        return None


def _task(event: Event) -> TaskIssued:
    if not isinstance(event, TaskIssued):
        raise FormatError(f"a {type(event).__name__} counts only within a TaskIssued")
    return event
