"""A registry as the wire's source of schemas; each schema is requested once per process."""

from __future__ import annotations

from tidegate.events import Event
from tidegate.events.framing import RegistryKey, guid_prefix, id_prefix
from tidegate.events.schema import Writer, full_name, schema_text, writer_from
from tidegate.events.wire import Wire
from tidegate.registry.client import RegisteredSchema, RegistryClient
from tidegate.registry.settings import RegistrySettings


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

    Safe to share between threads; two may request the same schema at once.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        """Configure the registry; nothing is sent yet.

        Raises:
            ConfigError: an option is invalid, or the client's dependencies are not installed.
        """
        self._client = RegistryClient(settings)
        self._auto_register = settings.auto_register
        self.in_headers = settings.schema_id_in == "headers"
        self._prefixes: dict[tuple[type[Event], str], bytes] = {}
        self._writers: dict[RegistryKey, Writer] = {}

    def prefix(self, model: type[Event], topic: str) -> bytes:
        """The magic and id or GUID, after one registration or look-up of the schema.

        Raises:
            RegistryRefusedError: the registry rejects the schema or does not have it.
            TransientError: the registry can't be reached now.
        """
        known = self._prefixes.get((model, topic))
        if known is None:
            resolve = self._client.register if self._auto_register else self._client.look_up
            known = self._prefix_of(resolve(subject_of(model, topic), schema_text(model.__name__)))
            self._prefixes[model, topic] = known
        return known

    def writer(self, key: RegistryKey) -> Writer:
        """Find a schema by its id or GUID.

        Raises:
            FormatError: there is none, or it is not the schema of a Tidegate event.
            RegistryRefusedError: the registry denies access.
            TransientError: the registry can't be reached now.
        """
        known = self._writers.get(key)
        if known is None:
            known = self._writers[key] = writer_from(self._client.text(key))
        return known

    def _prefix_of(self, schema: RegisteredSchema) -> bytes:
        if self.in_headers and schema.guid:
            return guid_prefix(schema.guid)
        return id_prefix(schema.number)


def wire_for(registry: RegistrySettings | None) -> Wire:
    """The wire of a deployment: with its registry if it has one, else single objects.

    Raises:
        ConfigError: an option is invalid, or the client's dependencies are not installed.
    """
    return Wire(RegistrySchemas(registry)) if registry else Wire()
