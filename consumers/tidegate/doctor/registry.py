"""Is the schema registry reached, and does it hold the schemas that will be written."""

from __future__ import annotations

from typing import Final

from tidegate.doctor.finding import Finding, State
from tidegate.events.schema import schema_text
from tidegate.events.topics import TOPICS
from tidegate.registry import subject_of
from tidegate.registry.client import RegistryClient
from tidegate.settings import Settings

_CHECK: Final = "registry"


def registry_ready(settings: Settings) -> Finding:
    """Look up every event's schema; none is registered.

    Raises:
        ConfigError: an option can't be, or the client's dependencies are not installed.
        RegistryRefusedError: the registry refuses us.
        TransientError: it can't be reached.
    """
    if settings.registry is None:
        return Finding(_CHECK, State.OK, "not configured: events are Avro single objects")
    client = RegistryClient(settings.registry)
    subjects = [
        (subject_of(event, topic.name(settings.topics.prefix)), schema_text(event.__name__))
        for topic in TOPICS
        for event in topic.events
    ]
    missing = [subject for subject, text in subjects if not client.holds(subject, text)]
    return schemas_held(len(subjects), missing, registers=settings.registry.auto_register)


def schemas_held(subjects: int, missing: list[str], *, registers: bool) -> Finding:
    """Say whether a missing schema matters: not where the first use registers it. Pure."""
    if not missing:
        return Finding(_CHECK, State.OK, f"it holds all {subjects} schemas")
    if registers:
        seen = f"{len(missing)} of {subjects} schemas will be registered at their first use"
        return Finding(_CHECK, State.OK, seen)
    advice = "register them, or set auto_register = true in [registry]"
    return Finding(_CHECK, State.FAIL, f"it lacks {', '.join(missing)}", advice)
