"""Events to messages and back, in any of the supported framings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final, NamedTuple, Protocol

from tidegate.errors import FormatError
from tidegate.events.base import Command, Event
from tidegate.events.codec import (
    OBJECT_PREFIX_BYTES,
    SINGLE_OBJECT,
    VALUE_HEADER,
    Headers,
    RegistryKey,
    Schema,
    current_writers,
    decode_body,
    encode_body,
    frame_of,
    own_writer,
    single_object_prefix,
)
from tidegate.events.fields import MAX_WIDE_BYTES
from tidegate.events.tasks import OriginalHeader, OriginalMessage, TaskIssued

TYPE_PREFIX: Final = "io.tidegate."
_VERSION: Final = ("ce_specversion", b"1.0")
_CONTENT: Final = ("content-type", b"application/avro")


class Message(NamedTuple):
    """A message to send. An event's message has its table's identity, in UTF-8, as its key.

    Without a partition, the producer's partitioner chooses one by the key.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


def headers_of(event: Event) -> Headers:
    """An event's CloudEvents attributes (Kafka protocol binding, binary mode)."""
    attributes = (
        _VERSION,
        ("ce_id", event.event_id.encode()),
        _type(type(event)),
        ("ce_source", event.source.encode()),
        ("ce_subject", event.table.encode()),
        ("ce_time", _rfc3339(event.occurred_at)),
        _CONTENT,
    )
    if isinstance(event, TaskIssued):  # also known where the event can't be decoded
        number, location = str(event.number).encode(), event.location.encode()
        command = (event.caused_by or "").encode()
        return (
            *attributes,
            ("ce_number", number),
            ("ce_location", location),
            ("ce_command", command),
        )
    return attributes


def answered_id(headers: Mapping[str, bytes | None]) -> bytes:
    """The id of the event that a message is about; empty if the headers have none.

    A task is about the command that it carries.
    """
    return headers.get("ce_command") or headers.get("ce_id") or b""


@lru_cache(maxsize=100)  # many events are published with the same time
def _rfc3339(at: datetime) -> bytes:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z").encode()


@cache
def _type(kind: type[Event]) -> tuple[str, bytes]:
    return "ce_type", (TYPE_PREFIX + kind.__name__).encode()


def check_key(key: bytes | None, event: Event) -> Event:
    """Return the event if the message's key is its table.

    Raises:
        FormatError: it is not: the message may be on another partition than the table's state.
    """
    if key != event.table.encode():
        raise FormatError(f"the key {key!r} is not the event's table {event.table}")
    return event


class _SchemaSource(Protocol):
    """The source of schema ids and schemas. It is called for every message, so it must cache."""

    @property
    def in_headers(self) -> bool:
        """Whether the schema id goes into a header, so that the value is the Avro body alone."""
        ...

    def prefix(self, model: type[Event], topic: str) -> bytes:
        """The bytes that identify the schema of an event on a topic. May block."""
        ...

    def writer(self, key: RegistryKey) -> Schema:
        """Find the schema with this id or GUID in the schema registry. May block.

        Raises:
            FormatError: there is none, or it is not the schema of a Tidegate event.
            TransientError: the registry can't be reached now.
        """
        ...


@cache
def _own_objects() -> Mapping[bytes, Schema]:
    """This version's schemas by the first bytes of single objects."""
    return {SINGLE_OBJECT + name: writer for name, writer in current_writers().items()}


class Wire:
    """Serializes events in its schema source's framing, and deserializes every framing.

    Safe to share between threads if its source is.
    """

    def __init__(self, source: _SchemaSource | None = None) -> None:
        """Use a source of schemas, by default the package's own, in Avro single objects."""
        self._source = source

    def serialize(self, event: Event, topic: str) -> Message:
        """Make the message that carries an event on a topic.

        Raises:
            TransientError: a schema registry is needed and can't be reached now.
        """
        key, body, headers = event.table.encode(), encode_body(event), headers_of(event)
        kind, source = type(event), self._source
        prefix = source.prefix(kind, topic) if source else single_object_prefix(kind)
        if source and source.in_headers:
            return Message(topic, key, body, (*headers, (VALUE_HEADER, prefix)))
        return Message(topic, key, prefix + body, headers)

    def schema(self, value: bytes | None, headers: Headers = ()) -> tuple[Schema, int]:
        """The schema of a message, without decoding it, and where the event's body begins.

        Raises:
            FormatError: not an event that this version knows.
            TransientError: a schema registry is needed and can't be reached now.
        """
        if (
            value is not None
            and len(value) <= MAX_WIDE_BYTES
            and (own := _own_objects().get(value[:OBJECT_PREFIX_BYTES]))
        ):
            return own, OBJECT_PREFIX_BYTES
        frame = frame_of(value, headers)
        if self._source is None or isinstance(frame.schema, bytes):
            return own_writer(frame), frame.body_at
        return self._source.writer(frame.schema), frame.body_at

    def kind(self, value: bytes | None, headers: Headers = ()) -> type[Event] | None:
        """The kind of event that a message claims to hold, without decoding it; None: unknown.

        Raises:
            TransientError: a schema registry is needed and can't be reached now.
        """
        try:
            return self.schema(value, headers)[0].model
        except FormatError:
            return None

    def deserialize(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Event:
        """Decode the event of a message.

        Raises:
            FormatError: it can't be decoded, or its key is not the event's table.
            TransientError: a schema registry is needed and can't be reached now.
        """
        schema, body_at = self.schema(value, headers)
        return check_key(key, decode_body(value or b"", body_at, schema))


def carried_kind(task: TaskIssued, wire: Wire) -> type[Event] | None:
    """The kind of command that a task claims to carry, without decoding it; None: unknown.

    Raises:
        TransientError: a schema registry is needed and can't be reached now.
    """
    return wire.kind(task.command.value, task.command.pairs)


def command_of(task: TaskIssued, wire: Wire) -> Command:
    """The command that a task carries.

    Raises:
        FormatError: it can't be decoded, is not a command, or is of another table, location or id
            than the task.
        TransientError: a schema registry is needed and can't be reached now.
    """
    command = wire.deserialize(task.table.encode(), task.command.value, task.command.pairs)
    if not isinstance(command, Command) or isinstance(command, TaskIssued):
        raise FormatError(f"task {task.number} carries a {type(command).__name__}, not a command")
    if (command.event_id, command.location) != (task.caused_by, task.location):
        raise FormatError(
            f"task {task.number} is for {task.caused_by} at {task.location}, and carries"
            f" {command.event_id} at {command.location}"
        )
    return command


def carried_by(event: Event, wire: Wire) -> Event:
    """The command that a task carries, if it can be decoded; another event itself.

    Raises:
        TransientError: a schema registry is needed and can't be reached now.
    """
    try:
        return command_of(event, wire) if isinstance(event, TaskIssued) else event
    except FormatError:
        return event


def original_of(message: Message, appended_at: datetime) -> OriginalMessage:
    """A message, for a task that carries it."""
    headers = tuple([OriginalHeader(name=name, value=value) for name, value in message.headers])
    return OriginalMessage(
        topic=message.topic, value=message.value or b"", headers=headers, appended_at=appended_at
    )
