"""The monitoring of a process: its bus, subjects and executors are measured while it runs."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Effects, Subject
from tidegate.errors import ConfigError
from tidegate.events import (
    CleaningMode,
    CleaningUndone,
    Command,
    DirectoriesCleaned,
    Event,
    Outcome,
    QuarantineRemoved,
    RestoreCompleted,
)
from tidegate.events.topics import DEAD_LETTERS, TASK_TOPIC
from tidegate.events.wire import TYPE_PREFIX, answered_id
from tidegate.monitoring import catalog
from tidegate.monitoring.catalog import PROCESS_METRICS, Metric
from tidegate.monitoring.endpoint import Health, serve
from tidegate.monitoring.metrics import Metrics
from tidegate.monitoring.recent import remember
from tidegate.publisher import Message
from tidegate.runtime.authorization import Unauthorized
from tidegate.runtime.bus import (
    Bus,
    Changelog,
    ChangelogRecord,
    Offsets,
    Partition,
    RebalanceListener,
    Record,
    Subscription,
)
from tidegate.runtime.input.dead_letters import counted
from tidegate.runtime.protocols import Executor, Published
from tidegate.tables.claim import AlreadyDone, Claim, NumberTaken, Task
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim, Overtaken

if TYPE_CHECKING:
    from tidegate.monitoring.tracing import Traces


T = TypeVar("T")
POLL_LIMIT_SECONDS: Final = 300.0
"""A member that has not polled for so long is put out of its group (max.poll.interval.ms)."""


class ObservedService:
    """The metrics and the health of one service; its loop writes the latter, anybody reads it."""

    is_ready = False
    """Whether it is a member of its group, with its state restored."""

    def __init__(self, name: str, metrics: Metrics, traces: Traces | None = None) -> None:
        """Take the service's name, where to count, and its spans."""
        self.name, self.metrics, self.traces = name, metrics, traces
        self.last_poll = time.monotonic()
        """When its loop last asked for records, in monotonic seconds; at first, now."""
        self.causes = OrderedDict[str, tuple[float, str]]()
        """When the broker appended what a message follows from, in seconds; the message's kind."""
        self.owned: set[Partition] = set()
        self.running: dict[int, float] = {}
        """When each running command began, by the thread that runs it; monotonic seconds."""
        metrics.set(catalog.ASSIGNED, 0, name)
        metrics.compute(catalog.RUNNING, lambda: len(self.running), name)
        metrics.compute(catalog.OLDEST_RUNNING, self.oldest_running, name)

    def bus(self, bus: Bus) -> Bus:
        """The bus, measured while this service uses it; several may share the bus."""
        return cast("Bus", _Bus(bus, self))

    def subject(self, subject: Subject) -> Subject:
        """The subject; measured how long after its event each of its messages is published."""
        return cast("Subject", _Subject(subject, self))

    def executor(self, executor: Executor) -> Executor:
        """The executor, with its attempts measured and its outcomes counted."""
        return cast("Executor", _Executor(executor, self))

    def remember_tasks(self, records: Sequence[Record]) -> None:
        """Remember when the broker appended commands."""
        for record in records:
            is_task = record.partition.topic.endswith(f".{TASK_TOPIC.suffix}")
            if is_task and (command_id := answered_id(dict(record.headers))):
                cause = record.timestamp_ms / 1000, ""
                remember(self.causes, command_id.decode(errors="replace"), cause)

    def oldest_running(self) -> float:
        """How long the oldest running command has been running, in seconds."""
        begun = min(tuple(self.running.values()), default=None)
        return 0.0 if begun is None else time.monotonic() - begun

    def confirmed(self, messages: Sequence[Message]) -> None:
        """Count messages that the broker has."""
        now = time.time()
        for message in messages:
            if message.topic.endswith(f".{DEAD_LETTERS.suffix}"):
                fault, count = counted(message.headers)
                self.metrics.add(catalog.DEAD_LETTERS, count, self.name, fault)
                continue
            headers = dict(message.headers)
            kind = (headers.get("ce_type") or b"").decode().removeprefix(TYPE_PREFIX)
            self.metrics.add(catalog.PUBLISHED, 1, self.name, kind)
            cause = self.causes.pop(answered_id(headers).decode(), None)
            if cause is not None:
                appended, kind = cause
                self.metrics.observe(catalog.LATENCY, now - appended, self.name, kind)

    def rebalanced(self, event: str, partitions: Iterable[Partition]) -> None:
        """Count a change of ownership."""
        if event == "assigned":
            self.owned.update(partitions)
            self.is_ready = True
        else:
            self.owned.difference_update(partitions)
            self.is_ready = False
        self.metrics.add(catalog.REBALANCES, 1, self.name, event)
        self.metrics.set(catalog.ASSIGNED, len(self.owned), self.name)


