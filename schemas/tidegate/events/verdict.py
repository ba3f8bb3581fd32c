"""The meaning of an outcome for the requester, and which outcomes answer which event."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from tidegate.events.identity import derived_id

if TYPE_CHECKING:
    from tidegate.events.base import Event


class Verdict(StrEnum):
    """How far a request is."""

    DONE = "done"
    """It was carried out, now or before."""
    REFUSED = "refused"
    """Nothing was changed, and nothing more will be done for this request."""
    FAILED = "failed"
    """It was begun and could not be finished, or it could not be processed at all."""
    AWAITING = "awaiting"
    """Another person has to approve it; nothing was changed so far."""
    UNDER_WAY = "under-way"
    """There will be another outcome."""
    UNANSWERED = "unanswered"
    """No final outcome came in time; it may still come."""


def answered_by(outcome: Event) -> frozenset[str]:
    """The ids of what an outcome answers: its cause, and the approval that a restore ran under."""
    ids = (outcome.caused_by, getattr(outcome, "approval", None))
    return frozenset(id_ for id_ in ids if id_ is not None)


def causes_of_answers(event_id: str) -> frozenset[str]:
    """The ids that the outcomes of an event have as their cause.

    A request is answered itself. A vacuum is answered through the command that the reader gate
    derives from it, whose id follows from the vacuum's.
    """
    return frozenset({event_id, derived_id("CleaningReleased", event_id)})
