"""On a real broker: a copied, forged, foreign or withdrawn command starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.acid import NOON
from support.deployment import Deployment
from support.deployment_events import awaiting, withdrawal
from support.samples import ended, message
from support.signing import restore
from support.waiting import wait_for
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.coordinator.subject import Subjects
from tidegate.events import (
    CleaningHeld,
    CleaningHoldRemoved,
    Event,
    RequestWithdrawn,
    RestoreDeclined,
    RestoreRejected,
    TaskIssued,
    WithdrawalRefused,
)
from tidegate.publisher import Message
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = [pytest.mark.kafka]
TABLE = "lake.sales.orders"
UNTIL = NOON.replace(year=2090)


class Place:
    """A deployment with the coordinator's loop."""

    def __init__(self, made: Deployment) -> None:
        self.made, self.bus = made, KafkaBus(made.connection)
        subjects = Subjects(ReaderGate(), SavepointSubject(()))
        self.loop = CoordinatorLoop(subjects, self.bus, made.prefix)

    def send(self, *events: Event) -> None:
        self.bus.send([message(event, self.made.prefix) for event in events])

    def outcomes(self, kind: type[Event]) -> list[Any]:
        return [it for it in self.made.events("outcomes") if isinstance(it, kind)]

    def tasks(self) -> list[TaskIssued]:
        return [it for it in self.made.events("tasks") if isinstance(it, TaskIssued)]

    def until(self, done: Callable[[], object]) -> None:
        def stepped() -> object:
            self.loop.step(0.1)
            return done()

        wait_for("the coordinator's decision", stepped)

    def count(self, kind: type[Event], number: int) -> None:
        self.until(lambda: len(self.outcomes(kind)) == number)


@pytest.fixture
def place(deployment: Deployment) -> Iterator[Place]:
    made = Place(deployment)
    yield made
    made.loop.close()
    made.bus.close()


def test_a_copied_removal_of_a_hold_does_not_lift_a_later_hold(place: Place) -> None:
    people, topic = place.made.publisher(), f"{place.made.prefix}.requests"
    people.hold_cleaning(table=TABLE, requested_by="mara", reason="an audit")
    place.count(CleaningHeld, 1)
    people.release_hold(table=TABLE, requested_by="mara", reason="it is done")
    place.count(CleaningHoldRemoved, 1)
    people.hold_cleaning(table=TABLE, requested_by="mara", reason="another audit")
    place.count(CleaningHeld, 2)

    copied = place.made.records("requests")[1]
    place.bus.send([Message(topic, copied.key, copied.value, copied.headers)])
    people.hold_cleaning(table="lake.sales.next", requested_by="mara", reason="a marker")
    place.count(CleaningHeld, 3)  # the copy was read before it
    assert len(place.outcomes(CleaningHoldRemoved)) == 1
    people.release_hold(table=TABLE, requested_by="mara", reason="it is done, too")
    place.count(CleaningHoldRemoved, 2)  # the later hold was still there


def test_a_queued_restore_can_be_withdrawn_and_an_ended_one_is_too_late(place: Place) -> None:
    first, second = restore(event_id="r-1"), restore(event_id="r-2")
    place.send(first, second)
    place.until(lambda: len(place.tasks()) == 1)
    place.send(withdrawal(second))
    place.count(RequestWithdrawn, 1)
    assert [it.caused_by for it in place.outcomes(RestoreRejected)] == ["r-2"]

    place.send(ended(place.tasks()[0], source="restorer"))
    place.until(lambda: place.loop.step(0.5) == 0)
    place.send(withdrawal(first))
    place.count(WithdrawalRefused, 1)
    assert [it.reason for it in place.outcomes(WithdrawalRefused)] == ["too-late"]
    assert len(place.tasks()) == 1


def test_a_rejection_ends_a_restore_that_waits_for_its_approval(place: Place) -> None:
    request = restore()
    place.send(request)
    place.until(place.tasks)
    place.send(awaiting(request, UNTIL), ended(place.tasks()[0], source="restorer"))
    place.until(lambda: place.loop.step(0.5) == 0)
    place.send(withdrawal(request, RestoreDeclined))
    place.count(RestoreRejected, 1)
    assert len(place.tasks()) == 1


def test_a_forged_outcome_and_a_forged_end_make_the_coordinator_issue_nothing(place: Place) -> None:
    request = restore()
    place.send(request, restore(event_id="r-2"))
    place.until(place.tasks)
    [task] = place.tasks()
    forged = task.model_copy(update={"number": task.number + 7})
    place.send(ended(forged, source="restorer"))
    place.send(awaiting(restore(event_id="never"), UNTIL))
    place.until(lambda: place.loop.step(0.5) == 0)
    assert len(place.tasks()) == 1
    place.send(ended(task, source="restorer"))
    place.until(lambda: len(place.tasks()) == 2)  # the true end counts
