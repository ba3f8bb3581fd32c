"""Log lines: for people or as JSON, always with what is bound, never forged."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from tidegate.monitoring.logs import LogFormat, configure_logging

CLEAR = "\x1b[2Jnothing\r\n\x9b2J\u202etxt"


def logged(style: LogFormat, level: int = logging.INFO) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(level, style, stream)
    return stream


def test_a_json_line_has_time_level_logger_instance_and_what_is_bound() -> None:
    stream = logged("auto")  # no terminal
    with structlog.contextvars.bound_contextvars(service="cleaner", table="lake.a.b"):
        logging.getLogger("tidegate.x").info("removed %d directories", 3)

    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line.pop("instance")
    assert line == {
        "event": "removed 3 directories",
        "level": "info",
        "logger": "tidegate.x",
        "service": "cleaner",
        "table": "lake.a.b",
    }


def test_lines_for_people_have_it_too() -> None:
    stream = logged("human")
    with structlog.contextvars.bound_contextvars(event_id="e1"):
        logging.getLogger("tidegate.x").warning("slow")

    assert "slow" in stream.getvalue()
    assert "event_id=e1" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()  # no colours where there is no terminal


@pytest.mark.parametrize("style", ["human", "json"])
def test_no_line_can_be_forged(style: LogFormat) -> None:
    stream = logged(style)
    with structlog.contextvars.bound_contextvars(table=CLEAR):
        try:
            int(f"bad\nERROR forged {CLEAR}")
        except ValueError:
            logging.getLogger("tidegate.x").exception("a\nERROR forged %s", CLEAR)

    lines = stream.getvalue().splitlines()
    assert not any(line.startswith("ERROR") for line in lines)
    assert all(line.isprintable() for line in lines)
    if style == "json":
        [line] = lines
        assert "ValueError: " in json.loads(line)["exception"]
    else:
        assert sum("ValueError: " in line for line in lines) == 1


def test_libraries_only_warn() -> None:
    stream = logged("json", logging.DEBUG)
    logging.getLogger("py4j").info("chatter")
    logging.getLogger("tidegate.x").debug("detail")

    [line] = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "detail"
