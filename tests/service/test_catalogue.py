"""The services that operators' commands know by name are those that there are."""

from __future__ import annotations

from tidegate.cleaning import Cleaner
from tidegate.coordinator.readers import ReaderGate
from tidegate.restores import Restorer
from tidegate.savepoints import SavepointPolicyService, SavepointWriter
from tidegate.service import catalogue
from tidegate.service.assembly import SERVICES

DECIDERS = (SavepointPolicyService, ReaderGate)
EXECUTORS = (SavepointWriter, Restorer, Cleaner)


def test_every_service_is_known_with_what_it_consumes() -> None:
    kinds = {decider.name: tuple(decider.consumes) for decider in (*DECIDERS, *EXECUTORS)}

    assert dict(catalogue.CONSUMED_EVENTS) == kinds
    assert set(SERVICES) == set(kinds)


def test_deciders_and_executors_are_distinguished() -> None:
    assert tuple(decider.name for decider in DECIDERS) == catalogue.DECIDERS
    assert tuple(executor.name for executor in EXECUTORS) == catalogue.EXECUTORS
