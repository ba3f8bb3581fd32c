"""The meaning of an outcome for the requester: done, refused, failed, or still under way."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tidegate.events.approvals import RestoreApprovalRejected, RestoreAwaitingApproval
from tidegate.events.base import Event, Outcome
from tidegate.events.holds import CleaningHeld, CleaningHoldRemoved
from tidegate.events.identity import derived_id
from tidegate.events.outcomes import (
    CleaningRefused,
    DirectoriesCleaned,
    RestoreCompleted,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    SavepointCreated,
    SavepointRejected,
    SavepointsChecked,
)
from tidegate.events.quarantine import (
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRefused,
    QuarantineRemoved,
)
from tidegate.events.savepoint_removal import SavepointRemovalRejected, SavepointRemoved


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


_FINAL: Final[dict[type[Outcome], Verdict]] = {
    SavepointCreated: Verdict.DONE,
    SavepointRejected: Verdict.REFUSED,
    SavepointRemoved: Verdict.DONE,
    SavepointRemovalRejected: Verdict.REFUSED,
    SavepointsChecked: Verdict.DONE,
    RestoreCompleted: Verdict.DONE,
    RestoreRejected: Verdict.REFUSED,
    RestoreFailed: Verdict.FAILED,
    RestoreAwaitingApproval: Verdict.AWAITING,
    RestoreApprovalRejected: Verdict.REFUSED,
    DirectoriesCleaned: Verdict.DONE,
    CleaningRefused: Verdict.REFUSED,
    CleaningUndoPlanned: Verdict.DONE,
    CleaningUndone: Verdict.DONE,
    CleaningUndoRefused: Verdict.REFUSED,
    QuarantineRemoved: Verdict.DONE,
    CleaningHeld: Verdict.DONE,
    CleaningHoldRemoved: Verdict.DONE,
}


def verdict_of(outcome: Event) -> Verdict:
    """What an outcome means; never UNANSWERED.

    A plan is what was asked for, unless it says that it came instead of the restore.
    """
    if isinstance(outcome, RestorePlanned):
        return Verdict.DONE if outcome.message is None else Verdict.REFUSED
    for kind, verdict in _FINAL.items():
        if isinstance(outcome, kind):
            return verdict
    return Verdict.UNDER_WAY


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
