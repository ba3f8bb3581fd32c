"""OpenTelemetry spans: from what was published over what was decided to what was done.

The context travels in the `traceparent` header of each message (W3C Trace Context), where
OpenTelemetry's own instrumentations of Kafka clients write and look for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry import propagate
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

from tidegate.events import Event
from tidegate.events.wire import answered_id
from tidegate.monitoring.recent import remember
from tidegate.publisher import Message
from tidegate.publisher.tracing import with_context
from tidegate.runtime.bus import Record

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_HEADERS: Final = ("traceparent", "tracestate")


class Traces:
    """The spans of one service; safe to use from any thread."""

    def __init__(self, tracer: Tracer, service: str) -> None:
        """Take where spans go, and the name of the service."""
        self._tracer, self._service = tracer, service
        self._contexts = OrderedDict[str, "Context"]()
        """The contexts of messages, until they are processed or published."""

    def received(self, records: Sequence[Record]) -> None:
        """Remember the contexts of messages that carry one."""
        for record in records:
            headers = {name: value or b"" for name, value in record.headers}
            if "traceparent" in headers and "ce_id" in headers:
                carrier = {n: headers[n].decode("latin-1") for n in _HEADERS if n in headers}
                event_id = answered_id(headers).decode("latin-1")
                remember(self._contexts, event_id, propagate.extract(carrier))

    @contextmanager
    def processing(self, doing: str, event: Event) -> Generator[Span]:
        """A span about one event, below the one that published it; a fault is recorded in it."""
        span = self._tracer.start_span(
            f"{self._service} {doing}",
            context=self._contexts.get(event.event_id),
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": "kafka",
                "messaging.consumer.group.name": self._service,
                "messaging.message.id": event.event_id,
                "tidegate.event": type(event).__name__,
                "tidegate.table": event.table,
            },
        )
        try:
            yield span
        except Exception as error:
            span.record_exception(error)
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            span.end()

    def follows(self, event_id: str, span: Span) -> None:
        """A message that will be published follows from a span."""
        remember(self._contexts, event_id, set_span_in_context(span))

    def injected(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, with the contexts that they follow from."""
        return [self._with_context(message) for message in messages]

    def _with_context(self, message: Message) -> Message:
        context = self._contexts.get(answered_id(dict(message.headers)).decode())
        if context is None:
            return message
        return with_context(message, context)


def exporting_tracer() -> Tracer:
    """A tracer that exports by OTLP over HTTP, configured by OpenTelemetry's own variables.

    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and their like.

    Raises:
        ImportError: the extra `otel` is not installed.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - heavy
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - heavy
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - heavy

    provider = TracerProvider()  # what is not exported yet is when the process exits
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("tidegate")
