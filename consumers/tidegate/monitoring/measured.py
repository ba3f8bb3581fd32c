"""Deciders and executors that are measured while they work."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, Generic, TypeVar, cast

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
from tidegate.runtime.protocols import (
    Decider,
    Decision,
    Executor,
    Pieces,
    PiecewiseDecider,
    PiecewiseTimedDecider,
    TimedDecider,
)

S = TypeVar("S")
_DONE: Final = "succeeded"
_FAILED: Final = "failed"


def measured_decider(decider: Decider[S], service: ObservedService) -> Decider[S]:
    """Measure how long after its event each command and outcome of a decider is published."""
    if isinstance(decider, PiecewiseTimedDecider):
        return cast("Decider[S]", _PiecewiseTimedDecider(decider, service))
    if isinstance(decider, PiecewiseDecider):
        return cast("Decider[S]", _PiecewiseDecider(decider, service))
    if isinstance(decider, TimedDecider):
        return cast("Decider[S]", _TimedDecider(decider, service))
    return cast("Decider[S]", _Decider(decider, service))  # what it declares is the instance's


def measured_executor(executor: Executor, service: ObservedService) -> Executor:
    """Measure the attempts of an executor and count its outcomes."""
    return cast("Executor", _Executor(executor, service))


class _Decider(Generic[S]):
    def __init__(self, decider: Decider[S], service: ObservedService) -> None:
        self._decider, self._causes, self._traces = decider, service.causes, service.traces
        self.name, self.consumes = decider.name, decider.consumes

    @property
    def state_type(self) -> type[S]:
        return self._decider.state_type

    def initial(self) -> S:
        return self._decider.initial()

    def decide(self, state: S, event: Event, at: datetime) -> Decision[S]:
        if self._traces is None:
            return self._decide(state, event, at)
        with self._traces.processing("decides", event) as span:
            decision = self._decide(state, event, at)
            for command in (*decision.commands, *decision.outcomes):
                self._traces.follows(command.event_id, span)
        return decision

    def _decide(self, state: S, event: Event, at: datetime) -> Decision[S]:
        decision = self._decider.decide(state, event, at)
        for command in (*decision.commands, *decision.outcomes):
            self._causes.remember(command.event_id, at.timestamp())
        return decision


class _PiecewiseDecider(_Decider[S]):
    def __init__(self, decider: PiecewiseDecider[S], service: ObservedService) -> None:
        super().__init__(decider, service)
        self._pieces = decider

    def prepare(self, state: S, pieces: Pieces) -> S:
        return self._pieces.prepare(state, pieces)

    def parse_piece(self, name: str, record: bytes) -> object:
        return self._pieces.parse_piece(name, record)

    def dump_piece(self, piece: object) -> bytes:
        return self._pieces.dump_piece(piece)

    def most_bytes(self, piece: object) -> int:
        return self._pieces.most_bytes(piece)


class _PiecewiseTimedDecider(_PiecewiseDecider[S]):
    def __init__(self, decider: PiecewiseTimedDecider[S], service: ObservedService) -> None:
        super().__init__(decider, service)
        self._timed = decider

    def due_ms(self, table: str, name: str, pieces: Pieces) -> int | None:
        return self._timed.due_ms(table, name, pieces)

    def decide_due(self, state: S, table: str, names: Collection[str], at: datetime) -> Decision[S]:
        return self._timed.decide_due(state, table, names, at)  # no event: no latency to measure


class _TimedDecider(_Decider[S]):
    def __init__(self, decider: TimedDecider[S], service: ObservedService) -> None:
        super().__init__(decider, service)
        self._timed = decider

    def due(self, table: str, state: S) -> datetime | None:
        return self._timed.due(table, state)

    def tick(self, table: str, state: S, at: datetime) -> Decision[S]:
        # nothing caused it now: there is no latency to measure
        return self._timed.tick(table, state, at)


class _Executor:
    def __init__(self, executor: Executor, service: ObservedService) -> None:
        self._executor, self._service = executor, service
        self.name, self.consumes = executor.name, executor.consumes
        self.checks_past_outcomes = executor.checks_past_outcomes

    def is_answered(self, command: Command, outcomes: Sequence[Outcome]) -> bool:
        return self._executor.is_answered(command, outcomes)

    def execute(self, command: Command) -> Iterator[Outcome]:
        service, kind, result = self._service, type(command).__name__, _FAILED
        began, thread = time.monotonic(), threading.get_ident()
        service.running[thread] = began
        try:
            yield from self._traced(command, self._executor.execute(command))
            result = _DONE
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
            if appended is not None:
                service.causes.remember(outcome.event_id, appended)
            yield outcome  # counted once it is published
            labels = (self.name, type(outcome).__name__, catalog.reason_of(outcome))
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
