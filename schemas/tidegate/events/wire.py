"""The wire: how events become messages, and messages events, whichever format they are in."""

from __future__ import annotations

from typing import Protocol

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import decode_body, encode_body, own_writer, single_object_prefix
from tidegate.events.framing import Frame, Headers, RegistryKey, frame_of
from tidegate.events.message import Envelope, to_envelope, under_its_key
from tidegate.events.schema import Writer


class SchemaSource(Protocol):
    """Where schemas are named and found. Called with every message, so it keeps what it learnt."""

    def prefix(self, model: type[Event], topic: str) -> bytes:
        """Give what stands before the Avro body of an event on a topic. May block."""
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

    def prefix(self, model: type[Event], topic: str) -> bytes:  # noqa: ARG002 - the same on all
        """Give the single object's magic and fingerprint."""
        return single_object_prefix(model)

    def writer(self, key: RegistryKey) -> Writer:
        """Refuse.

        Raises:
            FormatError: always.
        """
        return own_writer(Frame(key, 0))


class Wire:
    """Seals events in the format that its source of schemas names; unseals those of every format.

    Safe to share between threads if its source is.
    """

    def __init__(self, source: SchemaSource | None = None) -> None:
        """Take a source of schemas; by default the package's own."""
        self._source: SchemaSource = source or OwnSchemas()

    def seal(self, event: Event, topic: str) -> Envelope:
        """Make the message that carries an event on a topic.

        Raises:
            TransientError: a schema registry is needed and can't be reached now.
        """
        return to_envelope(event, self._source.prefix(type(event), topic) + encode_body(event))

    def kind(self, value: bytes | None, headers: Headers = ()) -> type[Event] | None:
        """The kind of event that a message says it holds, without decoding it; None: unknown.

        Raises:
            TransientError: a schema registry is needed and can't be reached now.
        """
        try:
            return self._writer(frame_of(value, headers)).reader.model
        except FormatError:
            return None

    def unseal(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Event:
        """Read the event out of a message.

        Raises:
            FormatError: it can't be decoded, or its key names another table.
            TransientError: a schema registry is needed and can't be reached now.
        """
        frame = frame_of(value, headers)
        event = decode_body(value or b"", frame.body_at, self._writer(frame))
        return under_its_key(key, event)

    def _writer(self, frame: Frame) -> Writer:
        if isinstance(frame.schema, bytes):
            return own_writer(frame)
        return self._source.writer(frame.schema)
