"""Logs: lines for people on a terminal, JSON lines for everything else.

Both come from the standard library's loggers through structlog. What the running code has bound
(service, table, event id, cause) is in every line; control characters are escaped.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import textwrap
from typing import TYPE_CHECKING, Literal, TextIO

import structlog

from tidegate.monitoring.visible import visible

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


LogFormat = Literal["auto", "human", "json"]
"""How log lines look; auto is human on a terminal, else JSON."""


def configure_logging(
    level: int = logging.INFO, style: LogFormat = "auto", stream: TextIO | None = None
) -> None:
    """Log to a stream, by default standard error; ours from this level, libraries' warnings."""
    target: TextIO = stream or sys.stderr
    is_terminal = target.isatty()
    human = style == "human" or (style == "auto" and is_terminal)
    handler = logging.StreamHandler(target)
    handler.setFormatter(_human(colors=is_terminal) if human else _json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("tidegate").setLevel(level)


def _human(*, colors: bool) -> logging.Formatter:
    time = structlog.processors.TimeStamper("%H:%M:%S", utc=False)
    renderer = structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False, pad_event_to=0)
    return _formatter(renderer, time, _indent_traceback)


def _json() -> logging.Formatter:
    time = structlog.processors.TimeStamper("iso", utc=True)
    return _formatter(structlog.processors.JSONRenderer(), time, _add_instance)


def _formatter(renderer: Processor, *processors: Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.format_exc_info,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _make_visible,
            *processors,
            renderer,
        ],
    )


def _indent_traceback(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """A line that begins at the margin is a record's: those of a traceback do not."""
    if "exception" in event:
        event["exception"] = textwrap.indent(event["exception"], "    ")
    return event


def _add_instance(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    event["instance"] = f"{socket.gethostname()}-{os.getpid()}"
    return event


def _make_visible(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Escape what would forge a line or change a terminal, in all but a traceback's own lines."""
    for key, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if key == "exception" else [value]
            event[key] = "\n".join(visible(line) for line in lines)
    return event
