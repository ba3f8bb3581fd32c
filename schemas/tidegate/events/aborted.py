"""Aborted writes: what they left in a table's directory, and the command to remove it.

No reader ever reads a row of an aborted write, so nothing is waited for. Nothing but directories
whose write ids have all aborted may go by this command: what a base replaces is another cleaning's
to decide (HIVE-25502 lost data by mixing the two).
"""

from __future__ import annotations

from typing import ClassVar

from tidegate.events.base import Caused, Command, Fact
from tidegate.events.limits import ContentHash, Snapshot, Text


class WritesAborted(Fact, frozen=True):
    """Directories hold nothing but rows of aborted writes.

    `valid_write_ids` says which ids up to its high-water mark aborted; no id up to it is open, so
    this can't change any more. `content` identifies the directories' content, see
    `tidegate.hive.content_hash`: a table that is dropped and created again under the same name
    begins with the same write ids anew, and there they may have committed.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "partition",
        "location",
        "valid_write_ids",
        "content",
    )

    partition: Text | None = None
    valid_write_ids: Snapshot
    content: ContentHash


class AbortedCleaningReleased(Caused, Command, frozen=True):
    """Remove the directories whose write ids have all aborted, if they are those of the fact."""

    partition: Text | None = None
    valid_write_ids: Snapshot
    content: ContentHash
