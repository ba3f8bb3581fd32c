"""The services that operators' commands know by name are those that there are."""

from __future__ import annotations

from tidegate.cleaning import Cleaner
from tidegate.coordinator.requests import Requests
from tidegate.coordinator.subject import Subjects
from tidegate.events import Event
from tidegate.events.wire import Wire
from tidegate.restores import Restorer
from tidegate.savepoints import SavepointWriter
from tidegate.service import catalogue
from tidegate.service.assembly import SERVICES, subjects
from tidegate.service.settings import Settings

EXECUTORS = (SavepointWriter, Restorer, Cleaner)


def test_every_service_is_known_with_what_it_consumes() -> None:
    kinds = {executor.name: tuple[type[Event], ...](executor.consumes) for executor in EXECUTORS}
    kinds["coordinator"] = Subjects(subjects(Settings()), Requests(Wire())).consumes

    assert dict(catalogue.CONSUMED_EVENTS) == kinds
    assert set(SERVICES) == set(kinds)


def test_the_executors_are_those_of_the_catalogue() -> None:
    assert tuple(executor.name for executor in EXECUTORS) == catalogue.EXECUTORS
