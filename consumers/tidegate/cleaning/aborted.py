"""Finds the directories that contain only aborted writes. Pure.

The decision about a directory depends on its own name, never on another directory, so that the
content of one partition never decides about another (HIVE-25502). But a table that is created again
uses the same names again. So the files must also be those that the bridge saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan, check_links, parsed, place, snapshot_of
from tidegate.cleaning.products import AcidEntry
from tidegate.events import AbortedCleaningReleased
from tidegate.events.reasons import Reason
from tidegate.hive import Base, RangeResponse, ValidWriteIds, content_hash
from tidegate.tables.refusal import Refused


def plan_aborted_cleaning(
    listing: Sequence[ListedDirectory] | None, command: AbortedCleaningReleased
) -> CleaningPlan:
    """Plan from the directory as it is now and the snapshot of the command.

    Args:
        listing: The result of `read_acid_directories`; None if the directory does not exist.
        command: The command.

    Raises:
        Refused: nothing may be removed.
    """
    if listing is None:
        raise Refused(Reason.NO_SUCH_TABLE, f"there is no directory at {place(command)}")
    snapshot = snapshot_of(command)
    if snapshot.has_open:
        raise Refused(
            Reason.BAD_SNAPSHOT, f"the write id {snapshot.min_open} is open and may still commit"
        )
    remove = [entry.listed for entry in parsed(listing) if _is_aborted(entry, snapshot)]
    check_links(remove)
    if remove and content_of(remove) != command.content:
        raise Refused(
            Reason.OTHER_CONTENT,
            f"{remove[0].name} or others do not contain the files that the bridge saw: their write"
            " ids may belong to a table that was created since, in which they did not abort",
        )
    return CleaningPlan(tuple(sorted(remove, key=lambda directory: directory.name)))


def content_of(directories: Iterable[ListedDirectory]) -> str:
    """The hash of the directories' files, as the bridge computes it."""
    return content_hash(
        {
            directory.name: [(file.name, file.size, file.modified_ms) for file in directory.files]
            for directory in directories
        }
    )


def _is_aborted(entry: AcidEntry, snapshot: ValidWriteIds) -> bool:
    """Whether every write id of a directory aborted; a compaction's directory has no such rows."""
    acid = entry.acid
    if acid.visibility_txn is not None or entry.found.compacted:
        return False
    if acid.max_write_id > snapshot.high_water_mark:
        return False
    first = acid.write_id if isinstance(acid, Base) else acid.min_write_id
    return snapshot.aborted_in(first, acid.max_write_id) is RangeResponse.ALL
