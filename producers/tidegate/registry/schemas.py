"""The schemas in a registry, as the wire asks for them: each is asked for once a process."""

from __future__ import annotations

from tidegate.events import Event
from tidegate.events.framing import RegistryKey, guid_prefix, id_prefix
from tidegate.events.schema import Writer, full_name, schema_text, writer_from
from tidegate.events.wire import Wire
from tidegate.registry.client import RegisteredSchema, RegistryClient
from tidegate.registry.settings import RegistrySettings


def subject_of(model: type[Event], topic: str) -> str:
    """The subject of an event on a topic: Confluent's TopicRecordNameStrategy.

    A topic carries several events, so its name alone would be one subject for schemas that have
    nothing to do with each other; and the record's name alone would tie two deployments with
    prefixes of their own, which may be on different versions, to one line of versions.
    """
    return f"{topic}-{full_name(model)}"


class RegistrySchemas:
    """A source of schemas for the wire: the Confluent format.

    `00`, id, Avro body; or, with the settings' `schema_id_in = "headers"`, the body alone and in a
    header `01`, GUID, as confluent-kafka's serializer writes it. A registry that gives no GUID is
    no reason to stop: the header then holds `00`, id, which the same readers take.

    Safe to share between threads: two that ask for the same at once both ask the registry, and get
    the same answer.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        """Describe the registry; nothing is sent yet.

        Raises:
            ConfigError: an option can't be, or the client's dependencies are not installed.
        """
        self._client = RegistryClient(settings)
        self._auto_register = settings.auto_register
        self.in_headers = settings.schema_id_in == "headers"
        self._prefixes: dict[tuple[type[Event], str], bytes] = {}
        self._writers: dict[RegistryKey, Writer] = {}

    def prefix(self, model: type[Event], topic: str) -> bytes:
        """Give magic and id or GUID, after registering or looking up the schema once.

        Raises:
            RegistryRefusedError: the registry refuses the schema or does not have it.
            TransientError: the registry can't be reached now.
        """
        known = self._prefixes.get((model, topic))
        if known is None:
            ask = self._client.register if self._auto_register else self._client.look_up
            known = self._name(ask(subject_of(model, topic), schema_text(model.__name__)))
            self._prefixes[model, topic] = known
        return known

    def writer(self, key: RegistryKey) -> Writer:
        """Find a schema by its id or GUID.

        Raises:
            FormatError: there is none, or it is not of an event of ours.
            RegistryRefusedError: the registry refuses us.
            TransientError: the registry can't be reached now.
        """
        known = self._writers.get(key)
        if known is None:
            known = self._writers[key] = writer_from(self._client.text(key))
        return known

    def _name(self, schema: RegisteredSchema) -> bytes:
        if self.in_headers and schema.guid:
            return guid_prefix(schema.guid)
        return id_prefix(schema.number)


def wire_for(registry: RegistrySettings | None) -> Wire:
    """The wire of a deployment: through its registry if it has one, else single objects.

    Raises:
        ConfigError: an option can't be, or the client's dependencies are not installed.
    """
    return Wire(RegistrySchemas(registry)) if registry else Wire()
