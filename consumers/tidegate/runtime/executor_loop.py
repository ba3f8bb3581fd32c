"""The loop of an executor: commands in, outcomes out, nothing acknowledged before its outcome."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from tidegate.errors import StopService
from tidegate.events import Command
from tidegate.events.topics import DEFAULT_PREFIX, OUTCOME_TOPIC, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.dead_letters import DeadLetterLimit
from tidegate.runtime.execution import Execution
from tidegate.runtime.intake import Intake
from tidegate.runtime.lanes import Lanes
from tidegate.runtime.patience import BRIEF, TABLE_WORK, Patience
from tidegate.runtime.progress import Progress
from tidegate.runtime.services import Executor

log = logging.getLogger(__name__)
BATCH = 100
POLL_SECONDS = 0.2
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Task:
    record: Record
    command: Command
    progress: Progress
    """Of the stay in the group in which it was read: after a loss nobody commits from it."""


class ExecutorLoop:
    """Runs one executor as a member of its consumer group.

    The group is polled while tasks run, however long they take: a long restore never costs the
    membership. Order of calls: `step` again and again, or `run` until stopped; `close` at the end.
    """

    def __init__(  # noqa: PLR0913 - settings, all by name
        self,
        executor: Executor,
        bus: Bus,
        prefix: str = DEFAULT_PREFIX,
        *,
        threads: int = 4,
        backlog: int = 200,
        patience: Patience = TABLE_WORK,
        limit: DeadLetterLimit | None = None,
        wire: Wire | None = None,
    ) -> None:
        """Join the group; at most `backlog` commands of a partition are held at once.

        Raises:
            ConfigError: a topic is not there.
        """
        self._name, self._backlog, wire = executor.name, backlog, wire or Wire()
        self._execution = Execution(executor, bus, prefix, wire, patience)
        # decoding and setting aside wait for nothing longer than the group waits for a poll
        brief, limit = patience.at_most(BRIEF), limit or DeadLetterLimit()
        self._intake = Intake(executor.name, executor.hears, bus, prefix, brief, limit, wire)
        self._lanes = Lanes[_Task](threads, self._carry_out)
        self._progress: dict[Partition, Progress] = {}
        self._finished: SimpleQueue[tuple[_Task, BaseException | None]] = SimpleQueue()
        self._paused: set[Partition] = set()
        self._halt = threading.Event()
        self._stopped = False
        topics = sorted({topic_of(kind).name(prefix) for kind in executor.hears})
        for topic in (*topics, OUTCOME_TOPIC.name(prefix)):
            bus.partitions(topic)
        self._subscription = bus.subscribe(f"{prefix}.{executor.name}", topics, self)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set.

        Raises:
            StopService: this process must not go on; nothing unfinished was acknowledged.
        """
        while not stop.is_set():
            self.step(POLL_SECONDS)

    def step(self, timeout: float) -> int:
        """Take what has arrived, acknowledge what is done. Gives how many records were taken."""
        records = self._subscription.poll(min(BATCH, self._backlog), timeout)
        for record in records:
            self._take(record)
        self._settle()
        return len(records)

    @property
    def idle(self) -> bool:
        """Whether every command taken is done and acknowledged."""
        return not any(each.backlog for each in self._progress.values())

    def close(self, deadline: float = STOP_SECONDS) -> bool:
        """Finish the tasks that run, begin no other, leave the group. Says whether all ended."""
        self._halt.set()
        ended = self._lanes.close(deadline)
        try:
            self._settle()
        finally:
            self._subscription.close()
        return ended

    def assigned(self, starts: Mapping[Partition, int]) -> None:
        """Begin with a clean count; of dead letters, with the one that was kept."""
        for partition in starts:
            self._progress[partition] = Progress()
            self._intake.limit.recall(partition, self._subscription.noted(partition))
        log.info("%s holds %d partitions", self._name, len(starts))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Acknowledge what is done; forget what has not begun. What runs, runs on unacknowledged.

        The next owner may carry it out again at the same time: executors bear that.
        """
        self._settle(wait=True)
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget."""
        for partition in partitions:
            self._progress.pop(partition, None)
        self._paused -= set(partitions)
        self._lanes.drop(lambda task: task.record.partition in partitions)

    def _take(self, record: Record) -> None:
        progress = self._progress.get(record.partition)
        if progress is None:  # it was taken from us in the meantime: the next owner reads it
            return
        progress.take(record.offset)
        command = self._intake.read(record)
        if isinstance(command, Command):
            self._lanes.put(command.table, _Task(record, command, progress))
        else:
            progress.finish(record.offset)
        if progress.backlog >= self._backlog and record.partition not in self._paused:
            self._paused.add(record.partition)
            self._subscription.pause([record.partition])

    def _settle(self, *, wait: bool = False) -> None:
        stop: StopService | None = None
        while not self._finished.empty():
            task, fault = self._finished.get()
            if fault is None:
                task.progress.finish(task.record.offset)
            elif isinstance(fault, StopService):
                stop = stop or fault
        self._acknowledge(wait=wait)
        if stop and not self._stopped:  # one fault is enough: the others came while it stopped
            self._stopped = True
            raise stop

    def _acknowledge(self, *, wait: bool) -> None:
        moved = {p: at for p, each in self._progress.items() if (at := each.moved()) is not None}
        notes = {partition: self._intake.limit.note(partition) for partition in moved}
        self._subscription.commit(moved, notes, wait=wait)
        ready = {p for p in self._paused if self._progress[p].backlog < self._backlog}
        if ready:
            self._paused -= ready
            self._subscription.resume(ready)

    def _carry_out(self, task: _Task) -> None:
        """Carry out one command, on a thread of its table's lane."""
        where = task.record.partition

        def still_ours() -> bool:
            return self._progress.get(where) is task.progress

        try:
            self._execution.carry_out(task.command, still_ours, self._halt)
            self._intake.limit.worked(where)
        except StopService as error:
            self._finished.put((task, error))
        except Exception as error:  # noqa: BLE001 - one bad command must not hold up its table
            self._finished.put((task, self._give_up(task, error)))
        except BaseException as error:  # noqa: BLE001 - a thread must not die in silence
            self._finished.put((task, StopService(f"{self._name}: {error!r}")))
        else:
            self._finished.put((task, None))

    def _give_up(self, task: _Task, error: Exception) -> BaseException | None:
        """Set a command aside; a fault of doing so stops the service, unacknowledged."""
        if self._halt.is_set():
            return error
        try:
            self._intake.set_aside(task.record, error)
        except Exception as fault:  # noqa: BLE001 - a thread hands it to the loop
            stop = StopService(f"a dead letter could not be written: {fault}")
            stop.__cause__ = fault
            return fault if isinstance(fault, StopService) else stop
        return None
