"""Plans what a cleaning removes, or why nothing may be removed.

Pure: the dry run shows the same plan that the cleaner executes. A refusal is raised as
`Refused`; the codes are documented in `tidegate.events.reasons`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.products import (
    AcidEntry,
    aborted_within,
    check_covered,
    check_empty_base,
    check_every_bucket,
    complete_products,
    visible_overwrite,
)
from tidegate.errors import FormatError, TransientError
from tidegate.events import AbortedCleaningReleased, CleaningReleased
from tidegate.events.reasons import Reason
from tidegate.hive.compaction import Compaction, InconsistentCompaction, covers
from tidegate.hive.content import content_hash
from tidegate.hive.names import AcidDirectory, Base, Delta
from tidegate.hive.obsolete import NotEnoughHistory, aborted_rows
from tidegate.hive.write_ids import RangeResponse, ValidWriteIds, shortened
from tidegate.tables.refusal import Refused

Cleaning = CleaningReleased | AbortedCleaningReleased
"""The commands to clean a directory."""


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The directories to remove.

    Attributes:
        remove: The directories, sorted by name.
        products: The vacuum's complete products: while they are there, `remove` is not needed.
        superseded_by: Names of later vacuums' directories, if their cleaning has removed them all;
            then `remove` is empty.
        failed: Names of the directories in `remove` that a compaction wrote which aborted.
    """

    remove: tuple[ListedDirectory, ...]
    products: tuple[ListedDirectory, ...] = ()
    superseded_by: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def directories(self) -> tuple[str, ...]:
        """The names of the directories to remove."""
        return tuple(directory.name for directory in self.remove)

    @property
    def phases(self) -> tuple[tuple[ListedDirectory, ...], ...]:
        """Groups of directories to remove together, in order: delete deltas after all others.

        So no reader sees a deleted row again, and after a crash the delete deltas still explain
        why a base is empty.
        """
        phases: tuple[list[ListedDirectory], list[ListedDirectory]] = ([], [])
        for directory in self.remove:
            phases[directory.name.startswith("delete_delta_")].append(directory)
        return tuple(tuple(phase) for phase in phases if phase)

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """By name, the number and the bytes of the files of the directories to remove."""
        return {planned.name: (len(planned.files), planned.size) for planned in self.remove}

    @property
    def files(self) -> int:
        """The number of files in these directories."""
        return sum(len(directory.files) for directory in self.remove)

    @property
    def bytes(self) -> int:
        """The total size of these files in bytes."""
        return sum(directory.size for directory in self.remove)


def partition_path(partition: str | None) -> str:
    """The partition as a path below the table; empty for the table itself.

    Raises:
        Refused: BAD_PARTITION.
    """
    partition = partition or ""
    names = partition.split("/")
    stray = {"", ".", ".."} & set(names) or re.search(r"[\\\x00-\x1f]", partition)
    if partition and stray:
        raise Refused(
            Reason.BAD_PARTITION, f"not a relative path below the table: {shortened(partition)}"
        )
    return partition


def plan_cleaning(
    listing: Sequence[ListedDirectory] | None,
    command: CleaningReleased,
    aborted_txns: Collection[int] = (),
) -> CleaningPlan:
    """Plan from the directory as it is now and the vacuum's own snapshot.

    Original files (outside any ACID directory), which Hive calls obsolete once there is a base,
    are not in the listing, so they stay.

    Args:
        listing: The result of `read_acid_directories`; None if the directory does not exist.
        command: The released vacuum.
        aborted_txns: Transactions that aborted, as far as the second source knows them.

    Raises:
        Refused: nothing may be removed.
        TransientError: a later vacuum's cleaning is under way; plan again later.
    """
    if listing is None:
        raise Refused(Reason.NO_SUCH_TABLE, f"there is no directory at {place(command)}")
    compaction = _compaction(command)
    entries = parsed(listing)
    try:
        return _plan(compaction, entries, aborted_txns)
    except Refused as refused:
        later = superseding_directories(compaction, entries) if _may_change(refused) else ()
        if not later:
            raise
        return CleaningPlan((), superseded_by=later)


def _may_change(refused: Refused) -> bool:
    return refused.reason in {
        Reason.PRODUCTS_MISSING,
        Reason.PRODUCTS_INCOMPLETE,
        Reason.NOT_COVERED,
    }


def _plan(
    compaction: Compaction, entries: Sequence[AcidEntry], aborted_txns: Collection[int]
) -> CleaningPlan:
    products = complete_products(compaction, entries)
    try:
        removable = compaction.removable([entry.found for entry in entries], aborted_txns)
    except NotEnoughHistory as error:
        raise Refused(Reason.NOT_ENOUGH_HISTORY, str(error)) from error
    if removable.overwrite is not None and removable.obsolete:
        products = [*products, visible_overwrite(removable.overwrite, entries)]
    check_covered(removable.obsolete, products)
    obsolete = frozenset(directory.name for directory in removable.obsolete)
    check_empty_base(products, entries, obsolete)
    failed = tuple(directory.name for directory in removable.failed)
    names = {*obsolete, *aborted_within(removable.aborted, products), *failed}
    remove = [entry.listed for entry in entries if entry.name in names]
    check_links(remove)
    ordered = sorted(remove, key=lambda directory: directory.name)
    made = tuple(product.listed for product in products)
    return CleaningPlan(tuple(ordered), made, failed=failed)


