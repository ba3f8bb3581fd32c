"""What is left of a compaction's cleaning, by a directory's names and by what is valid now. Pure.

To mark a compaction as cleaned also makes the Metastore forget which write ids up to its highest
aborted. Where one of their directories is left, its rows would be there for every reader from then
on (HIVE-24302, HIVE-24444). So it is looked for before each mark, whatever an outcome says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidegate.hive import (
    Base,
    Compaction,
    FoundDirectory,
    InconsistentCompaction,
    NotEnoughHistory,
    RangeResponse,
    ValidWriteIds,
    is_acid_name,
)
from tidegate.hive_bridge.cleanings import PublishedVacuum


class StillNeeded(Exception):  # noqa: N818 - a finding, for the caller in this package
    """The compaction may not be marked; its text says why."""


def check_nothing_left(
    names: Iterable[str],
    vacuum: PublishedVacuum,
    write_ids: ValidWriteIds,
    compacted: Collection[str] = (),
) -> None:
    """Find out whether a compaction may be marked as cleaned.

    Args:
        names: The names of the directories in the table's or the partition's directory, now.
        vacuum: What was published of the compaction.
        write_ids: What is valid of its table now, up to the compaction's highest write id.
        compacted: Those of the names that `compacted_bases` found.

    Raises:
        StillNeeded: something of it is left; or it can't be told.
        FormatError: a name is not one of Hive's, or the snapshot can't be read.
    """
    found = [
        FoundDirectory.named(name, compacted=name in compacted)
        for name in names
        if is_acid_name(name)
    ]
    if write_ids.has_open:
        raise StillNeeded(
            f"the write id {write_ids.min_open} is open: if it aborts, the Metastore has to know"
        )
    try:
        compaction = Compaction.of(
            vacuum.directories,
            major=vacuum.kind.value == "major",
            min_write_id=vacuum.min_write_id,
            max_write_id=vacuum.max_write_id,
            write_ids=ValidWriteIds.parse(vacuum.valid_write_ids),
            own_txn=vacuum.own_transaction_id,
        )
        left = [each.name for each in compaction.removable(found).obsolete]
    except (InconsistentCompaction, NotEnoughHistory) as error:
        raise StillNeeded(str(error)) from error
    if left:
        raise StillNeeded(f"{left[0]} is there, which the compaction made obsolete")
    if aborted := [each.name for each in found if holds_aborted(each, write_ids, compaction)]:
        raise AbortedLeft(aborted)


class AbortedLeft(StillNeeded):
    """Directories hold rows of aborted writes, alone or beside others.

    Attributes:
        names: The directories.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Take the directories' names."""
        self.names = tuple(names)
        super().__init__(
            f"{self.names[0]} is there, with rows of an aborted write, which every reader would see"
        )


def holds_aborted(
    found: FoundDirectory, write_ids: ValidWriteIds, compaction: Compaction | None = None
) -> bool:
    """Whether rows of an aborted write may be in a directory; a compaction's product has none."""
    acid = found.acid
    if acid.visibility_txn is not None or found.compacted:
        return False
    if compaction is not None and compaction.is_product(acid):
        return False
    first = acid.write_id if isinstance(acid, Base) else acid.min_write_id
    return write_ids.aborted_in(first, acid.max_write_id) is not RangeResponse.NONE