def health_of(services: Collection[ObservedService]) -> Health:
    """The health of a process: of all its services.

    A broker that is down is not a reason to restart it: the services wait for it.
    """

    def not_live() -> list[str]:
        idle = {service.name: time.monotonic() - service.last_poll for service in services}
        return [
            f"{name}: has not polled for {seconds:.0f} s"
            for name, seconds in idle.items()
            if seconds > POLL_LIMIT_SECONDS
        ]

    def not_ready() -> list[str]:
        waiting = [service.name for service in services if not service.is_ready]
        return not_live() + [f"{name}: has no partitions from its group yet" for name in waiting]

    return not_live, not_ready


class _Delegate:
    """Everything that a wrapper does not define is the wrapped object's."""

    def __init__(self, wrapped: object, service: ObservedService) -> None:
        self._wrapped, self._service = wrapped, service

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the type is the caller's protocol
        return getattr(self._wrapped, name)


class _Listener(_Delegate):
    """A listener whose rebalances are counted once it has handled them."""

    _wrapped: RebalanceListener

    def assigned(self, starts: Offsets) -> None:
        self._wrapped.assigned(starts)
        self._service.rebalanced("assigned", starts)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._wrapped.revoked(partitions)
        self._service.rebalanced("revoked", partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self._wrapped.lost(partitions)
        self._service.rebalanced("lost", partitions)


class _Subscription(_Delegate):
    """Counts the records of a subscription."""

    _wrapped: Subscription

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        records = self._wrapped.poll(limit, timeout)
        service = self._service
        service.last_poll = time.monotonic()
        service.metrics.set(catalog.LAST_POLL, time.time(), service.name)
        for topic, count in Counter(record.partition.topic for record in records).items():
            service.metrics.add(catalog.RECORDS, count, service.name, topic)
        service.remember_tasks(records)
        if service.traces:
            service.traces.received(records)
        return records


class _Changelog(_Delegate):
    """Times the reading of a changelog and counts its bytes."""

    _wrapped: Changelog

    def acquire(
        self, numbers: Collection[int], kept: Collection[int] = ()
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        began, count = time.monotonic(), 0
        for number, records in self._wrapped.acquire(numbers, kept):
            count += len(records)
            yield number, records
        metrics, name = self._service.metrics, self._service.name
        metrics.observe(catalog.RESTORE_SECONDS, time.monotonic() - began, name)
        metrics.add(catalog.RESTORED, count, name)

    def write(self, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        self._wrapped.write(entries)
        written = (record for records in entries.values() for record in records)
        size = sum(len(key) + len(value or b"") for key, value in written)
        self._service.metrics.add(catalog.WRITTEN, size, self._service.name)


class _Bus(_Delegate):
    """Measures the subscriptions, messages and changelogs of one service."""

    _wrapped: Bus

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        watched: Sequence[str] = (),
    ) -> Subscription:
        observed = _Listener(listener, self._service)
        joined = self._wrapped.subscribe(group, topics, observed, watched=watched)
        return cast("Subscription", _Subscription(joined, self._service))

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages, and count them once the broker has them."""
        traces = self._service.traces
        self._wrapped.send(traces.injected(messages) if traces else messages)
        self._service.confirmed(messages)

    def changelog(self, topic: str) -> Changelog:
        return cast("Changelog", _Changelog(self._wrapped.changelog(topic), self._service))


_DONE: Final = "succeeded"
_FAILED: Final = "failed"
_RESULTS: Final = (Overtaken, AlreadyDone, NumberTaken, Refused, Unauthorized)
"""What an attempt raises that did not fail."""


class _Subject(_Delegate):
    _wrapped: Subject

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        traces = self._service.traces
        with traces.processing("decides", event) if traces else nullcontext() as span:
            effects = self._wrapped.handle(event, rows, at)
            for message in (*effects.commands, *effects.outcomes):
                cause = at.timestamp(), type(message).__name__
                remember(self._service.causes, message.event_id, cause)
                if traces and span:
                    traces.follows(message.event_id, span)
        return effects


class _Executor(_Delegate):
    _wrapped: Executor

    def claim(self, command: Command, task: Task) -> Claim:
        with self._running():
            return self._wrapped.claim(command, task)

    def execute(
        self, command: Command, claim: AnyClaim = NO_CLAIM, grounds: Sequence[Published] = ()
    ) -> Iterator[Outcome]:
        kind, result, began = type(command).__name__, _FAILED, time.monotonic()
        try:
            with self._running():
                yield from self._measured(command, self._wrapped.execute(command, claim, grounds))
            result = _DONE
        except (Overtaken, AlreadyDone):
            result = _DONE
            raise
        finally:
            labels, taken = (self._wrapped.name, kind, result), time.monotonic() - began
            self._service.metrics.observe(catalog.COMMAND_SECONDS, taken, *labels)

    @contextmanager
    def _running(self) -> Generator[None]:
        """A part of an attempt, on this thread; its fault is a failed attempt."""
        service, thread = self._service, threading.get_ident()
        service.running[thread] = time.monotonic()
        try:
            yield
        except _RESULTS:
            raise
        except Exception as error:
            service.metrics.add(catalog.RETRIES, 1, self._wrapped.name, type(error).__name__)
            raise
        finally:
            service.running.pop(thread, None)

    def _measured(self, command: Command, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        service, cause = self._service, self._service.causes.get(command.event_id)
        traces = service.traces
        with traces.processing("executes", command) if traces else nullcontext() as span:
            for outcome in outcomes:
                kind = type(outcome).__name__
                if cause is not None:
                    remember(service.causes, outcome.event_id, (cause[0], kind))
                if traces and span:
                    traces.follows(outcome.event_id, span)
                yield outcome  # counted once it is published
                labels = (self._wrapped.name, kind, catalog.reason_of(outcome))
                if getattr(outcome, "part", None) in {None, 1}:  # an outcome in parts is one
                    service.metrics.add(catalog.OUTCOMES, 1, *labels)
                self._count(outcome)

    def _count(self, outcome: Outcome) -> None:
        """Count what was done to tables."""
        add = self._service.metrics.add
        match outcome:
            case DirectoriesCleaned(mode=CleaningMode.QUARANTINE):
                add(catalog.QUARANTINED, len(outcome.directories), self._wrapped.name)
                add(catalog.QUARANTINED_BYTES, outcome.bytes, self._wrapped.name)
            case DirectoriesCleaned() | QuarantineRemoved():
                add(catalog.DIRECTORIES, len(outcome.directories), self._wrapped.name)
                add(catalog.BYTES, outcome.bytes, self._wrapped.name)
            case CleaningUndone():
                add(catalog.PUT_BACK, len(outcome.directories), self._wrapped.name)
            case RestoreCompleted():
                add(catalog.FILES, outcome.files_deleted, self._wrapped.name)
            case _:
                pass


def _exporting() -> Callable[[str], Traces]:
    try:
        from tidegate.monitoring.tracing import Traces, exporting_tracer  # noqa: PLC0415 - an extra

        return partial(Traces, exporting_tracer())
    except ImportError as error:
        raise ConfigError(
            "[monitoring] traces needs OpenTelemetry: pip install 'tidegate[otel]'"
        ) from error


class ProcessMonitoring:
    """Measures the services of this process."""

    def __init__(self, *, traces: bool = False, more: Sequence[Metric] = ()) -> None:
        """Take whether to export spans, and further metrics.

        Raises:
            ConfigError: OpenTelemetry is not installed.
        """
        self.metrics = Metrics((*PROCESS_METRICS, *more))
        self._traces_of = _exporting() if traces else None
        self._services: list[ObservedService] = []

    def service(self, name: str) -> ObservedService:
        """Begin to measure a service of this process."""
        traces = self._traces_of(name) if self._traces_of else None
        observed = ObservedService(name, self.metrics, traces)
        self._services.append(observed)
        return observed

    def serve(
        self, host: str, port: int, settings: Mapping[str, object] | None = None
    ) -> AbstractContextManager[int]:
        """Answer /metrics, /livez, /readyz and /settings while the block runs; returns the port.

        Raises:
            ConfigError: the address can't be used.
        """
        return serve(host, port, self.metrics.registry, health_of(self._services), settings)
