"""Replay: a group put back to read again, or selected events published again; planned first."""

from __future__ import annotations

from tidegate.replay.cluster import Replays
from tidegate.replay.events import EventReplay, Selection
from tidegate.replay.groups import GroupInUseError
from tidegate.replay.plan import GroupReplay, Move

__all__ = ["EventReplay", "GroupInUseError", "GroupReplay", "Move", "Replays", "Selection"]
