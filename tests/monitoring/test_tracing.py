"""One trace from what was published over what was decided to what was done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from support.memory_bus import MemoryBus
from support.samples import (
    EveryThird,
    Recorder,
    commit,
    memory_bus,
    message,
    savepoint_request,
    task_message,
    work_off,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Effects
from tidegate.errors import PermanentError
from tidegate.events import Event
from tidegate.monitoring.metrics import Metrics
from tidegate.monitoring.observed import ObservedService
from tidegate.monitoring.tracing import Traces
from tidegate.publisher.tracing import trace_injector
from tidegate.runtime.executor.loop import ExecutorLoop

OUTCOMES = "tidegate.outcomes"


class SavesEveryThird(EveryThird):
    """Requests a savepoint for every third event of a table."""

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        is_third = bool(super().handle(event, rows, at).outcomes)
        return Effects([savepoint_request(1, event.table)] if is_third else [])


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test")


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus()


def observed(name: str, tracer: Tracer) -> ObservedService:
    return ObservedService(name, Metrics(), Traces(tracer, name))


def decide(bus: MemoryBus, tracer: Tracer) -> None:
    service = observed("coordinator", tracer)
    loop = CoordinatorLoop(service.subject(SavesEveryThird()), service.bus(bus))
    while loop.step(0.001):
        pass
    loop.close()


def execute(bus: MemoryBus, tracer: Tracer, executor: Recorder) -> None:
    service = observed("recorder", tracer)
    loop = ExecutorLoop(service.executor(executor), service.bus(bus))
    work_off(loop)
    loop.close()


def chain(spans: Sequence[ReadableSpan], last: ReadableSpan) -> list[str]:
    """The names of a span and of those above it, outermost first."""
    by_id = {span.context.span_id: span for span in spans if span.context}
    names, at = [last.name], last.parent
    while at is not None:
        names.append(by_id[at.span_id].name)
        at = by_id[at.span_id].parent
    return names[::-1]


def test_one_trace_from_the_publisher_to_the_outcome(
    bus: MemoryBus, tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    with_context = trace_injector()
    with tracer.start_as_current_span("ingest"):
        bus.send([with_context(message(commit(number))) for number in range(3)])
    decide(bus, tracer)
    execute(bus, tracer, Recorder())

    spans = exporter.get_finished_spans()
    done = next(span for span in spans if span.name == "recorder executes")
    assert chain(spans, done) == ["ingest", "coordinator decides", "recorder executes"]
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert done.attributes
    assert done.attributes["tidegate.table"] == "lake.sales.orders"
    assert_follows(bus, done)


def assert_follows(bus: MemoryBus, done: ReadableSpan) -> None:
    """The outcome carries the context of the span that published it."""
    found = [dict(record.headers) for record in bus.records(OUTCOMES)]
    [carried] = [h["traceparent"] for h in found if (h["ce_type"] or b"").endswith(b"Created")]
    assert done.context
    assert carried is not None
    assert f"{done.context.span_id:016x}".encode() in carried


def test_a_request_and_its_outcome_are_one_trace(
    bus: MemoryBus, tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    with tracer.start_as_current_span("ana asks"):
        bus.send([trace_injector()(message(savepoint_request(1)))])
    decide(bus, tracer)
    execute(bus, tracer, Recorder())

    spans = exporter.get_finished_spans()
    done = next(span for span in spans if span.name == "recorder executes")
    assert chain(spans, done)[0] == "ana asks"
    assert_follows(bus, done)


def test_a_message_without_a_context_begins_a_trace(
    bus: MemoryBus, tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    bus.send([task_message(savepoint_request(1))])
    execute(bus, tracer, Recorder())

    [span] = exporter.get_finished_spans()
    assert span.parent is None


def test_a_fault_is_in_its_span(
    bus: MemoryBus, tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    bus.send([task_message(savepoint_request(1))])
    execute(bus, tracer, Recorder([PermanentError("never")]))

    [span] = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.events[0].name == "exception"


@pytest.mark.parametrize("junk", [b"", b"\xff\xfe", b"00-zz-zz-zz", b"x" * 10_000])
def test_an_invalid_context_is_passed_over(
    bus: MemoryBus, tracer: Tracer, exporter: InMemorySpanExporter, junk: bytes
) -> None:
    sent = task_message(savepoint_request(1))
    bus.send([sent._replace(headers=(*sent.headers, ("traceparent", junk)))])
    execute(bus, tracer, Recorder())

    [span] = exporter.get_finished_spans()
    assert span.parent is None
