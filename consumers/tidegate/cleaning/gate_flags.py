"""What the reader gate says of a vacuum that people should look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from tidegate.events import VacuumFinished, VacuumFlag, VacuumFlagged

_SAID_BY: Final = "reader-gate"
_SHOWN: Final = 100


def content_changed(event: VacuumFinished, at: datetime) -> VacuumFlagged:
    """It was published before with another snapshot, range, kind or location."""
    return _flagged(
        event,
        at,
        VacuumFlag.CONTENT_CHANGED,
        "this vacuum was published before with other content: the later publication counts, and its"
        " cleaning is released once every hold of both has ended",
    )


def holds_after_release(event: VacuumFinished, at: datetime) -> VacuumFlagged:
    """It was published before, and its cleaning released, without some of these holds."""
    return _flagged(
        event,
        at,
        VacuumFlag.HOLDS_AFTER_RELEASE,
        "the cleaning of this vacuum was released before this publication listed further holds: a"
        " reader among them may not find its files. Publish a vacuum once, with all its holds",
    )


def may_be_forgotten(
    event: VacuumFinished, at: datetime, holds: Iterable[Sequence[int]]
) -> VacuumFlagged:
    """It waits for holds so old that their release may have come and been forgotten."""
    tokens = sorted({token for hold in holds for token in hold})
    locks = tuple(token >> 1 for token in tokens if not token & 1)
    txns = tuple(token >> 1 for token in tokens if token & 1)
    return _flagged(
        event,
        at,
        VacuumFlag.RELEASE_MAY_BE_FORGOTTEN,
        "releases as old as those of these locks and transactions were forgotten, so it may wait"
        " for one that came already: if they have ended, publish their releases again",
        locks,
        txns,
    )


def _flagged(  # noqa: PLR0913, PLR0917 - the fields of the event
    event: VacuumFinished,
    at: datetime,
    flag: VacuumFlag,
    message: str,
    locks: tuple[int, ...] = (),
    transactions: tuple[int, ...] = (),
) -> VacuumFlagged:
    return VacuumFlagged.about(
        event,
        partition=event.partition,
        flag=flag,
        locks=locks[:_SHOWN],
        transactions=transactions[:_SHOWN],
        message=message,
        occurred_at=at,
        source=_SAID_BY,
    )