def may_have_failed(
    listing: Iterable[ListedDirectory], command: CleaningReleased, plan: CleaningPlan | None = None
) -> bool:
    """Whether a directory that stays may be of a compaction that aborted.

    Args:
        listing: The directory as it is now.
        command: The released vacuum.
        plan: The plan without aborted transactions: what it removes goes in any case. None: it is
            refused.

    Raises:
        Refused: BAD_NAME or LINK_INSIDE.
    """
    known = {*command.directories}
    if plan is not None:
        known.update(directory.name for directory in (*plan.remove, *plan.products))
    others = [one for one in listing if "_v" in one.name and one.name not in known]
    return any(entry.acid.max_write_id <= command.max_write_id for entry in parsed(others))


def check_complete(plan: CleaningPlan, command: Cleaning) -> None:
    """Check by their files' names that the products hold all that the plan would remove.

    Raises:
        Refused: PRODUCTS_INCOMPLETE or BAD_SNAPSHOT.
    """
    products = [AcidEntry.parse(directory) for directory in plan.products]
    replaced = [AcidEntry.parse(directory) for directory in plan.remove]
    if products:  # aborted writes are replaced by nothing
        check_every_bucket(products, replaced, snapshot_of(command))


def place(command: Cleaning) -> str:
    """The directory of a command, for messages."""
    partition = "" if command.partition is None else f" for the partition {command.partition}"
    return command.location + partition


def _compaction(command: CleaningReleased) -> Compaction:
    try:
        return Compaction.of(command, snapshot_of(command))
    except FormatError as error:
        raise Refused(Reason.BAD_NAME, str(error)) from error
    except InconsistentCompaction as error:
        raise Refused(Reason.VACUUM_MISMATCH, str(error)) from error


def snapshot_of(command: Cleaning) -> ValidWriteIds:
    """Read the command's snapshot.

    Raises:
        Refused: BAD_SNAPSHOT: it can't be read, or belongs to another table.
    """
    try:
        return ValidWriteIds.of_table(command.valid_write_ids, command.table)
    except FormatError as error:
        raise Refused(Reason.BAD_SNAPSHOT, str(error)) from error


def parsed(listing: Iterable[ListedDirectory]) -> list[AcidEntry]:
    """Parse the names of a listing.

    Raises:
        Refused: BAD_NAME or LINK_INSIDE: one is not a directory of Hive's.
    """
    try:
        entries = [AcidEntry.parse(directory) for directory in listing]
    except FormatError as error:
        raise Refused(Reason.BAD_NAME, str(error)) from error
    for directory in listing:
        if not directory.is_plain:
            raise Refused(
                Reason.LINK_INSIDE,
                f"{directory.path} is a symbolic link or a file, not a directory",
            )
    return entries


def check_links(remove: Iterable[ListedDirectory]) -> None:
    """Check that nothing that would be removed contains a link.

    Raises:
        Refused: LINK_INSIDE.
    """
    for directory in remove:
        for file in directory.files:
            if file.is_link:
                raise Refused(
                    Reason.LINK_INSIDE, f"{directory.path} contains a symbolic link: {file.name}"
                )


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
    remove = [
        entry.listed
        for entry in parsed(listing)
        if aborted_rows(entry.found, snapshot) is RangeResponse.ALL
    ]
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


def superseding_directories(
    compaction: Compaction, entries: Sequence[AcidEntry]
) -> tuple[str, ...]:
    """Name the later vacuums' directories that contain the missing products of a vacuum.

    Returns:
        Their names; empty if no product is missing, or if no later vacuum's directory contains a
        missing product that was needed.

    Raises:
        TransientError: a later vacuum's cleaning has removed a product, but not yet all that the
            product replaced.
    """
    complete = [entry for entry in entries if entry.is_complete]
    present = [entry.acid for entry in complete if compaction.is_product(entry.acid)]
    later = [entry for entry in complete if _is_later(compaction, entry.acid)]
    left = [entry for entry in entries if compaction.reaches(entry.acid)]
    names: set[str] = set()
    for product in compaction.products:
        if any(covers(acid, product) for acid in present):
            continue
        containing = {entry.name for entry in later if covers(entry.acid, product)}
        if not containing and any(_is_alike(product, entry.acid) for entry in left):
            return ()
        names |= containing
    if names and left:
        raise TransientError(
            f"{compaction.products[0].name} was replaced by {', '.join(sorted(names))} and a later"
            f" vacuum's cleaning is under way: {left[0].name} still exists; waiting for its end"
        )
    return tuple(sorted(names))


def _is_later(compaction: Compaction, acid: AcidDirectory) -> bool:
    """Whether a later compaction (or insert overwrite) wrote it: it reaches further."""
    if isinstance(acid, Delta):
        return acid.statement is None and acid.max_write_id > compaction.max_write_id
    return acid.write_id > compaction.max_write_id or not compaction.is_major


def _is_alike(product: AcidDirectory, acid: AcidDirectory) -> bool:
    """Whether a directory would have been compacted into this product: by its kind of events."""
    if isinstance(product, Base):
        return True
    return isinstance(acid, Delta) and acid.deletes == product.deletes
