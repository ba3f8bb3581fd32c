"""What confluent-kafka's own serializers write, our wire reads; what ours writes, they read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from support.samples import EveryThird, commit, memory_bus, outcomes_on
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import ConfigError, FormatError, StopService, TransientError
from tidegate.events import CommitCompleted, CommitFlagged, Event
from tidegate.events.codec import (
    VALUE_HEADER,
    RegistryKey,
    Schema,
    encode,
    encode_body,
    id_prefix,
    schema_text,
    single_object_prefix,
)
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.registry import RegistrySchemas, RegistrySettings, subject_of
from tidegate.runtime.retry import RetryPolicy

TOPIC = "tidegate.commits"
SUBJECT = "tidegate.commits-io.tidegate.events.CommitCompleted"
KEY = b"lake.sales.orders"
QUICK = RetryPolicy(attempts=3, first=0.001, longest=0.001)


def client_of(schemas: RegistrySchemas) -> SchemaRegistryClient:
    return schemas._client


def serializer(schemas: RegistrySchemas, where: object, text: str | None = None) -> Any:  # noqa: ANN401 - its class is made by a decorator
    config = {
        "subject.name.strategy": topic_record_subject_name_strategy,
        "schema.id.serializer": where,
    }
    return AvroSerializer(client_of(schemas), text or schema_text("CommitCompleted"), conf=config)


def test_the_clients_own_prefixed_bytes_are_read(in_memory: RegistrySchemas) -> None:
    write = serializer(in_memory, prefix_schema_id_serializer)
    value = write(commit(1).model_dump(), SerializationContext(TOPIC, MessageField.VALUE))

    assert value is not None
    assert value[:5] == b"\x00\x00\x00\x00\x01"
    assert Wire(in_memory).kind(value) is CommitCompleted
    assert Wire(in_memory).deserialize(KEY, value) == commit(1)


def test_the_clients_own_schema_id_in_the_headers_is_read(in_memory: RegistrySchemas) -> None:
    headers: list[tuple[str, str | bytes | None]] = []
    write = serializer(in_memory, header_schema_id_serializer)
    context = SerializationContext(TOPIC, MessageField.VALUE, headers)
    value = write(commit(1).model_dump(), context)

    [(name, content)] = headers
    assert isinstance(content, bytes)
    assert (name, content[:1], len(content)) == (VALUE_HEADER, b"\x01", 17)
    assert value == encode_body(commit(1))
    assert Wire(in_memory).deserialize(KEY, value, ((name, content),)) == commit(1)


def test_what_we_write_the_clients_own_deserializer_reads(in_memory: RegistrySchemas) -> None:
    serialized = Wire(in_memory).serialize(commit(1), TOPIC)
    read = AvroDeserializer(client_of(in_memory))

    shown = read(serialized.value, SerializationContext(TOPIC, MessageField.VALUE))

    assert CommitCompleted.model_validate(shown) == commit(1)


def test_the_client_would_choose_the_same_subject(in_memory: RegistrySchemas) -> None:
    write = serializer(in_memory, prefix_schema_id_serializer)
    write(commit(1).model_dump(), SerializationContext(TOPIC, MessageField.VALUE))
    Wire(in_memory).serialize(commit(1), TOPIC)

    assert client_of(in_memory).get_subjects() == [subject_of(CommitCompleted, TOPIC)] == [SUBJECT]


def test_single_objects_are_read_beside_a_registrys_bytes(in_memory: RegistrySchemas) -> None:
    assert Wire(in_memory).deserialize(KEY, encode(commit(1))) == commit(1)


def test_a_newer_writers_event_is_read_through_its_registered_schema(
    in_memory: RegistrySchemas,
) -> None:
    raw = json.loads(schema_text("CommitCompleted"))
    raw["fields"].insert(0, {"name": "pipeline", "type": ["null", "string"], "default": None})
    write = serializer(in_memory, prefix_schema_id_serializer, json.dumps(raw))
    shown = {**commit(1).model_dump(), "pipeline": "hourly"}
    value = write(shown, SerializationContext(TOPIC, MessageField.VALUE))

    assert Wire(in_memory).deserialize(KEY, value) == commit(1)


def test_an_unknown_id_is_a_format_error(in_memory: RegistrySchemas) -> None:
    assert Wire(in_memory).kind(id_prefix(404)) is None
    with pytest.raises(FormatError, match="read schema 404"):
        Wire(in_memory).deserialize(KEY, id_prefix(404) + encode_body(commit(1)))


def test_a_schema_of_another_system_is_a_format_error(in_memory: RegistrySchemas) -> None:
    from confluent_kafka.schema_registry import Schema  # noqa: PLC0415

    foreign = '{"type": "record", "name": "Order", "namespace": "shop", "fields": []}'
    number = client_of(in_memory).register_schema("orders-value", Schema(foreign, "AVRO"))

    with pytest.raises(FormatError, match=r"shop\.Order, which is not a Tidegate event"):
        Wire(in_memory).deserialize(KEY, id_prefix(number))


def test_without_auto_register_a_missing_schema_is_refused_with_its_subject() -> None:
    wire = Wire(RegistrySchemas(RegistrySettings(url="mock://tests", auto_register=False)))

    with pytest.raises(StopService, match=f"look up {SUBJECT}"):
        wire.serialize(commit(1), TOPIC)


def test_a_registry_that_is_down_is_a_transient_fault() -> None:
    wire = Wire(RegistrySchemas(RegistrySettings(url="http://127.0.0.1:9")))

    with pytest.raises(TransientError, match=r"schema registry http://127\.0\.0\.1:9: read"):
        wire.deserialize(KEY, id_prefix(1))
    with pytest.raises(TransientError, match=f"register {SUBJECT}"):
        wire.serialize(commit(1), TOPIC)


class ComesBack:
    """A registry that is away for the first questions."""

    in_headers = False

    def __init__(self, behind: RegistrySchemas, away: int) -> None:
        self.behind, self.away = behind, away

    def prefix(self, model: type[Event], topic: str) -> bytes:  # noqa: ARG002
        return single_object_prefix(model)

    def writer(self, key: RegistryKey) -> Schema:
        self.away -= 1
        if self.away >= 0:
            raise TransientError("the registry is away")
        return self.behind.writer(key)


def arrive(in_memory: RegistrySchemas, away: int, *values: bytes) -> tuple[Any, CoordinatorLoop]:
    bus = memory_bus()
    wire = Wire(ComesBack(in_memory, away))
    loop = CoordinatorLoop(EveryThird(), bus, retries=QUICK, wire=wire)
    bus.send([Message(TOPIC, KEY, value) for value in values])
    return bus, loop


def registered(in_memory: RegistrySchemas, event: Event) -> bytes:
    return Wire(in_memory).serialize(event, TOPIC).value or b""


def test_a_service_waits_for_its_registry_and_loses_nothing(in_memory: RegistrySchemas) -> None:
    values = [registered(in_memory, commit(number)) for number in range(3)]
    bus, loop = arrive(in_memory, 2, *values)

    while loop.step(0):
        pass

    assert [type(event) for event in outcomes_on(bus)] == [CommitFlagged]
    assert bus.records("tidegate.dead-letters") == []


def test_a_registry_that_stays_away_stops_the_service_and_sets_nothing_aside(
    in_memory: RegistrySchemas,
) -> None:
    bus, loop = arrive(in_memory, 100, registered(in_memory, commit(1)))

    with pytest.raises(TransientError):
        loop.step(0)

    assert bus.records("tidegate.dead-letters") == []
    assert dict(bus.committed["tidegate.coordinator"]) == {}


def test_an_id_that_no_registry_knows_goes_to_the_dead_letters(in_memory: RegistrySchemas) -> None:
    bus, loop = arrive(in_memory, 0, id_prefix(404) + encode_body(commit(1)))

    loop.step(0)

    [dead_letter] = bus.records("tidegate.dead-letters")
    assert b"read schema 404" in dict(dead_letter.headers)["__connect.errors.exception.message"]


def test_a_secret_is_in_no_text_of_the_settings() -> None:
    settings = RegistrySettings.model_validate(
        {
            "url": "http://registry:8081",
            "basic_auth": "keeper:s3cret",
            "options": {"ssl.key.password": "s3cret"},
        }
    )

    assert "s3cret" not in repr(settings)
    assert "s3cret" not in settings.model_dump_json()
    assert settings.client() == {
        "url": "http://registry:8081",
        "basic.auth.user.info": "keeper:s3cret",
        "ssl.key.password": "s3cret",
        "max.retries": 0,
        "timeout": 10,
    }


def test_a_password_in_the_address_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="basic_auth") as caught:
        RegistrySettings(url="http://keeper:s3cret@registry:8081")

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(RegistrySettings(url="ftp://registry"), id="no HTTP"),
        pytest.param(RegistrySettings(url="http://r", options={"colour": True}), id="no option"),
    ],
)
def test_settings_that_the_client_refuses_are_a_config_error(settings: RegistrySettings) -> None:
    with pytest.raises(ConfigError, match="schema registry"):
        RegistrySchemas(settings)
