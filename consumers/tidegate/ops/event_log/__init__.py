"""Read the events of a deployment's topics without a consumer group: outcomes, commands, facts."""

from __future__ import annotations

from tidegate.ops.event_log.log import EventLog, NewestEvents
from tidegate.ops.event_log.logged import EventFilter, LoggedEvent

__all__ = ["EventFilter", "EventLog", "LoggedEvent", "NewestEvents"]
