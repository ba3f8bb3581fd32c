"""The meaning of outcomes for the requester."""

from __future__ import annotations

import pytest

from support.deployment_events import (
    awaiting,
    cleaned,
    cleaning_refused,
    completed,
    rejected,
    released,
    restore_request,
    savepoint_created,
    started,
    vacuum,
)
from tidegate.events import Outcome, RestorePlanned
from tidegate.events.base import Verdict, causes_of_answers


def planned(message: str | None) -> Outcome:
    fields = started(restore_request()).model_dump(
        exclude={
            "event_id",
            "restore_instant",
            "resumed",
            "approval",
            "approved_by",
            "approval_signed_by",
        }
    )
    return RestorePlanned.model_validate(fields | {"message": message})


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (started(restore_request()), Verdict.UNDER_WAY),
        (completed(restore_request()), Verdict.DONE),
        (rejected(restore_request()), Verdict.REFUSED),
        (awaiting(restore_request()), Verdict.AWAITING),
        (planned(None), Verdict.DONE),
        (planned("Nothing was changed: confirm it"), Verdict.REFUSED),
        (savepoint_created(1), Verdict.DONE),
        (cleaned(released(vacuum(7))), Verdict.DONE),
        (cleaning_refused(released(vacuum(7))), Verdict.REFUSED),
    ],
)
def test_an_outcome_is_final_or_there_will_be_another(outcome: Outcome, verdict: Verdict) -> None:
    assert outcome.verdict is verdict


def test_the_command_that_follows_from_a_vacuum_is_known_from_the_vacuum() -> None:
    event = vacuum(7)

    assert causes_of_answers(event.event_id) == {event.event_id, released(event).event_id}
