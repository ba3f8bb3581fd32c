"""Every outcome of a command says who asked and why, for as long as outcomes are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.samples import (
    NOON,
    Recorder,
    memory_bus,
    outcomes_on,
    savepoint_request,
    task_message,
    work_off,
)
from tidegate.events import Answer, CleaningReleased, Command, Event, Outcome, RestoreRequested
from tidegate.events.restores import RestoreRejected
from tidegate.events.topics import OUTCOMES
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

OF_COMMANDS = [
    kind
    for kind in OUTCOMES
    if kind.__name__.startswith(("Savepoint", "Restore", "Cleaning", "Directories"))
]


class Rejecting(Recorder):
    """Rejects every command as `restorer` would, with what a forger wrote into a table's file."""

    consumes = (RestoreRequested, CleaningReleased)

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        yield RestoreRejected.about(
            command,
            source=self.name,
            occurred_at=NOON,
            savepoint="20261121041551845",
            reason="not-allowed",
            message="no",
            requested_by="mallory",
            signed_by="mallory",
        )


def restore() -> RestoreRequested:
    return RestoreRequested(
        event_id="r-1",
        table="lake.sales.orders",
        location="/lake/orders",
        source="tidegate-cli",
        occurred_at=NOON,
        savepoint="20261121041551845",
        requested_by="ana",
        reason="a bad load",
    )


def cleaning() -> CleaningReleased:
    return CleaningReleased(
        table="lake.sales.orders",
        location="/lake/orders",
        source="coordinator",
        caused_by="vacuum-1",
        occurred_at=NOON,
        kind="major",
        directories=("base_5",),
        min_write_id=1,
        max_write_id=5,
        valid_write_ids="sales.orders:5:9223372036854775807::",
    )


def outcome_of(command: Command, executor: Recorder) -> Answer:
    bus = memory_bus()
    bus.send([task_message(command)])
    work_off(ExecutorLoop(executor, bus))
    outcome = outcomes_on(bus)[0]
    assert isinstance(outcome, Answer)
    return outcome


@pytest.mark.parametrize("kind", OF_COMMANDS, ids=lambda kind: kind.__name__)
def test_every_outcome_of_a_command_has_room_for_who_asked(kind: type[Event]) -> None:
    assert issubclass(kind, Answer)


def test_an_outcome_says_who_asked_and_why_as_the_command_does() -> None:
    outcome = outcome_of(restore(), Rejecting())

    assert (outcome.requested_by, outcome.why) == ("ana", "a bad load")


def test_what_a_table_s_file_says_of_who_asked_counts_for_nothing() -> None:
    assert outcome_of(restore(), Rejecting()).signed_by is None


def test_the_outcome_of_a_service_s_command_names_the_service() -> None:
    outcome = outcome_of(cleaning(), Rejecting())

    assert (outcome.requested_by, outcome.why) == ("coordinator", None)


def test_a_savepoint_s_outcome_names_the_person() -> None:
    assert outcome_of(savepoint_request(1), Recorder()).requested_by == "ana"
