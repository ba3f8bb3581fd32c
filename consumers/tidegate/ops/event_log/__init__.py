"""Read the events of a deployment's topics without a consumer group: outcomes, commands, facts."""

from __future__ import annotations

from tidegate.ops.event_log.log import EventLog
from tidegate.ops.event_log.logged import LoggedEvent
from tidegate.ops.event_log.newest import NewestEvents
from tidegate.ops.event_log.selection import EventFilter

__all__ = ["EventFilter", "EventLog", "LoggedEvent", "NewestEvents"]
