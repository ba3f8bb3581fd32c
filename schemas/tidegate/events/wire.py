"""The wire: how events become messages, and messages events, whichever format they are in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, Protocol

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import decode_body, encode_body, own_writer, single_object_prefix
from tidegate.events.framing import (
    OBJECT_PREFIX_BYTES,
    SINGLE_OBJECT,
    VALUE_HEADER,
    Frame,
    Headers,
    RegistryKey,
    frame_of,
)
from tidegate.events.message import Message, headers_of, under_its_key
from tidegate.events.schema import Writer, current_writers


class SchemaSource(Protocol):
    """Where schemas are named and found. Called with every message, so it keeps what it learnt."""

    @property
    def in_headers(self) -> bool:
        """Whether the prefix goes into a header, and the value is the Avro body alone."""
        ...

    def prefix(self, model: type[Event], topic: str) -> bytes:
        """Give what names the schema of an event on a topic. May block."""
        ...

    def writer(self, key: RegistryKey) -> Writer:
        """Find the schema that a schema registry has under this key. May block.

        Raises:
            FormatError: there is none, or it is not of an event of ours.
            TransientError: it can't be found out now.
        """
        ...


class OwnSchemas:
    """The schemas in this package and nothing else: Avro single objects."""

    @property
    def in_headers(self) -> bool:
        """Never: the fingerprint stands before the body."""
        return False

    def prefix(self, model: type[Event], topic: str) -> bytes:  # noqa: ARG002 - the same on all
        """Give the single object's magic and fingerprint."""
        return single_object_prefix(model)

    def writer(self, key: RegistryKey) -> Writer:
        """Refuse.

        Raises:
            FormatError: always.
        """
        return own_writer(Frame(key, 0))


class Contents(NamedTuple):
    """What a message says it holds: an event that `writer` wrote, from `body_at` on."""

    writer: Writer
    body_at: int

    @property
    def kind(self) -> type[Event]:
        """The kind of the event."""
        return self.writer.reader.model


@cache
def _own_objects() -> Mapping[bytes, Contents]:
    """What single objects of today's schemas hold, by the bytes that they begin with."""
    writers = current_writers().items()
    return {SINGLE_OBJECT + name: Contents(each, OBJECT_PREFIX_BYTES) for name, each in writers}


class Wire:
    """Seals events in the format that its source of schemas names; unseals those of every format.

    Safe to share between threads if its source is.
    """

    def __init__(self, source: SchemaSource | None = None) -> None:
        """Take a source of schemas; by default the package's own."""
        self._source: SchemaSource = source or OwnSchemas()
        self._in_headers = self._source.in_headers

    def seal(self, event: Event, topic: str) -> Message:
        """Make the message that carries an event on a topic.

        Raises:
            TransientError: a schema registry is needed and can't be reached now.
        """
        prefix, body = self._source.prefix(type(event), topic), encode_body(event)
        key, headers = event.table.encode(), headers_of(event)
        if self._in_headers:
            return Message(topic, key, body, (*headers, (VALUE_HEADER, prefix)))
        return Message(topic, key, prefix + body, headers)

    def contents(self, value: bytes | None, headers: Headers = ()) -> Contents:
        """Find out what a message holds, without decoding it.

        Raises:
            FormatError: no event that we know.
            TransientError: a schema registry is needed and can't be reached now.
        """
        if value is not None and (own := _own_objects().get(value[:OBJECT_PREFIX_BYTES])):
            return own
        frame = frame_of(value, headers)
        if isinstance(frame.schema, bytes):
            return Contents(own_writer(frame), frame.body_at)
        return Contents(self._source.writer(frame.schema), frame.body_at)

    def kind(self, value: bytes | None, headers: Headers = ()) -> type[Event] | None:
        """The kind of event that a message says it holds, without decoding it; None: unknown.

        Raises:
            TransientError: a schema registry is needed and can't be reached now.
        """
        try:
            return self.contents(value, headers).kind
        except FormatError:
            return None

    def read(self, key: bytes | None, value: bytes | None, contents: Contents) -> Event:
        """Read the event out of a message of which the contents are known.

        Raises:
            FormatError: it can't be decoded, or its key names another table.
        """
        event = decode_body(value or b"", contents.body_at, contents.writer)
        return under_its_key(key, event)

    def unseal(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Event:
        """Read the event out of a message.

        Raises:
            FormatError: it can't be decoded, or its key names another table.
            TransientError: a schema registry is needed and can't be reached now.
        """
        return self.read(key, value, self.contents(value, headers))
