"""Settings of alarms: how long a table may wait before an alarm."""

from __future__ import annotations

from pydantic import Field

from tidegate.events.fields import Name
from tidegate.service.settings.section import Seconds, Section


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
