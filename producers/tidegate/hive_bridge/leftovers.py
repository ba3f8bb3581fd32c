"""Find directories that a compaction's cleaning left, before the compaction is marked. Pure.

Marking a compaction as cleaned also makes the Metastore forget which write ids, up to the
compaction's highest, were aborted. If a directory of an aborted write is left, every reader sees
its rows from then on (HIVE-24302, HIVE-24444). So this check precedes every mark, even after an
outcome that reports the cleaning as done.
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
    """The compaction must not be marked; the message has the reason."""


def check_nothing_left(
    names: Iterable[str],
    vacuum: PublishedVacuum,
    write_ids: ValidWriteIds,
    compacted: Collection[str] = (),
) -> None:
    """Check that a compaction may be marked as cleaned.

    Args:
        names: The names that are in the table's or the partition's directory now.
        vacuum: The published vacuum.
        write_ids: The table's valid write ids now, up to the compaction's highest write id.
        compacted: The names that `compacted_bases` returned.

    Raises:
        StillNeeded: a directory is left, or the check has too little information.
        FormatError: a name is not one of Hive's, or the snapshot can't be parsed.
    """
    found = [
        FoundDirectory.named(name, compacted=name in compacted)
        for name in names
        if is_acid_name(name)
    ]
    if write_ids.has_open:
        raise StillNeeded(
            f"the write id {write_ids.min_open} is open and may abort; it is checked again later"
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
        left = [directory.name for directory in compaction.removable(found).obsolete]
    except (InconsistentCompaction, NotEnoughHistory) as error:
        raise StillNeeded(str(error)) from error
    if left:
        raise StillNeeded(f"{left[0]} is there, which the compaction made obsolete")
    aborted = [
        directory.name for directory in found if holds_aborted(directory, write_ids, compaction)
    ]
    if aborted:
        raise AbortedLeft(aborted)


class AbortedLeft(StillNeeded):
    """Directories contain rows of aborted writes, perhaps together with other rows.

    Attributes:
        names: The directories' names.
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
    """Whether a directory may contain rows of an aborted write; products of compactions don't."""
    acid = found.acid
    if acid.visibility_txn is not None or found.compacted:
        return False
    if compaction is not None and compaction.is_product(acid):
        return False
    first = acid.write_id if isinstance(acid, Base) else acid.min_write_id
    return write_ids.aborted_in(first, acid.max_write_id) is not RangeResponse.NONE
