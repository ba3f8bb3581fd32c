"""Measurements while the real loops work, and that measuring changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from support.memory_bus import MemoryBus
from support.samples import (
    NOON,
    EveryThird,
    Recorder,
    Tableless,
    commit,
    events_on,
    memory_bus,
    message,
    savepoint_request,
    task_message,
    work_off,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import PermanentError, TransientError
from tidegate.events import (
    CleaningReleased,
    CleaningUndone,
    Command,
    DirectoriesCleaned,
    Outcome,
    QuarantineRemoved,
)
from tidegate.monitoring.catalog import PROCESS_METRICS
from tidegate.monitoring.metrics import Metrics
from tidegate.monitoring.observed import ObservedService, ProcessMonitoring
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.protocols import Executor
from tidegate.runtime.retry import RetryPolicy
from tidegate.tables.claim import Claim, NumberTaken, Task
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

COMMITS, OUTCOMES = "tidegate.commits", "tidegate.outcomes"


@pytest.fixture
def monitoring() -> ProcessMonitoring:
    return ProcessMonitoring()


def value(monitoring: ProcessMonitoring, name: str, **labels: str) -> float | None:
    """What a scrape shows under this name and these labels."""
    return monitoring.metrics.registry.get_sample_value(name, labels)


def run_executor(bus: MemoryBus, observed: ObservedService, executor: Executor) -> None:
    quick = RetryPolicy(first=0.001, longest=0.001)
    measured = observed.executor(executor)
    loop = ExecutorLoop(measured, observed.bus(bus), retries=quick)
    work_off(loop)
    loop.close()


def test_a_decider_is_measured_and_decides_the_same(monitoring: ProcessMonitoring) -> None:
    measured, plain = memory_bus(), memory_bus()
    for bus in (measured, plain):
        bus.send([message(commit(number)) for number in range(7)])
    observed = monitoring.service("coordinator")
    decider = observed.subject(EveryThird())
    for loop in (
        CoordinatorLoop(decider, observed.bus(measured)),
        CoordinatorLoop(EveryThird(), plain),
    ):
        while loop.step(0.001):
            pass
        loop.close()

    ids = [[event.event_id for event in events_on(bus, OUTCOMES)] for bus in (measured, plain)]
    assert ids[0] == ids[1]
    gate = {"service": "coordinator"}
    flagged = {**gate, "kind": "CommitFlagged"}
    assert value(monitoring, "tidegate_records_consumed_total", **gate, topic=COMMITS) == 7
    assert value(monitoring, "tidegate_messages_published_total", **flagged) == 2
    assert value(monitoring, "tidegate_event_to_action_seconds_count", **flagged) == 2
    assert value(monitoring, "tidegate_rebalances_total", **gate, event="assigned") == 1
    assert value(monitoring, "tidegate_assigned_partitions", **gate) == 0  # it has left
    written = value(monitoring, "tidegate_changelog_written_bytes_total", **gate)
    assert written is not None
    assert written > 0
    assert value(monitoring, "tidegate_state_restore_seconds_count", **gate) == 1


def test_commands_attempts_outcomes_and_dead_letters(monitoring: ProcessMonitoring) -> None:
    bus = memory_bus()
    bus.send([task_message(savepoint_request(number)) for number in range(4)])
    faults: list[Exception] = [TransientError("storage"), PermanentError("never")]

    run_executor(bus, monitoring.service("recorder"), Recorder(faults))

    it = {"service": "recorder"}
    created, asked = {**it, "kind": "SavepointCreated"}, {**it, "kind": "SavepointRequested"}
    failed, attempts = "tidegate_failed_attempts_total", "tidegate_command_duration_seconds_count"
    assert value(monitoring, "tidegate_outcomes_total", **created, reason="") == 3
    assert value(monitoring, failed, **it, error="TransientError") == 1
    assert value(monitoring, failed, **it, error="PermanentError") == 1
    assert value(monitoring, "tidegate_dead_letters_total", **it, fault="message") == 1
    assert value(monitoring, "tidegate_messages_published_total", **created) == 3
    assert value(monitoring, "tidegate_messages_published_total", **it, kind="") is None
    assert value(monitoring, "tidegate_event_to_action_seconds_count", **created) == 3
    assert value(monitoring, attempts, **asked, result="succeeded") == 3
    assert value(monitoring, attempts, **asked, result="failed") == 2
    assert value(monitoring, "tidegate_commands_running", **it) == 0


class AwayAtFirst(Recorder):
    """Its first claim meets storage that is away; its second a number that another task has."""

    def claim(self, command: Command, task: Task) -> Claim:
        if self.faults:
            raise self.faults.pop(0)
        return super().claim(command, task)


def test_a_claim_that_fails_is_a_failed_attempt(monitoring: ProcessMonitoring) -> None:
    bus = memory_bus()
    bus.send([task_message(savepoint_request(0))])

    faults: list[Exception] = [TransientError("storage"), NumberTaken(7)]
    run_executor(bus, monitoring.service("recorder"), AwayAtFirst(faults))

    failed, it = "tidegate_failed_attempts_total", {"service": "recorder"}
    assert value(monitoring, failed, **it, error="TransientError") == 1
    assert value(monitoring, failed, **it, error="NumberTaken") is None
    assert value(monitoring, "tidegate_commands_running", **it) == 0


class Cleaning(Tableless):
    """Says that it removed two directories of 300 bytes."""

    name: ClassVar[str] = "recorder"
    consumes: ClassVar[tuple[type[Command], ...]] = (CleaningReleased,)

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        yield DirectoriesCleaned.about(
            command,
            directories=("delta_1_1", "delta_2_2"),
            files=3,
            bytes=300,
            duration_ms=1,
            source=self.name,
            occurred_at=NOON,
        )


def test_what_was_removed_is_counted_once_it_is_published(monitoring: ProcessMonitoring) -> None:
    executor = monitoring.service("recorder").executor(Cleaning())
    outcomes = executor.execute(savepoint_request(1))
    next(outcomes)
    removed = "tidegate_removed_bytes_total"
    # the broker does not have it yet
    assert value(monitoring, removed, service="recorder") is None

    assert next(outcomes, None) is None
    assert value(monitoring, removed, service="recorder") == 300
    assert value(monitoring, "tidegate_directories_removed_total", service="recorder") == 2


class Quarantine(Cleaning):
    """Quarantines two directories of 300 bytes, then puts one back and removes the other."""

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        fields = {"files": 1, "duration_ms": 1, "source": self.name, "occurred_at": NOON}
        both = {"directories": ("delta_1_1", "delta_2_2"), "bytes": 300}
        one = {"directories": ("delta_1_1",), "bytes": 100, "cleaning": "c"}
        quarantined = {"mode": "quarantine", "keep_ms": 1}
        yield DirectoriesCleaned.about(command, **fields, **both, **quarantined)
        yield CleaningUndone.about(command, **fields, **one)
        yield QuarantineRemoved.about(command, **fields, **one)


def test_what_is_quarantined_counts_as_removed_only_once_it_is(
    monitoring: ProcessMonitoring,
) -> None:
    executor = monitoring.service("recorder").executor(Quarantine())
    list(executor.execute(savepoint_request(1)))

    def counted(name: str) -> float | None:
        return value(monitoring, f"tidegate_{name}_total", service="recorder")

    assert (counted("directories_quarantined"), counted("quarantined_bytes")) == (2, 300)
    assert (counted("directories_removed"), counted("removed_bytes")) == (1, 100)
    assert counted("directories_put_back") == 1


def test_a_scrape_has_what_the_catalog_lists_and_nothing_else_of_ours() -> None:
    metrics = Metrics()
    registered = {metric.name for metric in metrics.registry.collect()}

    ours = {name for name in registered if name.startswith("tidegate_")}
    assert ours == {metric.name.removesuffix("_total") for metric in PROCESS_METRICS}
    for metric in PROCESS_METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert metric.help.endswith(".")
        assert "table" not in metric.labels, "a table's name is chosen by others: unbounded"
