"""Whether other writes overlapped a commit, so that a restore to it leaves others. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tidegate.hudi import Action, InstantState, Layout, Timeline


def overlaps(commit: str, timeline: Timeline, layout: Layout, undone: AbstractSet[str]) -> bool:
    """Whether a restore to a commit leaves other writes than those requested up to it.

    Or whether a write began before the commit completed: its slices may have older log files.

    In layout 1 that is never said: a time of completion is one of modification there, and where a
    table was copied it says nothing. So nothing may be left out of a savepoint for it.
    """
    if layout is Layout.ONE:
        return False
    end = timeline.completion_of(commit)
    return any(
        (write.timestamp <= commit) == (write.timestamp in undone) or commit < write.timestamp < end
        for write in timeline.writes
        if write.state is InstantState.COMPLETED or write.action is Action.COMPACTION
    )
