"""The settings of alarms, by table."""

from __future__ import annotations

from functools import lru_cache

from pydantic import Field

from tidegate.events.fields import Name
from tidegate.tables.settings import Seconds, Section, covers_name


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
        """When a table is unknown of which only releases have come since then."""
        return since + 1000 * self.unknown_after if self.unknown_after else None


@lru_cache(maxsize=10_000)
def alarms_of(rules: tuple[AlarmSettings, ...], table: str) -> AlarmSettings:
    """The first rule whose pattern matches a table, else the usual limits."""
    return next((rule for rule in rules if covers_name(rule.tables, table)), AlarmSettings())
