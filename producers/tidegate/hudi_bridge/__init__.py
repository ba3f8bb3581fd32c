"""The Hudi bridge: a table's timeline says what its writer can't: CommitCompleted."""

from __future__ import annotations

from tidegate.hudi_bridge.callbacks import Callback, parse_callback
from tidegate.hudi_bridge.folders import find_tables
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_bridge.watched import SAID_BY, PublishedCommits, WatchedTable

__all__ = [
    "SAID_BY",
    "Callback",
    "HudiBridgeSettings",
    "PublishedCommits",
    "WatchedTable",
    "find_tables",
    "parse_callback",
]
