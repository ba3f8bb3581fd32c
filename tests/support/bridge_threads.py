"""Waits for what a Metastore bridge has under way on its threads."""

from __future__ import annotations

from concurrent.futures import wait

from tidegate.hive_bridge.aborted_sweep import AbortedSweep
from tidegate.hive_bridge.compactions import Compactions
from tidegate.hive_bridge.marking import Marking

_SECONDS = 60


def wait_for_threads(part: Compactions | Marking | AbortedSweep) -> None:
    """Until its look-ups, its marks or its sweep have ended."""
    if isinstance(part, Compactions):
        wait([made.asked for made in part._lookups.values() if made.asked], _SECONDS)
    elif isinstance(part, Marking):
        wait([made.future for made in part._attempts.values() if made.future], _SECONDS)
    elif part._running is not None:
        wait([part._running], _SECONDS)
