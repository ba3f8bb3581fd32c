"""Subjects and executors that are measured while they work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, cast

from tidegate.coordinator.store import Store
from tidegate.coordinator.subject import Effects, Subject
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
from tidegate.monitoring import catalog
from tidegate.monitoring.observed import ObservedService
from tidegate.runtime.protocols import Executor, Published
from tidegate.tables.claim import AlreadyDone, Claim, Task
from tidegate.tables.task_numbers import NO_CLAIM, Overtaken, Unclaimed

_DONE: Final = "succeeded"
_FAILED: Final = "failed"


def measured_subject(subject: Subject, service: ObservedService) -> Subject:
    """Measure how long after its event each command and outcome of a subject is published."""
    return _Subject(subject, service)


def measured_executor(executor: Executor, service: ObservedService) -> Executor:
    """Measure the attempts of an executor and count its outcomes."""
    return cast("Executor", _Executor(executor, service))


class _Subject:
    def __init__(self, subject: Subject, service: ObservedService) -> None:
        self._subject, self._causes, self._traces = subject, service.causes, service.traces
        self.consumes, self.kinds = subject.consumes, subject.kinds
        self.restored, self.next_due = subject.restored, subject.next_due
        self.due = subject.due  # no event: no latency to measure

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        if self._traces is None:
            return self._handle(event, rows, at)
        with self._traces.processing("decides", event) as span:
            effects = self._handle(event, rows, at)
            for message in (*effects.commands, *effects.outcomes):
                self._traces.follows(message.event_id, span)
        return effects

    def _handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        effects = self._subject.handle(event, rows, at)
        for message in (*effects.commands, *effects.outcomes):
            self._causes.remember(message.event_id, at.timestamp(), type(message).__name__)
        return effects


class _Executor:
    def __init__(self, executor: Executor, service: ObservedService) -> None:
        self._executor, self._service = executor, service
        self.name, self.consumes = executor.name, executor.consumes

    def claim(self, command: Command, task: Task) -> Claim:
        return self._executor.claim(command, task)

    def execute(
        self,
        command: Command,
        claim: Unclaimed = NO_CLAIM,
        grounds: Sequence[Published] = (),
    ) -> Iterator[Outcome]:
        service, kind, result = self._service, type(command).__name__, _FAILED
        began, thread = time.monotonic(), threading.get_ident()
        service.running[thread] = began
        try:
            yield from self._traced(command, self._executor.execute(command, claim, grounds))
            result = _DONE
        except (Overtaken, AlreadyDone):  # a result, not a failed attempt
            result = _DONE
            raise
        except Exception as error:
            service.metrics.add(catalog.RETRIES, 1, self.name, type(error).__name__)
            raise
        finally:
            service.running.pop(thread, None)
            taken = time.monotonic() - began
            service.metrics.observe(catalog.COMMAND_SECONDS, taken, self.name, kind, result)

    def _traced(self, command: Command, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        traces, counted = self._service.traces, self._counted(command, outcomes)
        if traces is None:
            yield from counted
            return
        with traces.processing("executes", command) as span:
            for outcome in counted:
                traces.follows(outcome.event_id, span)
                yield outcome

    def _counted(self, command: Command, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        service, appended = self._service, self._service.causes.of(command.event_id)
        for outcome in outcomes:
            kind = type(outcome).__name__
            if appended is not None:
                service.causes.remember(outcome.event_id, appended, kind)
            yield outcome  # counted once it is published
            labels = (self.name, kind, catalog.reason_of(outcome))
            if getattr(outcome, "part", None) in {None, 1}:  # an outcome in parts is one
                service.metrics.add(catalog.OUTCOMES, 1, *labels)
            self._count(outcome)

    def _count(self, outcome: Outcome) -> None:
        """Count what was done to tables."""
        add = self._service.metrics.add
        match outcome:
            case DirectoriesCleaned(mode=CleaningMode.QUARANTINE):
                add(catalog.QUARANTINED, len(outcome.directories), self.name)
                add(catalog.QUARANTINED_BYTES, outcome.bytes, self.name)
            case DirectoriesCleaned() | QuarantineRemoved():
                add(catalog.DIRECTORIES, len(outcome.directories), self.name)
                add(catalog.BYTES, outcome.bytes, self.name)
            case CleaningUndone():
                add(catalog.PUT_BACK, len(outcome.directories), self.name)
            case RestoreCompleted():
                add(catalog.FILES, outcome.files_deleted, self.name)
            case _:
                pass
