"""The trace context of the caller, in the headers of what is published (W3C Trace Context)."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.errors import ConfigError
from tidegate.events.message import Message


def trace_injector() -> Callable[[Message], Message]:
    """What adds the caller's current OpenTelemetry context to a message's headers.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.propagate import inject  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError("traces need OpenTelemetry: pip install 'tidegate[otel]'") from error

    def add_context(message: Message) -> Message:
        carrier: dict[str, str] = {}
        inject(carrier)
        added = tuple((name, value.encode()) for name, value in carrier.items())
        return message._replace(headers=(*message.headers, *added))

    return add_context
