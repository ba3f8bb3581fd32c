"""What an executor logs: who and what in every line, an outage once, and a slow command once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import structlog

from support.deployment_events import restore_request, started
from support.samples import (
    NOON,
    Recorder,
    Tableless,
    events_on,
    memory_bus,
    savepoint_request,
    task_message,
    task_of,
    work_off,
)
from tidegate.errors import TransientError
from tidegate.events import AttemptFailed, Command, Outcome, RestoreFailed, SavepointRequested
from tidegate.events.wire import Message, Wire
from tidegate.ops.summary import sentence
from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.executor.command_runner import Attempts, CommandRunner
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.protocols import Executor
from tidegate.runtime.retry import RetryPolicy
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

AT_ZERO = Record(Partition("tidegate.tasks", 0), 0, b"", b"", (), 0)


def attempts() -> Attempts:
    return Attempts(AT_ZERO, task_of(savepoint_request(1)), savepoint_request(1))


def runner_of(executor: Executor, bus: Bus | None = None) -> CommandRunner:
    bus, wire = bus or memory_bus(), Wire()
    return CommandRunner(executor, bus, "tidegate", wire, RetryPolicy(attempts=9))


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_an_outage_is_logged_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = runner_of(Recorder([TransientError("storage is away") for _ in range(4)]))
    made = attempts()
    while runner.attempt(made) is not None:
        pass

    began, created, _, ended = (record.getMessage() for record in caplog.records)
    assert "attempt 1 failed" in began
    assert "storage is away" in began
    assert created == "SavepointCreated"
    assert ended == "SavepointRequested is done after 4 failed attempts"


@dataclass
class Asking(Tableless):
    """Looks at what is bound in the middle of a command."""

    name: ClassVar[str] = "asking"
    consumes: ClassVar[tuple[type[Command], ...]] = (SavepointRequested,)
    bound: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    runner: CommandRunner | None = None

    def execute(
        self,
        command: Command,  # noqa: ARG002 - the protocol's
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        self.bound.append(structlog.contextvars.get_contextvars())
        assert self.runner is not None
        yield from ()


def test_every_line_of_a_command_has_its_table_and_its_ids() -> None:
    executor, command = Asking(), savepoint_request(1)
    executor.runner = runner_of(executor)
    executor.runner.attempt(attempts())

    assert executor.bound == [
        {
            "service": "asking",
            "table": command.table,
            "event_id": command.event_id,
            "cause": command.caused_by,
        }
    ]
    assert structlog.contextvars.get_contextvars() == {}


def test_the_lines_of_a_command_that_is_given_up_have_its_table_and_its_ids(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, command = memory_bus(), savepoint_request(1)
    bus.send([task_message(command)])
    bound: dict[str, dict[str, object]] = {}

    def take(record: logging.LogRecord) -> bool:
        bound[record.getMessage()] = structlog.contextvars.get_contextvars()
        return True

    caplog.handler.addFilter(take)
    try:
        work_off(ExecutorLoop(Recorder([ValueError("a defect")]), bus))
    finally:
        caplog.handler.removeFilter(take)

    written, ended = (
        next(it for text, it in bound.items() if what in text)
        for what in ("dead-lettering", "TaskEnded")
    )
    expected = {"table": command.table, "event_id": command.event_id, "cause": command.caused_by}
    assert written == ended == {"service": "recorder", **expected}


@dataclass
class Yields(Tableless):
    """Publishes these outcomes."""

    outcomes: Sequence[Outcome]
    name: ClassVar[str] = "restorer"
    consumes: ClassVar[tuple[type[Command], ...]] = (SavepointRequested,)

    def execute(
        self,
        command: Command,  # noqa: ARG002 - the protocol's
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        yield from self.outcomes


def test_a_restore_that_is_resumed_or_fails_says_what_that_means(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = restore_request()
    begun = started(request)
    resumed = type(begun).model_validate(begun.model_dump() | {"resumed": True})
    failed = RestoreFailed.about(
        request,
        source="restorer",
        occurred_at=NOON,
        savepoint="20261121120000001",
        restore_instant="20261121130000000",
        message="a file is in the way",
    )
    runner_of(Yields([begun, resumed, failed])).attempt(attempts())

    instant = getattr(begun, "restore_instant", "")
    assert [record.getMessage() for record in caplog.records][:3] == [
        "RestoreStarted",
        f"RestoreStarted: it resumes the restore {instant}, which an earlier attempt began",
        "RestoreFailed: a file is in the way; another request to the savepoint resumes it",
    ]


def test_failed_attempts_are_published_ever_more_rarely_and_never_in_the_way_of_the_next() -> None:
    """Also where the broker takes none of them: the fault of an attempt stays its fault."""
    bus, made = memory_bus(), attempts()
    runner = runner_of(Recorder([OSError(28, "No space left") for _ in range(7)]), bus)
    send = bus.send

    def refuse(messages: Sequence[Message]) -> None:
        if made.failed == 2:
            raise TransientError("the broker is away")
        send(messages)

    bus.send = refuse  # type: ignore[method-assign]
    while runner.attempt(made) is not None:
        pass

    published = events_on(bus, "tidegate.outcomes")
    failed = [event for event in published if isinstance(event, AttemptFailed)]
    assert [event.attempt for event in failed] == [1, 4]
    assert {event.caused_by for event in published[:-1]} == {savepoint_request(1).event_id}
    assert sentence(failed[-1]) == (
        "task 1 (SavepointRequested) is tried again: attempt 4 failed: [Errno 28] No space left"
        f" (since {made.since:%Y-%m-%dT%H:%M:%SZ})"
    )
    assert [type(event).__name__ for event in published[2:]] == ["SavepointCreated", "TaskEnded"]


def test_a_fault_that_names_a_file_without_utf_8_is_published_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)  # pytest-xdist can't send such a line to its controller
    bus, made = memory_bus(), attempts()
    fault = TransientError("not listed: /lake/o/\udcff")

    assert runner_of(Recorder([fault]), bus).attempt(made) is not None

    [failed] = events_on(bus, "tidegate.outcomes")
    assert isinstance(failed, AttemptFailed)
    assert failed.message == "not listed: /lake/o/\\udcff"
