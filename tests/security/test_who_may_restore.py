"""Who may have a table restored is a setting, asked before anything is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hudi_tables import warehouse_over
from support.samples import NOON, Tableless, commit, memory_bus, outcomes_on, task_message, work_off
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Command, Outcome, RestoreFailed, RestoreRejected, RestoreRequested
from tidegate.restores.executor import Restorer
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.service.assembly import authorization
from tidegate.service.settings import Settings
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim


class Reached(Tableless, Restorer):
    """A restorer that does nothing but publish that it was reached."""

    def __init__(self) -> None:
        super().__init__(warehouse_over(Path("/nowhere")), ThreadMap(), lambda: NOON)

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        assert isinstance(command, RestoreRequested)
        yield RestoreFailed.about(
            command,
            source="restorer",
            occurred_at=NOON,
            savepoint=command.savepoint,
            restore_instant="20260301100000001",
            message="reached",
        )


def request(who: str, *, plan_only: bool = False) -> RestoreRequested:
    return RestoreRequested.about(
        commit(1),
        savepoint="20260301100000001",
        requested_by=who,
        reason="bad",
        plan_only=plan_only,
        source="test",
        occurred_at=NOON,
    )


def answer(command: RestoreRequested, requested_by: list[str] | None) -> Outcome:
    values = {} if requested_by is None else {"restores": {"requested_by": requested_by}}
    listed = authorization(Settings.model_validate(values), "memory")
    bus = memory_bus()
    bus.send([task_message(command)])
    work_off(ExecutorLoop(Reached(), bus, authorization=listed))
    (outcome,) = outcomes_on(bus)
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.mark.parametrize("who", ["eve", "Ana", "ops", "ana "])
def test_who_is_not_listed_is_refused_with_a_reason(who: str) -> None:
    outcome = answer(request(who), ["ana", "ops-*"])

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "not-allowed"
    assert who in outcome.message
    assert outcome.caused_by == request(who).event_id


@pytest.mark.parametrize("who", ["ana", "ops-berlin"])
def test_who_is_listed_reaches_the_restorer(who: str) -> None:
    assert isinstance(answer(request(who), ["ana", "ops-*"]), RestoreFailed)


def test_with_an_empty_list_all_are_refused() -> None:
    assert isinstance(answer(request("ana"), []), RestoreRejected)


def test_without_the_setting_the_brokers_access_rights_decide_alone() -> None:
    assert isinstance(answer(request("eve"), None), RestoreFailed)


def test_a_dry_run_is_for_everybody() -> None:
    assert isinstance(answer(request("eve", plan_only=True), ["ana"]), RestoreFailed)
