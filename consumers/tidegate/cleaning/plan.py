"""The plan of a cleaning: what would go, or why nothing may. Pure, so it is the dry run too.

Reason codes, here and in `cleaner`:

    bad-partition        the partition is no relative path below the table
    outside-warehouse    the location is not below a warehouse root, or a link leads out of one
    link-inside          a link to the table or partition, among its ACID directories, or in one to
                         remove
    no-such-table        there is no such directory
    bad-snapshot         the vacuum's ValidWriteIdList can't be read, or is another table's
    bad-name             an ACID directory's name, in the vacuum or in the table, can't be parsed
    vacuum-mismatch      the vacuum's kind, range, products and snapshot contradict each other
    not-enough-history   no base serves the vacuum's snapshot
    products-missing     what the vacuum made is not there, and nothing that holds it is
    products-incomplete  what the vacuum made is there without a bucket file, and is no base of a
                         table whose rows were all deleted
    not-covered          something obsolete is not held by a product that is there
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.products import check_emptied, covered, dead, whole_products
from tidegate.errors import FormatError
from tidegate.events import CleaningReleased, VacuumKind
from tidegate.hive import (
    FoundDirectory,
    NotEnoughHistory,
    Vacuum,
    VacuumMismatch,
    ValidWriteIds,
)
from tidegate.refusals import Refusal, Refused


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The directories to remove, sorted by name."""

    remove: tuple[ListedDirectory, ...]

    @property
    def directories(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(each.name for each in self.remove)

    @property
    def waves(self) -> tuple[tuple[ListedDirectory, ...], ...]:
        """What may go at once, in order: deletes outlive the rows that they delete.

        So a reader never sees a deleted row, and what a crash left still says why a base is empty.
        """
        waves: tuple[list[ListedDirectory], list[ListedDirectory]] = ([], [])
        for each in self.remove:
            waves[each.name.startswith("delete_delta_")].append(each)
        return tuple(tuple(wave) for wave in waves if wave)

    @property
    def files(self) -> int:
        """How many files are in them."""
        return sum(len(each.files) for each in self.remove)

    @property
    def bytes(self) -> int:
        """How many bytes."""
        return sum(each.size for each in self.remove)


def partition_path(command: CleaningReleased) -> str | Refusal:
    """Give the partition as a path below the table: empty for the table itself."""
    partition = command.partition or ""
    names = partition.split("/")
    stray = {"", ".", ".."} & set(names) or re.search(r"[\\\x00-\x1f]", partition)
    if partition and (stray or "://" in partition):
        return Refusal("bad-partition", f"{partition!r} is no path below the table")
    return partition


def plan_cleaning(
    listing: Sequence[ListedDirectory] | None, command: CleaningReleased
) -> CleaningPlan | Refusal:
    """Plan from what is there now and the vacuum's own snapshot.

    Original files (outside any ACID directory), which Hive calls obsolete once there is a base,
    are not in the listing and stay: nobody reads them, and keeping them loses nothing.

    Args:
        listing: What `look` found; None where the directory is not there.
        command: The released vacuum.
    """
    if listing is None:
        return Refusal("no-such-table", f"there is no directory at {_where(command)}")
    try:
        vacuum = _vacuum(command)
        found = _parsed(listing)
        whole = whole_products(vacuum, listing, found)
        obsolete = covered(vacuum, found, whole)
        check_emptied(vacuum, listing, found, obsolete)
        gone = {*obsolete, *dead(vacuum, found, whole)}
        remove = tuple(each for each in listing if each.name in gone)
        _check_links(remove)
    except Refused as refused:
        return refused.refusal
    except NotEnoughHistory as error:
        return Refusal("not-enough-history", str(error))
    return CleaningPlan(tuple(sorted(remove, key=lambda each: each.name)))


def _where(command: CleaningReleased) -> str:
    below = "" if command.partition is None else f" for the partition {command.partition}"
    return command.location + below


def _vacuum(command: CleaningReleased) -> Vacuum:
    try:
        return Vacuum.of(
            command.directories,
            major=command.kind is VacuumKind.MAJOR,
            min_write_id=command.min_write_id,
            max_write_id=command.max_write_id,
            write_ids=_snapshot(command),
            own_txn=command.own_transaction_id,
        )
    except FormatError as error:
        raise Refused("bad-name", str(error)) from error
    except VacuumMismatch as error:
        raise Refused("vacuum-mismatch", str(error)) from error


def _snapshot(command: CleaningReleased) -> ValidWriteIds:
    try:
        snapshot = ValidWriteIds.parse(command.valid_write_ids)
    except FormatError as error:
        raise Refused("bad-snapshot", str(error)) from error
    table = snapshot.table.lower()
    if "." in table and not f".{command.table}".endswith(f".{table}"):
        raise Refused("bad-snapshot", f"the snapshot is of {table}, not of {command.table}")
    return snapshot


def _parsed(listing: Iterable[ListedDirectory]) -> list[FoundDirectory]:
    try:
        found = [FoundDirectory.named(each.name) for each in listing]
    except FormatError as error:
        raise Refused("bad-name", str(error)) from error
    for each in listing:
        if not each.is_plain:
            raise Refused("link-inside", f"{each.path} is a link or a file, not a directory")
    return found


def _check_links(remove: Iterable[ListedDirectory]) -> None:
    for each in remove:
        if link := next((file.name for file in each.files if file.is_link), None):
            raise Refused("link-inside", f"{each.path} holds a link: {link}")
