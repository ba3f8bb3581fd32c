"""The contract with other applications: schemas, examples, and the AsyncAPI 3.0 document.

The document is generated from the topics' declarations.

Every topic is a channel; every role that writes or reads it has an operation; every event is a
message with its Avro schema, the CloudEvents headers and an example. The codes of
refusals are in `components.x-reasons`. The changelog is left out: only the coordinator writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tidegate.events.base import Event, Fact
from tidegate.events.codec import schema_text
from tidegate.events.reasons import Reason
from tidegate.events.topics import (
    DEFAULT_PARTITIONS,
    DEFAULT_PREFIX,
    EVENT_TYPES,
    OUTSIDERS,
    TOPICS,
    Topic,
)
from tidegate.events.wire import headers_of
from tidegate.monitoring.docstrings import attribute_docs

Json = dict[str, Any]

AVRO: Final = "application/vnd.apache.avro;version=1.9.0"
BINDING: Final = "0.5.0"
DEAD_LETTER: Final = "DeadLetter"
_ENCRYPTED: Final = "ssl://"
_KEY: Final = {
    "type": "string",
    "description": "The table as catalog.database.table in lower case, in UTF-8.",
}
_WIRE: Final = (
    "Values are Avro single objects, or in the Confluent wire format where a schema registry is"
    " configured; a reader accepts both. Keys are distributed as murmur2_random does."
)


def export_schemas(folder: Path) -> list[Path]:
    """Write the `.avsc` of every event, replacing existing files, and return the paths.

    Raises:
        OSError: a file can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.avsc" for name in sorted(EVENT_TYPES)]
    for file in written:
        file.write_text(schema_text(file.stem), encoding="utf-8")
    return written


def example_of(kind: str) -> Json:
    """A valid event of a kind, as JSON values; a fact has no id here, because it is derived.

    Args:
        kind: A name in `EVENT_TYPES`.
    """
    fields: Json = json.loads(_example(kind))
    if issubclass(EVENT_TYPES[kind], Fact):
        del fields["event_id"]
    return fields


def _example(kind: str) -> str:
    return files("tidegate.events").joinpath("examples", f"{kind}.json").read_text("utf-8")


def asyncapi(
    version: str,
    prefix: str = DEFAULT_PREFIX,
    partitions: int = DEFAULT_PARTITIONS,
    replicas: int = 1,
    brokers: str = "",
) -> Json:
    """Generate the document as JSON-compatible values.

    Args:
        version: The version of Tidegate.
        prefix: The prefix of the topics' names.
        partitions: The number of partitions of each topic.
        replicas: The replication factor.
        brokers: The brokers as host:port, separated by commas; `ssl://` before them if
            connections are encrypted.
    """
    events = sorted({kind for topic in TOPICS for kind in topic.events}, key=lambda e: e.__name__)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidegate",
            "version": version,
            "description": f"Keeper of lakehouse tables, driven by events. {_WIRE}",
            "license": {"name": "Apache-2.0"},
        },
        "servers": dict(_servers(brokers)),
        "defaultContentType": "application/avro",
        "channels": {
            topic.suffix: _channel(topic, prefix, partitions, replicas) for topic in TOPICS
        },
        "operations": dict(chain.from_iterable(_operations(topic, prefix) for topic in TOPICS)),
        "components": {
            "messages": {kind.__name__: _message(kind) for kind in events}
            | {DEAD_LETTER: _dead_letter()},
            "x-reasons": {Reason[name]: text for name, text in attribute_docs(Reason).items()},
        },
    }


def _servers(brokers: str) -> Iterator[tuple[str, Json]]:
    protocol = "kafka-secure" if brokers.startswith(_ENCRYPTED) else "kafka"
    hosts = map(str.strip, brokers.removeprefix(_ENCRYPTED).split(","))
    for number, host in enumerate(filter(None, hosts), 1):
        yield f"broker-{number}", {"host": host, "protocol": protocol}


def _channel(topic: Topic, prefix: str, partitions: int, replicas: int) -> Json:
    names = [kind.__name__ for kind in topic.events] or [DEAD_LETTER]
    kafka = {
        "topic": topic.name(prefix),
        "partitions": partitions,
        "replicas": replicas,
        "topicConfiguration": {name: _typed(name, to) for name, to in topic.settings().items()},
        "bindingVersion": BINDING,
    }
    return {
        "address": topic.name(prefix),
        "description": topic.purpose,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {"kafka": kafka},
    }


def _typed(name: str, value: str) -> str | int | list[str]:
    """A topic's setting in the type that the Kafka binding requires."""
    if name == "cleanup.policy":
        return value.split(",")
    return int(value) if name.endswith((".ms", ".bytes")) else value


def _operations(topic: Topic, prefix: str) -> Iterator[tuple[str, Json]]:
    channel = {"channel": {"$ref": f"#/channels/{topic.suffix}"}}
    for role in topic.written_by:
        operation = {"action": "send", "summary": f"{role}: {topic.purpose}"}
        yield f"{role}.send.{topic.suffix}", operation | channel
    for role in topic.read_by:
        operation = {"action": "receive", "summary": f"{role}: {topic.purpose}"}
        # a party outside chooses the names of its own consumer groups
        group = {"type": "string", "const": f"{prefix}.{role}"}
        kafka = {"bindings": {"kafka": {"groupId": group, "bindingVersion": BINDING}}}
        bindings = {} if role in OUTSIDERS else kafka
        yield f"{role}.receive.{topic.suffix}", operation | channel | bindings


def _message(kind: type[Event]) -> Json:
    schema = json.loads(schema_text(kind.__name__))
    event = kind.model_validate_json(_example(kind.__name__))
    headers = headers_of(event)
    example = {
        "name": kind.__name__,
        "headers": {name: content.decode() for name, content in headers if content is not None},
        "payload": _avro_value(event.model_dump()),
    }
    return {
        "name": kind.__name__,
        "summary": schema["doc"],
        "contentType": "application/avro",
        "headers": _header_schema([name for name, _ in headers]),
        "payload": {"schemaFormat": AVRO, "schema": schema},
        "bindings": {"kafka": {"key": _KEY, "bindingVersion": BINDING}},
        "examples": [example],
    }


def _dead_letter() -> Json:
    origin = [
        f"__connect.errors.{header}"
        for header in ("topic", "partition", "offset", "exception.message")
    ]
    return {
        "name": DEAD_LETTER,
        "summary": "A message that could not be processed: its key, value and headers, and headers"
        " with the reason and the original topic, partition and offset.",
        "headers": _header_schema(origin),
        "payload": {
            "description": "The value of the original message, unchanged.",
            "type": "string",
        },
        "bindings": {"kafka": {"key": _KEY, "bindingVersion": BINDING}},
    }


def _header_schema(names: Sequence[str]) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


def _avro_value(value: Any) -> Any:  # noqa: ANN401 - any field's value
    """A value as in Avro's JSON: bytes as characters, enums as symbols, times in microseconds."""
    match value:
        case datetime():
            epoch = datetime.fromtimestamp(0, value.tzinfo)
            return (value - epoch) // timedelta(microseconds=1)
        case bytes():
            return value.decode("latin-1")
        case Enum():
            return value.value
        case dict():
            return {name: _avro_value(field) for name, field in value.items()}
        case list() | tuple():
            return [_avro_value(item) for item in value]
        case _:
            return value
