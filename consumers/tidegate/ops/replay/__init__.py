"""Replay: reset a group to read again, or publish selected events again; planned first."""

from __future__ import annotations

from tidegate.ops.groups import GroupInUseError
from tidegate.ops.replay.cluster import GroupReplay, Replays
from tidegate.ops.replay.events import EventReplay, Selection

__all__ = ["EventReplay", "GroupInUseError", "GroupReplay", "Replays", "Selection"]
