"""The services that operators' commands know by name are those that there are."""

from __future__ import annotations

from tidegate.cleaning.executor import Cleaner
from tidegate.coordinator.requests import Requests
from tidegate.coordinator.subject import Subjects
from tidegate.events import Event
from tidegate.events.topics import topic_of
from tidegate.events.wire import Wire
from tidegate.restores.executor import Restorer
from tidegate.savepoints.executor import SavepointWriter
from tidegate.service import catalogue
from tidegate.service.assembly import SERVICES, subjects
from tidegate.service.settings import Settings

EXECUTORS = (SavepointWriter, Restorer, Cleaner)


def test_every_service_is_known_with_what_it_consumes() -> None:
    kinds = {executor.name: tuple[type[Event], ...](executor.consumes) for executor in EXECUTORS}

    assert dict(catalogue.EXECUTED) == kinds
    assert set(SERVICES) == {*kinds, catalogue.COORDINATOR} == set(catalogue.NAMES)


def test_the_coordinator_reads_the_topics_of_all_that_it_consumes() -> None:
    consumed = Subjects(subjects(Settings()), Requests(Wire())).consumes

    assert set(map(topic_of, consumed)) == set(catalogue.inputs_of(catalogue.COORDINATOR))


def test_the_executors_are_those_of_the_catalogue() -> None:
    assert tuple(executor.name for executor in EXECUTORS) == catalogue.EXECUTORS
