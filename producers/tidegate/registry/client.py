"""confluent-kafka's registry client, with its errors translated to Tidegate's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from uuid import UUID

from tidegate.errors import (
    ConfigError,
    FormatError,
    RegistryRefusedError,
    TidegateError,
    TransientError,
)
from tidegate.events.framing import RegistryKey
from tidegate.registry.settings import RegistrySettings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema as Response
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

R = TypeVar("R")
_NOT_FOUND: Final = 404
_CLIENT_ERRORS: Final = range(400, 500)
_RETRIABLE: Final = (408, 425, 429)


class RegisteredSchema(NamedTuple):
    """A schema's id and GUID in a registry."""

    number: int
    guid: UUID | None
    """The same in every registry that the schema is copied to; not every product has one."""


class RegistryClient:
    """A schema registry. Every call may block up to the time-out. Safe to share between threads."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Configure the client; nothing is sent yet.

        Raises:
            ConfigError: an option is invalid, or the client's dependencies are not installed.
        """
        self._url = settings.url
        self._client = _connect(settings)

    def register(self, subject: str, text: str) -> RegisteredSchema:
        """Register an Avro schema; a schema that the subject has already keeps its id.

        Raises:
            RegistryRefusedError: incompatible with the subject's latest schema, or access denied.
            TransientError: the registry can't be reached now.
        """
        found = self._request(
            f"register {subject}",
            lambda: self._client.register_schema_full_response(subject, _avro(text)),
        )
        return self._registered(subject, found)

    def look_up(self, subject: str, text: str) -> RegisteredSchema:
        """Look up a schema that another client registered.

        Raises:
            RegistryRefusedError: the subject does not have it, or access denied.
            TransientError: the registry can't be reached now.
        """
        found = self._request(
            f"look up {subject} (auto_register is off)",
            lambda: self._client.lookup_schema(subject, _avro(text)),
        )
        return self._registered(subject, found)

    def has(self, subject: str, text: str) -> bool:
        """Whether a subject has a schema.

        Raises:
            RegistryRefusedError: access denied.
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

    def text(self, key: RegistryKey) -> str:
        """Read an Avro schema.

        Raises:
            FormatError: there is none, or it is not an Avro schema.
            RegistryRefusedError: access denied.
            TransientError: the registry can't be reached now.
        """
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

    def _registered(self, subject: str, response: Response) -> RegisteredSchema:
        if response.schema_id is None:
            raise RegistryRefusedError(
                f"schema registry {self._url}: the response for {subject} has no id"
            )
        return RegisteredSchema(response.schema_id, _guid(response.guid))

    def _request(
        self,
        what: str,
        call: Callable[[], R],
        missing: type[TidegateError] = RegistryRefusedError,
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
                raise RegistryRefusedError(message) from error
            raise TransientError(message) from error


def _guid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def _avro(text: str) -> Schema:
    from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 - of an extra

    return Schema(text, "AVRO")


def _connect(settings: RegistrySettings) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import (  # noqa: PLC0415 - of an extra
            SchemaRegistryClient,
        )
    except ImportError as error:
        raise ConfigError(
            f"a schema registry needs: pip install 'tidegate[registry]' ({error})"
        ) from error
    try:
        return SchemaRegistryClient.new_client(settings.client())
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(f"schema registry: {error}") from error
