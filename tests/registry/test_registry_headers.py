"""A schema named in a header: what we write there, who reads it, and that it is never lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from support.memory_bus import MemoryBus
from support.samples import (
    EveryThird,
    Recorder,
    commit,
    deserialized,
    memory_bus,
    savepoint_request,
    work_off,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import FormatError, PermanentError
from tidegate.events import (
    CommitCompleted,
    CommitFlagged,
    Event,
    SavepointCreated,
    TaskEnded,
    TaskIssued,
)
from tidegate.events.codec import VALUE_HEADER, encode_body, id_prefix, schema_text
from tidegate.events.wire import Wire, command_of
from tidegate.ops.dead_letters.dead_letter import read_dead_letter, redriven_message
from tidegate.ops.event_log import EventFilter
from tidegate.ops.replay.events import message_of, select_events
from tidegate.registry import RegistrySchemas, RegistrySettings, wire_for
from tidegate.runtime.executor.loop import ExecutorLoop

TOPIC, REQUESTS, TASKS = "tidegate.commits", "tidegate.requests", "tidegate.tasks"
GUID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")


@pytest.fixture
def schemas() -> RegistrySchemas:
    return RegistrySchemas(RegistrySettings(url="mock://tests", schema_id_in="headers"))


def client_of(schemas: RegistrySchemas) -> SchemaRegistryClient:
    return schemas._client


def events_read(bus: MemoryBus, topic: str, wire: Wire) -> list[Event]:
    """What lies on a topic; every message is a bare body under one header of ours."""
    records = bus.records(topic)
    events = [wire.deserialize(record.key, record.value, record.headers) for record in records]
    assert [record.value for record in records] == [encode_body(event) for event in events]
    for record in records:
        assert [name for name, _ in record.headers].count(VALUE_HEADER) == 1
    return events


def test_value_and_header_are_those_of_the_clients_own_serializer(schemas: RegistrySchemas) -> None:
    ours = Wire(schemas).serialize(commit(1), TOPIC)
    theirs: list[tuple[str, str | bytes | None]] = []
    config = {
        "subject.name.strategy": topic_record_subject_name_strategy,
        "schema.id.serializer": header_schema_id_serializer,
        "auto.register.schemas": False,
        "use.latest.version": True,
    }
    write = AvroSerializer(client_of(schemas), schema_text("CommitCompleted"), conf=config)
    value = write(
        commit(1).model_dump(), SerializationContext(TOPIC, MessageField.VALUE, headers=theirs)
    )

    assert ours.value == value == encode_body(commit(1))
    assert [header for header in ours.headers if not header[0].startswith("ce_")] == [
        ("content-type", b"application/avro"),
        *theirs,
    ]


def test_the_clients_own_deserializer_reads_it(schemas: RegistrySchemas) -> None:
    serialized = Wire(schemas).serialize(commit(1), TOPIC)
    context = SerializationContext(TOPIC, MessageField.VALUE, headers=list(serialized.headers))

    shown = AvroDeserializer(client_of(schemas))(serialized.value, context)

    assert CommitCompleted.model_validate(shown) == commit(1)


def test_it_is_read_whatever_the_reader_itself_writes(schemas: RegistrySchemas) -> None:
    in_header = Wire(schemas).serialize(commit(1), TOPIC)
    reader = RegistrySchemas(RegistrySettings(url="mock://tests"))
    reader._client = schemas._client  # the same registry

    assert deserialized(Wire(reader), in_header) == commit(1)
    in_value = Wire(reader).serialize(commit(1), TOPIC)
    assert in_value.value == id_prefix(1) + encode_body(commit(1))
    assert deserialized(Wire(schemas), in_value) == commit(1)


def test_without_a_registry_it_is_refused_with_the_reason(schemas: RegistrySchemas) -> None:
    serialized = Wire(schemas).serialize(commit(1), TOPIC)

    with pytest.raises(FormatError, match="needs a schema registry, and none is configured"):
        deserialized(Wire(), serialized)


@contextmanager
def registry_that_answers(answer: dict[str, object]) -> Iterator[str]:
    """A registry of another make: it says the same to whatever is registered or looked up."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("auto_register", [True, False], ids=["registering", "looking up"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param({"id": 7, "guid": str(GUID)}, b"\x01" + GUID.bytes, id="a GUID"),
        pytest.param({"id": 7}, b"\x00\x00\x00\x00\x07", id="no GUID"),
        pytest.param({"id": 7, "guid": "7"}, b"\x00\x00\x00\x00\x07", id="not a valid GUID"),
    ],
)
def test_the_header_holds_the_guid_or_else_the_id(
    answer: dict[str, object], expected: bytes, *, auto_register: bool
) -> None:
    shown = {"subject": "s", "version": 1, "schema": "{}", **answer}
    with registry_that_answers(shown) as url:
        settings = RegistrySettings(url=url, schema_id_in="headers", auto_register=auto_register)
        serialized = wire_for(settings).serialize(commit(1), TOPIC)

    assert dict(serialized.headers)[VALUE_HEADER] == expected
    assert serialized.value == encode_body(commit(1))


