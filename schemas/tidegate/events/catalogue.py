"""Every event by name. An event is a model in `tidegate.events.__all__` that has an Avro schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from tidegate import events
from tidegate.events.aborted import AbortedCleaningReleased
from tidegate.events.base import Command, Event, Outcome
from tidegate.events.commands import CleaningReleased, SavepointsCheckRequested
from tidegate.events.quarantine import QuarantineRemovalRequested
from tidegate.events.tasks import StopRequested, TaskIssued


def _events() -> Iterator[type[Event]]:
    schemas = {file.name.removesuffix(".avsc") for file in files(events).joinpath("avro").iterdir()}
    for name in events.__all__:
        kind = getattr(events, name)
        if name in schemas and issubclass(kind, Event):
            yield kind


EVENT_TYPES: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {kind.__name__: kind for kind in _events()}
)
CARRIED: Final = (
    CleaningReleased,
    AbortedCleaningReleased,
    QuarantineRemovalRequested,
    SavepointsCheckRequested,
    StopRequested,
)
"""Commands of the coordinator that only tasks carry."""
TASKS: Final = (TaskIssued, *CARRIED)
REQUESTS: Final = tuple(
    kind for kind in EVENT_TYPES.values() if issubclass(kind, Command) and kind not in TASKS
)
OUTCOMES: Final = tuple(kind for kind in EVENT_TYPES.values() if issubclass(kind, Outcome))
