"""Alarms about what waits too long, with their settings.

An alarm is published once, and once more when its cause has ended. That it was published is a row,
so a restart or a rebalance does not repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from pydantic import Field

from tidegate.coordinator.subject import SOURCE
from tidegate.events import (
    OutstandingReader,
    VacuumFinished,
    VacuumFlag,
    VacuumFlagged,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.fields import Name, from_ms, span
from tidegate.tables.settings import Seconds, Section, covers_name

_SHOWN: Final = 100
_NAMED: Final = 3
"""Readers that the message names; the event has more."""
_FLAGS: Final = {
    VacuumFlag.CONTENT_CHANGED: "this vacuum was published before with other content: the later"
    " publication counts, and its cleaning is released once every hold of both has ended",
    VacuumFlag.HOLDS_AFTER_RELEASE: "the cleaning of this vacuum was released before this"
    " publication listed further holds: a reader among them may not find its files. Publish a"
    " vacuum once, with all its holds",
    VacuumFlag.RELEASE_MAY_BE_FORGOTTEN: "releases as old as those of these locks and transactions"
    " were forgotten, so it may wait for one that came already: if they have ended, publish their"
    " releases again",
}


class AlarmSettings(Section, frozen=True):
    """How long vacuums and releases of some tables may wait before an alarm is published."""

    tables: Name = "*"
    """A shell pattern; of several rules the first whose pattern matches a table applies."""
    overdue_after: Seconds = Field(default=86_400, ge=0)
    """How long a vacuum may wait for its readers before VacuumOverdue is published, in seconds or
    as text with a unit: `6h`. 0: no alarm."""
    unknown_after: Seconds = Field(default=7 * 86_400, ge=0)
    """How long releases of a table may come before its first vacuum, else UnknownTableReleased is
    published; in seconds or as text with a unit. 0: no alarm. The default is the time for which
    releases are remembered, because an engine may publish releases of tables that it seldom
    compacts."""

    def overdue_at(self, since: int) -> int | None:
        """When a vacuum that waits since then is overdue, in ms of the broker's time."""
        return since + 1000 * self.overdue_after if self.overdue_after else None

    def unknown_at(self, since: int) -> int | None:
        """When a table counts as unknown if only releases of it have come since then."""
        return since + 1000 * self.unknown_after if self.unknown_after else None


@lru_cache(maxsize=10_000)
def alarms_of(rules: tuple[AlarmSettings, ...], table: str) -> AlarmSettings:
    """The first rule whose pattern matches a table, else the usual limits."""
    return next((rule for rule in rules if covers_name(rule.tables, table)), AlarmSettings())


def overdue(
    about: Mapping[str, Any], outstanding: Sequence[OutstandingReader], limit: int
) -> VacuumOverdue:
    """A vacuum waits too long, for these readers; `about` is `WaitingVacuum.about`."""
    more = f" and {len(outstanding) - _NAMED} more" if len(outstanding) > _NAMED else ""
    named = ", ".join(map(str, outstanding[:_NAMED]))
    return VacuumOverdue.model_validate(
        {
            **about,
            "limit_seconds": limit,
            "holds_left": len(outstanding),
            "waits_for": outstanding[:_SHOWN],
            "message": "it has waited for its readers for longer than"
            f" {span(timedelta(seconds=limit))}."
            f" Outstanding: {named}{more}: end them, or publish a release that was lost",
        }
    )


def resolved(
    about: Mapping[str, Any], overdue_since: int, replaced_by: str | None = None
) -> VacuumOverdueResolved:
    """A vacuum that was reported as overdue waits no longer."""
    fields = {**about, "overdue_since": from_ms(overdue_since), "replaced_by": replaced_by}
    return VacuumOverdueResolved.model_validate(fields)


def flagged(
    event: VacuumFinished,
    at: datetime,
    flag: VacuumFlag,
    locks: Sequence[int],
    transactions: Sequence[int],
) -> VacuumFlagged:
    """People should see a vacuum: why, and for which locks and transactions."""
    return VacuumFlagged.about(
        event,
        partition=event.partition,
        flag=flag,
        locks=locks[:_SHOWN],
        transactions=transactions[:_SHOWN],
        metastore=event.metastore,
        message=_FLAGS[flag],
        occurred_at=at,
        source=SOURCE,
    )