@pytest.mark.parametrize("answer", [{"id": 7, "guid": str(GUID)}, {"id": 7, "guid": "7"}])
def test_before_the_body_stands_the_id_even_where_there_is_a_guid(
    answer: dict[str, object],
) -> None:
    with registry_that_answers(answer) as url:
        serialized = wire_for(RegistrySettings(url=url)).serialize(commit(1), TOPIC)

    assert serialized.value == b"\x00\x00\x00\x00\x07" + encode_body(commit(1))
    assert VALUE_HEADER not in dict(serialized.headers)


def test_deciders_and_executors_consume_and_produce_with_ids_in_headers(
    schemas: RegistrySchemas,
) -> None:
    bus, recorder, wire = memory_bus(), Recorder(), Wire(schemas)
    request = savepoint_request(1)
    bus.send([wire.serialize(commit(number), TOPIC) for number in range(3)])
    bus.send([wire.serialize(request, REQUESTS)])
    decider = CoordinatorLoop(EveryThird(), bus, wire=wire)
    while decider.step(0):
        pass
    work_off(ExecutorLoop(recorder, bus, wire=wire))
    while decider.step(0):  # it reads the end of the task
        pass

    [task] = events_read(bus, TASKS, wire)
    flagged, *outcomes = events_read(bus, "tidegate.outcomes", wire)
    assert isinstance(task, TaskIssued)
    assert (task.caused_by, command_of(task, wire)) == (request.event_id, request)
    assert task.command.value == encode_body(request)
    assert isinstance(flagged, CommitFlagged)
    assert flagged.caused_by == commit(2).event_id
    assert [type(outcome) for outcome in outcomes] == [SavepointCreated, TaskEnded]
    assert [outcome.caused_by for outcome in outcomes] == [request.event_id, task.event_id]
    assert bus.records("tidegate.dead-letters") == []


def test_a_message_that_was_set_aside_and_sent_back_is_still_read(schemas: RegistrySchemas) -> None:
    bus, recorder, wire = memory_bus(), Recorder([PermanentError("no luck")]), Wire(schemas)
    request = savepoint_request(1)
    bus.send([wire.serialize(request, REQUESTS)])
    decider = CoordinatorLoop(EveryThird(), bus, wire=wire)
    loop = ExecutorLoop(recorder, bus, wire=wire)

    def run() -> None:
        for _ in range(3):
            while decider.step(0):
                pass
            work_off(loop)

    run()
    [dead] = bus.records("tidegate.dead-letters")
    listed = read_dead_letter(dead, wire)
    [task] = events_read(bus, TASKS, wire)
    assert listed.event(wire) == request  # what the task carries

    [original] = bus.records(TASKS)
    bus.send([redriven_message(listed, original)])
    run()

    before, redriven, again = events_read(bus, TASKS, wire)
    assert before == redriven == task
    assert isinstance(again, TaskIssued)
    assert (again.number, command_of(again, wire)) == (2, request)
    outcomes = events_read(bus, "tidegate.outcomes", wire)
    assert [type(event) for event in outcomes if not isinstance(event, TaskEnded)] == [
        SavepointCreated
    ]
    assert recorder.asked == [request.instant] * 2


def test_a_message_that_is_replayed_is_still_read(schemas: RegistrySchemas) -> None:
    bus, wire = memory_bus(), Wire(schemas)
    bus.send([wire.serialize(commit(1), TOPIC), wire.serialize(commit(2), TOPIC)])

    wanted = EventFilter(event_ids=(commit(2).event_id,))
    [found] = select_events(bus.records(TOPIC), wanted, wire)
    assert found.event is not None
    bus.send([message_of(found)])

    assert events_read(bus, TOPIC, wire) == [commit(1), commit(2), commit(2)]
