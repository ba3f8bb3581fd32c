"""Which directories hold nothing but aborted writes. Pure.

Each directory is judged by its own name alone: nothing here is obsolete because another directory
replaces it, so that what lies in one partition never decides about another (HIVE-25502). But names
come again where a table is created again: so the files must be those that the bridge saw, too.
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
            Reason.BAD_SNAPSHOT, f"the write id {snapshot.min_open} is open: it may commit"
        )
    remove = [each.listed for each in parsed(listing) if _is_aborted(each, snapshot)]
    check_links(remove)
    if remove and content_of(remove) != command.content:
        raise Refused(
            Reason.OTHER_CONTENT,
            f"{remove[0].name} or others do not hold what the bridge saw in them: their write ids"
            " may be those of a table that was created since, where they did not abort",
        )
    return CleaningPlan(tuple(sorted(remove, key=lambda each: each.name)))


def content_of(directories: Iterable[ListedDirectory]) -> str:
    """What lies in directories, as the bridge hashes it."""
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
