"""A task carries a command as its original message."""

from __future__ import annotations

import pytest

from support.samples import NOON, savepoint_request
from tidegate.errors import FormatError
from tidegate.events import Command, Event, TaskIssued
from tidegate.events.wire import Wire, command_of, original_of
from tidegate.publisher import Message

WIRE = Wire()


def task(command: Event, message: Message | None = None, **changes: object) -> TaskIssued:
    message = message or WIRE.serialize(command, "tidegate.requests")
    fields: dict[str, object] = {"occurred_at": NOON, "source": "coordinator", "number": 3}
    fields["command"] = original_of(message, NOON)
    return TaskIssued.about(command, **fields | changes)


def changed(of: TaskIssued, fields: dict[str, object]) -> TaskIssued:
    return TaskIssued.model_validate(of.model_dump() | {"event_id": ""} | fields)


def test_a_command_comes_out_of_its_task_with_every_header() -> None:
    command = savepoint_request(1)
    message = WIRE.serialize(command, "tidegate.requests")
    signed = message._replace(headers=(*message.headers, ("ce_signature", b"\xff"), ("x", None)))
    sent = WIRE.serialize(task(command, signed), "tidegate.tasks")

    received = Wire().deserialize(sent.key, sent.value)

    assert isinstance(received, TaskIssued)
    assert command_of(received, WIRE) == command
    assert [(h.name, h.value) for h in received.command.headers] == [*signed.headers]
    assert received.kind == "SavepointRequested"
    headers = dict(sent.headers)
    assert headers["ce_number"] == b"3"
    assert headers["ce_location"] == command.location.encode()


def test_the_id_of_a_task_follows_from_its_number_and_its_command() -> None:
    command, other = savepoint_request(1), savepoint_request(2)

    assert task(command).event_id == task(command, occurred_at=NOON.replace(year=2030)).event_id
    ids = {task(command).event_id, task(command, number=4).event_id, task(other).event_id}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"table": "lake.sales.other"}, "is not the event's table", id="table"),
        pytest.param({"location": "/elsewhere"}, "at /elsewhere, and carries", id="location"),
        pytest.param({"caused_by": "another"}, "is for another", id="id"),
    ],
)
def test_a_task_for_anything_but_its_command_is_refused(
    changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(FormatError, match=reason):
        command_of(changed(task(savepoint_request(1)), changes), WIRE)


def test_a_task_carries_a_command_and_no_task() -> None:
    inner: Command = task(savepoint_request(1))
    with pytest.raises(FormatError, match="carries a TaskIssued, not a command"):
        command_of(task(inner), WIRE)
