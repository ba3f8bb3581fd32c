"""A bus that is measured while a service uses it, so that loops know nothing of metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from tidegate.events.message import TYPE_PREFIX, answered_id
from tidegate.events.topics import DEAD_LETTERS
from tidegate.monitoring import catalog
from tidegate.monitoring.health import ServiceHealth
from tidegate.monitoring.metrics import Metrics
from tidegate.publisher import Message
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

if TYPE_CHECKING:  # OpenTelemetry is an extra
    from tidegate.monitoring.tracing import Traces

_REMEMBERED: Final = 10_000
"""Messages whose cause's time is remembered until they are published."""


class Causes:
    """When the broker appended what a message follows from; bounded, the oldest go first."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._causes: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, event_id: str, appended: float, kind: str = "") -> None:
        """Remember for a message of a kind the time of its cause, in seconds since the epoch."""
        with self._lock:
            self._causes[event_id] = (appended, kind)
            if len(self._causes) > _REMEMBERED:
                self._causes.popitem(last=False)

    def take(self, event_id: str) -> tuple[float, str] | None:
        """Give the time and the kind, once."""
        with self._lock:
            return self._causes.pop(event_id, None)

    def of(self, event_id: str) -> float | None:
        """Give the time, and keep it."""
        with self._lock:
            found = self._causes.get(event_id)
        return found and found[0]


class ObservedService:
    """The metrics and the health of one service."""

    def __init__(
        self,
        name: str,
        metrics: Metrics,
        health: ServiceHealth,
        *,
        executes: bool,
        traces: Traces | None = None,
    ) -> None:
        """Take the service's name, where to count, whether it executes commands, and its spans."""
        self.name, self.metrics, self.health, self.executes = name, metrics, health, executes
        self.traces = traces
        self.causes = Causes()
        self.owned: set[Partition] = set()
        self.running: dict[int, float] = {}
        """When each running command began, by the thread that runs it; monotonic seconds."""
        metrics.set(catalog.ASSIGNED, 0, name)
        metrics.compute(catalog.RUNNING, lambda: len(self.running), name)
        metrics.compute(catalog.OLDEST_RUNNING, self.oldest_running, name)

    def remember_commands(self, records: Sequence[Record]) -> None:
        """Remember when the broker appended commands."""
        for record in records:
            if command_id := answered_id(dict(record.headers)):
                self.causes.remember(
                    command_id.decode(errors="replace"), record.timestamp_ms / 1000
                )

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
            cause = self.causes.take(answered_id(headers).decode())
            if cause is not None:
                appended, kind = cause
                self.metrics.observe(catalog.LATENCY, now - appended, self.name, kind)

    def rebalanced(self, event: str, partitions: Iterable[Partition]) -> None:
        """Count a change of ownership."""
        if event == "assigned":
            self.owned.update(partitions)
            self.health.joined()
        else:
            self.owned.difference_update(partitions)
            self.health.left()
        self.metrics.add(catalog.REBALANCES, 1, self.name, event)
        self.metrics.set(catalog.ASSIGNED, len(self.owned), self.name)


class _ObservedListener:
    """A listener whose rebalances are counted once it has handled them."""

    def __init__(self, listener: RebalanceListener, service: ObservedService) -> None:
        self._listener, self._service = listener, service

    def assigned(self, starts: Offsets) -> None:
        self._listener.assigned(starts)
        self._service.rebalanced("assigned", starts)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._listener.revoked(partitions)
        self._service.rebalanced("revoked", partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self._listener.lost(partitions)
        self._service.rebalanced("lost", partitions)


class _Delegate:
    """Everything that a wrapper does not define is the wrapped object's."""

    def __init__(self, wrapped: object, service: ObservedService) -> None:
        self._wrapped, self._service = wrapped, service

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the type is the caller's protocol
        return getattr(self._wrapped, name)


class _Subscription(_Delegate):
    """Counts the records of a subscription."""

    _wrapped: Subscription

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        records = self._wrapped.poll(limit, timeout)
        service = self._service
        service.health.polled()
        service.metrics.set(catalog.LAST_POLL, time.time(), service.name)
        for topic, count in Counter(record.partition.topic for record in records).items():
            service.metrics.add(catalog.RECORDS, count, service.name, topic)
        if service.executes:
            service.remember_commands(records)
        if service.traces:
            service.traces.received(records)
        return records


class _Changelog(_Delegate):
    """Times the reading of a changelog and counts its bytes."""

    _wrapped: Changelog

    def acquire(
        self, numbers: Collection[int], known: Collection[int] = ()
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        began, count = time.monotonic(), 0
        for number, records in self._wrapped.acquire(numbers, known):
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
        observed = _ObservedListener(listener, self._service)
        joined = self._wrapped.subscribe(group, topics, observed, watched=watched)
        return cast("Subscription", _Subscription(joined, self._service))

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages, and count them once the broker has them."""
        traces = self._service.traces
        self._wrapped.send(traces.injected(messages) if traces else messages)
        self._service.confirmed(messages)

    def changelog(self, topic: str) -> Changelog:
        return cast("Changelog", _Changelog(self._wrapped.changelog(topic), self._service))


def observed_bus(bus: Bus, service: ObservedService) -> Bus:
    """A bus that is measured while one service uses it; several may share the bus."""
    return cast("Bus", _Bus(bus, service))
