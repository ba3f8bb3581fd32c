"""The trace context of the caller, in the headers of what is published (W3C Trace Context)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.events.wire import Message

if TYPE_CHECKING:  # OpenTelemetry is an extra
    from opentelemetry.context import Context


def trace_injector() -> Callable[[Message], Message]:
    """What adds the caller's current OpenTelemetry context to a message's headers.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        import_module("opentelemetry.propagate")
    except ImportError as error:
        raise ConfigError("traces need OpenTelemetry: pip install 'tidegate[otel]'") from error
    return with_context


def with_context(message: Message, context: Context | None = None) -> Message:
    """The message with an OpenTelemetry context in its headers, by default the current one."""
    from opentelemetry.propagate import inject  # noqa: PLC0415 - an extra

    carrier: dict[str, str] = {}
    inject(carrier, context)
    added = tuple((name, value.encode()) for name, value in carrier.items())
    return message._replace(headers=(*message.headers, *added))
