"""A real schema registry, and on the way to it a real Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Schema,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from support.kafka import create_topic
from support.registry import RunningRegistry
from support.samples import commit, deserialized, release
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import FormatError, StopService, TransientError
from tidegate.events import CommitCompleted, SavepointsCheckRequested, TaskIssued
from tidegate.events.codec import VALUE_HEADER, encode_body, id_prefix, schema_text
from tidegate.events.topics import ALL_TOPICS, TASK_TOPIC
from tidegate.events.wire import Wire, command_of
from tidegate.publisher import Message, Publisher
from tidegate.registry import RegistrySchemas, RegistrySettings, subject_of, wire_for
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.records import as_record
from tidegate.service.assembly import assemble
from tidegate.service.catalogue import COORDINATOR
from tidegate.service.settings import Settings

pytestmark = [pytest.mark.registry, pytest.mark.full]
KEY = b"lake.sales.orders"


@pytest.fixture
def client(registry: RunningRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def wire(registry: RunningRegistry, *, auto_register: bool = True) -> Wire:
    """A wire with a cache of its own, as another process has."""
    options = {"timeout": 2}
    settings = RegistrySettings(url=registry.url, auto_register=auto_register, options=options)
    return Wire(RegistrySchemas(settings))


def text_with(field: Mapping[str, object]) -> str:
    raw = json.loads(schema_text("CommitCompleted"))
    raw["fields"].append(field)
    return json.dumps(raw)


@pytest.mark.kafka
def test_an_event_published_through_a_registry_is_read_by_another_process(
    registry: RunningRegistry, bootstrap_servers: str, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.commits"
    create_topic(bootstrap_servers, topic)
    with Publisher(
        bootstrap_servers, source="ingest", prefix=topic_prefix, registry=registry.url
    ) as publisher:
        publisher.publish(commit(1), commit(2))

    messages = list(consumed(bootstrap_servers, topic, 2))

    reader = wire(registry)
    assert [(message.value or b"")[:1] for message in messages] == [b"\x00", b"\x00"]
    assert [deserialized(reader, message) for message in messages] == [commit(1), commit(2)]


def consumed(servers: str, topic: str, count: int) -> Iterator[Message]:
    settings = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    for message in consumer.consume(count, 30):
        record = as_record(message)
        yield Message(topic, record.key, record.value, record.headers)
    consumer.close()


@pytest.mark.kafka
@pytest.mark.parametrize("schema_id_in", ["value", "headers"])
def test_a_service_consumes_and_produces_through_the_registry(
    registry: RunningRegistry,
    bootstrap_servers: str,
    topic_prefix: str,
    schema_id_in: Literal["value", "headers"],
) -> None:
    named = RegistrySettings(url=registry.url, schema_id_in=schema_id_in)
    for topic in ALL_TOPICS:
        create_topic(bootstrap_servers, topic.name(topic_prefix), 1)
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap.servers": bootstrap_servers},
            "topics": {"prefix": topic_prefix},
            "registry": named,
            "savepoints": [{"tables": "lake.*", "when": "every_commit", "lifetime": "forever"}],
        }
    )
    loop = assemble(COORDINATOR, settings, KafkaBus(settings.connection()))
    assert isinstance(loop, CoordinatorLoop)
    with Publisher(
        bootstrap_servers, source="ingest", prefix=topic_prefix, registry=named
    ) as publisher:
        publisher.publish(commit(1))
    while not loop.step(0.2):
        pass
    loop.close()

    [consumed_] = consumed(bootstrap_servers, f"{topic_prefix}.commits", 1)
    [said] = consumed(bootstrap_servers, TASK_TOPIC.name(topic_prefix), 1)

    task = deserialized(wire(registry), said)
    assert isinstance(task, TaskIssued)
    command = command_of(task, wire(registry))
    assert isinstance(command, SavepointsCheckRequested)
    assert command.caused_by == commit(1).event_id
    headers = task.command.pairs
    carried = Message(task.command.topic, KEY, task.command.value, headers)
    for message, event in ((consumed_, commit(1)), (said, task), (carried, command)):
        in_header = dict(message.headers).get(VALUE_HEADER)
        name = in_header if schema_id_in == "headers" else (message.value or b"")[:5]
        assert name is not None
        assert (name[0], len(name)) == (0, 5)  # this registry gives no GUIDs
        assert message.value == (b"" if in_header else name) + encode_body(event)


def test_a_registry_that_is_away_or_is_not_a_registry_is_named_in_the_error(
    registry: RunningRegistry,
) -> None:
    with pytest.raises(TransientError, match="read schema 1"):
        RegistrySchemas(RegistrySettings(url="http://127.0.0.1:9")).writer(1)
    with pytest.raises(FormatError, match="read schema 1"):
        RegistrySchemas(RegistrySettings(url=registry.url.removesuffix("/v7"))).writer(1)


def test_two_processes_name_a_schema_by_the_same_id(
    registry: RunningRegistry, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.commits"

    first, second = (wire(registry).serialize(commit(1), topic).value for _ in range(2))

    assert first == second


def test_the_events_of_one_topic_have_subjects_of_their_own(
    registry: RunningRegistry, client: SchemaRegistryClient, topic_prefix: str
) -> None:
    for event in (commit(1), release(1)):
        wire(registry).serialize(event, topic_prefix)

    assert sorted(
        subject for subject in client.get_subjects() if subject.startswith(topic_prefix)
    ) == [
        f"{topic_prefix}-io.tidegate.events.CommitCompleted",
        f"{topic_prefix}-io.tidegate.events.LockReleased",
    ]


def test_what_we_write_the_clients_own_deserializer_reads_with_the_real_registry(
    registry: RunningRegistry, client: SchemaRegistryClient, topic_prefix: str
) -> None:
    serialized = wire(registry).serialize(commit(1), topic_prefix)

    shown = AvroDeserializer(client)(
        serialized.value, SerializationContext(topic_prefix, MessageField.VALUE)
    )

    assert CommitCompleted.model_validate(shown) == commit(1)


def test_an_id_in_a_header_is_read_by_the_clients_own_deserializer_with_the_real_registry(
    registry: RunningRegistry, client: SchemaRegistryClient, topic_prefix: str
) -> None:
    settings = RegistrySettings(url=registry.url, schema_id_in="headers")
    serialized = wire_for(settings).serialize(commit(1), topic_prefix)
    context = SerializationContext(
        topic_prefix, MessageField.VALUE, headers=list(serialized.headers)
    )

    shown = AvroDeserializer(client)(serialized.value, context)

    assert serialized.value == encode_body(commit(1))
    assert CommitCompleted.model_validate(shown) == commit(1)
    assert deserialized(wire(registry), serialized) == commit(1)


def test_a_schema_that_was_registered_by_hand_is_used_and_a_missing_one_refused(
    registry: RunningRegistry, client: SchemaRegistryClient, topic_prefix: str
) -> None:
    subject = subject_of(CommitCompleted, topic_prefix)
    number = client.register_schema(subject, Schema(schema_text("CommitCompleted"), "AVRO"))
    by_hand = wire(registry, auto_register=False)

    assert (by_hand.serialize(commit(1), topic_prefix).value or b"").startswith(id_prefix(number))
    with pytest.raises(StopService, match=r"look up .*LockReleased"):
        by_hand.serialize(release(1), topic_prefix)


def test_an_id_that_the_registry_does_not_know_is_a_format_error(registry: RunningRegistry) -> None:
    with pytest.raises(FormatError, match="read schema 2000000000"):
        wire(registry).deserialize(KEY, id_prefix(2_000_000_000) + encode_body(commit(1)))


def test_a_registry_that_does_not_answer_is_a_transient_fault_except_for_what_is_known(
    registry: RunningRegistry, topic_prefix: str
) -> None:
    used, new = wire(registry), wire(registry)
    serialized = used.serialize(commit(1), topic_prefix)
    assert used.deserialize(serialized.key, serialized.value) == commit(1)

    registry.stall()
    try:
        assert used.deserialize(serialized.key, serialized.value) == commit(1)
        assert used.serialize(commit(1), topic_prefix) == serialized
        with pytest.raises(TransientError, match="schema registry"):
            new.deserialize(serialized.key, serialized.value)
    finally:
        registry.go_on()

    assert new.deserialize(serialized.key, serialized.value) == commit(1)


def test_a_backward_registry_takes_an_optional_field_and_both_sides_read_on(
    registry: RunningRegistry, client: SchemaRegistryClient, topic_prefix: str
) -> None:
    subject = subject_of(CommitCompleted, topic_prefix)
    older = wire(registry).serialize(commit(1), topic_prefix)
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD))
    optional = {"name": "pipeline", "type": ["null", "string"], "default": None}

    newer = client.register_schema(subject, Schema(text_with(optional), "AVRO"))

    # null is the branch 0 of the new last field's union
    newer_bytes = id_prefix(newer) + encode_body(commit(2)) + b"\x00"
    assert wire(registry).deserialize(KEY, newer_bytes) == commit(2)
    assert wire(registry).deserialize(older.key, older.value) == commit(1)


def test_a_backward_registry_refuses_a_breaking_schema_and_we_say_so(
    registry: RunningRegistry, client: SchemaRegistryClient, topic_prefix: str
) -> None:
    subject = subject_of(CommitCompleted, topic_prefix)
    raw = json.loads(schema_text("CommitCompleted"))
    raw["fields"] = [field for field in raw["fields"] if field["name"] != "instant"]
    client.register_schema(subject, Schema(json.dumps(raw), "AVRO"))
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD))

    with pytest.raises(StopService, match=f"register {subject}"):
        wire(registry).serialize(commit(1), topic_prefix)
