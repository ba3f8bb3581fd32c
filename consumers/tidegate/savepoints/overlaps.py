"""Whether other writes overlapped a commit, so that a restore to it leaves other writes. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tidegate.hudi import Action, InstantState, Layout, Timeline


def overlaps(commit: str, timeline: Timeline, layout: Layout, undone: AbstractSet[str]) -> bool:
    """Whether the writes that a restore leaves differ from those requested up to the commit.

    Also true if a write began before the commit completed: its slices may have older log files.

    Always false in layout 1. There, the completion time is the file's modification time, which is
    meaningless in a copied table, so a savepoint must not omit files because of it.
    """
    if layout is Layout.ONE:
        return False
    end = timeline.completion_of(commit)
    return any(
        (write.timestamp <= commit) == (write.timestamp in undone) or commit < write.timestamp < end
        for write in timeline.writes
        if write.state is InstantState.COMPLETED or write.action is Action.COMPACTION
    )
