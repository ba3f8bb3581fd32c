"""Schemas from a schema registry with Confluent's API: `pip install 'tidegate[registry]'`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, field_validator

from tidegate.errors import ConfigError, FormatError, StopService, TidegateError, TransientError
from tidegate.events import Event
from tidegate.events.codec import (
    RegistryKey,
    Schema,
    full_name,
    guid_prefix,
    id_prefix,
    schema_text,
    writer_from,
)
from tidegate.events.fields import plain_options
from tidegate.events.wire import Wire

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema as Response
    from confluent_kafka.schema_registry import Schema as AvroSchema
    from confluent_kafka.schema_registry import SchemaRegistryClient


_TIMEOUT_SECONDS: Final = 10
R = TypeVar("R")
_NOT_FOUND: Final = 404
_CLIENT_ERRORS: Final = range(400, 500)
_RETRIABLE: Final = (408, 425, 429)


class RegistrySettings(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A schema registry; with one, events are written in the Confluent wire format."""

    url: str = Field(min_length=1)
    """Its address; several, separated by commas, are tried in order."""
    basic_auth: SecretStr | None = None
    """`user:password`."""
    auto_register: bool = True
    """Register a schema at its first use; otherwise only look it up."""
    schema_id_in: Literal["value", "headers"] = "value"
    """Where a message carries the schema's id: before the Avro body, or in the header
    `__value_schema_id` with the body alone as the value. Readers accept both."""
    options: Annotated[
        dict[str, SecretStr | int | float | bool], BeforeValidator(plain_options)
    ] = Field(default_factory=dict)
    """Further options of confluent-kafka's registry client: `ssl.ca.location`, `proxy` ..."""

    @field_validator("url")
    @classmethod
    def _holds_no_secret(cls, url: str) -> str:
        parts = [urlsplit(part.strip()) for part in url.split(",")]
        if not all(part.hostname and part.port != 0 for part in parts):  # `port` raises, too
            raise ValueError("not an address of the form https://host:port")
        if any("@" in part.netloc or part.query or part.fragment for part in parts):
            raise ValueError(
                "must not contain a user, password or token, because addresses appear in logs: use"
                " basic_auth, or bearer.auth.token in options"
            )
        return url

    def client(self) -> dict[str, str | int | float | bool]:
        """The configuration of confluent-kafka's client, with secrets in clear text: never log it.

        The client's own retries are off, because callers retry; it has a time-out, because its
        default is to wait forever.
        """
        options = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in self.options.items()
        }
        auth = (
            {"basic.auth.user.info": self.basic_auth.get_secret_value()} if self.basic_auth else {}
        )
        return {"max.retries": 0, "timeout": _TIMEOUT_SECONDS, **options, **auth, "url": self.url}


def _avro(text: str) -> AvroSchema:
    from confluent_kafka.schema_registry import Schema as AvroSchema  # noqa: PLC0415 - of an extra

    return AvroSchema(text, "AVRO")


def _connect(settings: RegistrySettings) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise ConfigError(
            f"a schema registry needs: pip install 'tidegate[registry]' ({error})"
        ) from error
    try:
        return SchemaRegistryClient.new_client(settings.client())
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(f"schema registry: {error}") from error


def subject_of(model: type[Event], topic: str) -> str:
    """The subject of an event on a topic: Confluent's TopicRecordNameStrategy.

    A topic carries several events, so the topic's name alone would make unrelated schemas versions
    of one subject. The record's name alone would do so with deployments of different versions.
    """
    return f"{topic}-{full_name(model)}"


class RegistrySchemas:
    """The source of schemas for the Confluent wire format.

    A value is `00`, id, Avro body. With `schema_id_in = "headers"` it is the body alone, and a
    header holds `01`, GUID, as confluent-kafka's serializer writes it, or `00`, id with a registry
    that has no GUIDs; the same readers accept both.

    Every call may block up to the time-out. Safe to share between threads; two may request the same
    schema at once.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        """Configure the client; nothing is sent yet.

        Raises:
            ConfigError: an option is invalid, or the client's dependencies are not installed.
        """
        self._url = settings.url
        self._client = _connect(settings)
        self._auto_register = settings.auto_register
        self.in_headers = settings.schema_id_in == "headers"
        self._prefixes: dict[tuple[type[Event], str], bytes] = {}
        self._writers: dict[RegistryKey, Schema] = {}

    def prefix(self, model: type[Event], topic: str) -> bytes:
        """The magic and id or GUID, after one registration or look-up of the schema.

        Raises:
            StopService: the registry rejects the schema or does not have it.
            TransientError: the registry can't be reached now.
        """
        known = self._prefixes.get((model, topic))
        if known is None:
            subject, schema = subject_of(model, topic), _avro(schema_text(model.__name__))
            if self._auto_register:
                what, call = f"register {subject}", self._client.register_schema_full_response
            else:
                what, call = f"look up {subject} (auto_register is off)", self._client.lookup_schema
            found = self._request(what, lambda: call(subject, schema))
            known = self._prefixes[model, topic] = self._prefix_of(subject, found)
        return known

    def writer(self, key: RegistryKey) -> Schema:
        """Find a schema by its id or GUID.

        Raises:
            FormatError: there is none, or it is not the schema of a Tidegate event.
            StopService: the registry denies access.
            TransientError: the registry can't be reached now.
        """
        known = self._writers.get(key)
        if known is None:
            known = self._writers[key] = writer_from(self._text(key))
        return known

    def has(self, subject: str, text: str) -> bool:
        """Whether a subject has a schema.

        Raises:
            StopService: access denied.
            TransientError: the registry can't be reached now.
        """
        try:
            self._request(
                f"look up {subject}",
                lambda: self._client.lookup_schema(subject, _avro(text)),
                FormatError,
            )
        except FormatError:
            return False
        return True

    def _text(self, key: RegistryKey) -> str:
        what = f"read schema {key}"
        if isinstance(key, UUID):
            found = self._request(
                what, lambda: self._client.get_schema_by_guid(str(key)), FormatError
            )
        else:
            found = self._request(what, lambda: self._client.get_schema(key), FormatError)
        # in the registry's API, no type means Avro
        if found.schema_str is None or found.schema_type not in {None, "AVRO"}:
            raise FormatError(f"schema {key} of {self._url} is not an Avro schema")
        return found.schema_str

    def _prefix_of(self, subject: str, response: Response) -> bytes:
        if response.schema_id is None:
            raise StopService(f"schema registry {self._url}: the response for {subject} has no id")
        # the GUID is the same in every registry that the schema is copied to; not all have one
        guid = _guid(response.guid)
        return guid_prefix(guid) if self.in_headers and guid else id_prefix(response.schema_id)

    def _request(
        self, what: str, call: Callable[[], R], missing: type[TidegateError] = StopService
    ) -> R:
        # the HTTP libraries' errors share no base; only the registry's own error has a status
        try:
            return call()
        except Exception as error:
            status = getattr(error, "http_status_code", None)
            message = f"schema registry {self._url}: {what}: {error}"
            if status == _NOT_FOUND:
                raise missing(message) from error
            if status in _CLIENT_ERRORS and status not in _RETRIABLE:
                raise StopService(message) from error
            raise TransientError(message) from error


def _guid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def wire_for(registry: RegistrySettings | None) -> Wire:
    """The wire of a deployment: with its registry if it has one, else single objects.

    Raises:
        ConfigError: an option is invalid, or the client's dependencies are not installed.
    """
    return Wire(RegistrySchemas(registry)) if registry else Wire()
