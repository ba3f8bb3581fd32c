"""Check that the schema registry is reachable and has the schemas that will be written."""

from __future__ import annotations

from typing import Final

from tidegate.events.schema import schema_text
from tidegate.events.topics import TOPICS
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.registry import subject_of
from tidegate.registry.client import RegistryClient
from tidegate.service.settings import Settings

_CHECK: Final = "registry"


def check_registry(settings: Settings) -> Finding:
    """Look up every event's schema, without registering any.

    Raises:
        ConfigError: an option is invalid, or the client's dependencies are not installed.
        RegistryRefusedError: the registry refuses access.
        TransientError: the registry is unreachable.
    """
    if settings.registry is None:
        return Finding(_CHECK, Status.OK, "not configured: events are Avro single objects")
    client = RegistryClient(settings.registry)
    subjects = [
        (subject_of(event, topic.name(settings.topics.prefix)), schema_text(event.__name__))
        for topic in TOPICS
        for event in topic.events
    ]
    missing = [subject for subject, text in subjects if not client.has(subject, text)]
    return compare_schemas(len(subjects), missing, registers=settings.registry.auto_register)


def compare_schemas(subjects: int, missing: list[str], *, registers: bool) -> Finding:
    """Whether missing schemas are a failure; they are not if the first use registers them. Pure."""
    if not missing:
        return Finding(_CHECK, Status.OK, f"it has all {subjects} schemas")
    if registers:
        seen = f"{len(missing)} of {subjects} schemas will be registered at their first use"
        return Finding(_CHECK, Status.OK, seen)
    advice = "register them, or set auto_register = true in [registry]"
    return Finding(_CHECK, Status.FAIL, f"missing: {', '.join(missing)}", advice)
