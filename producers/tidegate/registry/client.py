"""confluent-kafka's registry client, with every fault of it told as one of ours."""

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
    from confluent_kafka.schema_registry import RegisteredSchema as Answer
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

R = TypeVar("R")
_NOT_FOUND: Final = 404
_REFUSED: Final = range(400, 500)
_COME_BACK: Final = (408, 425, 429)


class RegisteredSchema(NamedTuple):
    """What a registry calls a schema."""

    number: int
    guid: UUID | None
    """The same in every registry that the schema is copied to; not every product gives one."""


class RegistryClient:
    """A schema registry. Every call blocks for up to the time-out; safe to share."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Describe it; nothing is sent yet.

        Raises:
            ConfigError: an option can't be, or the client's dependencies are not installed.
        """
        self._url = settings.url
        self._client = _connect(settings)

    def check(self) -> None:
        """Ask for something small, to see whether the registry answers us.

        Raises:
            RegistryRefusedError: it does not let us in, or is no schema registry.
            TransientError: it can't be reached now.
        """
        self._ask("read its configuration", self._client.get_config)

    def register(self, subject: str, text: str) -> RegisteredSchema:
        """Register an Avro schema; one that is there already keeps its id.

        Raises:
            RegistryRefusedError: it is not compatible with the subject's last, or we may not.
            TransientError: the registry can't be reached now.
        """
        found = self._ask(
            f"register {subject}",
            lambda: self._client.register_schema_full_response(subject, _avro(text)),
        )
        return self._registered(subject, found)

    def look_up(self, subject: str, text: str) -> RegisteredSchema:
        """Find a schema that somebody else registered.

        Raises:
            RegistryRefusedError: the subject does not hold it, or we may not.
            TransientError: the registry can't be reached now.
        """
        found = self._ask(
            f"look up {subject}, as auto_register is off",
            lambda: self._client.lookup_schema(subject, _avro(text)),
        )
        return self._registered(subject, found)

    def holds(self, subject: str, text: str) -> bool:
        """Whether a subject holds a schema.

        Raises:
            RegistryRefusedError: we may not look.
            TransientError: the registry can't be reached now.
        """
        try:
            self._ask(
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
            FormatError: there is none under this key, or it is no Avro schema.
            RegistryRefusedError: we may not.
            TransientError: the registry can't be reached now.
        """
        what = f"read schema {key}"
        if isinstance(key, UUID):
            found = self._ask(what, lambda: self._client.get_schema_by_guid(str(key)), FormatError)
        else:
            found = self._ask(what, lambda: self._client.get_schema(key), FormatError)
        # a schema without a type is an Avro schema
        if found.schema_str is None or found.schema_type not in {None, "AVRO"}:
            raise FormatError(f"schema {key} of {self._url} is no Avro schema")
        return found.schema_str

    def _registered(self, subject: str, answer: Answer) -> RegisteredSchema:
        if answer.schema_id is None:
            raise RegistryRefusedError(f"schema registry {self._url}: {subject} came without an id")
        return RegisteredSchema(answer.schema_id, _guid(answer.guid))

    def _ask(
        self,
        what: str,
        call: Callable[[], R],
        missing: type[TidegateError] = RegistryRefusedError,
    ) -> R:
        # the base of both HTTP libraries' errors is Exception; only the registry's own has a status
        try:
            return call()
        except Exception as error:
            status = getattr(error, "http_status_code", None)
            said = f"schema registry {self._url}: {what}: {error}"
            if status == _NOT_FOUND:
                raise missing(said) from error
            if status in _REFUSED and status not in _COME_BACK:
                raise RegistryRefusedError(said) from error
            raise TransientError(said) from error


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
            f"a schema registry takes more: pip install 'tidegate[registry]' ({error})"
        ) from error
    try:
        return SchemaRegistryClient.new_client(settings.client())
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(f"schema registry: {error}") from error
