"""Plans what an undo puts back, or why nothing may be put back. Pure.

A directory is put back only if no reader would read it in addition to what it reads now: a complete
product of a vacuum must hide it (`tidegate.hive.hides`). The record of the vacuum's own cleaning,
or of a later one, proves that the vacuum had committed. Readers that began before the product was
visible do not see it. They read the same directories as before the cleaning, if all of them come
back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.products import AcidEntry
from tidegate.cleaning.quarantine_record import Entry
from tidegate.errors import FormatError
from tidegate.events.reasons import Reason
from tidegate.hive import FoundDirectory, hides
from tidegate.tables.refusal import Refused

_NAMED = 5


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo does.

    Attributes:
        put_back: The directories with the paths of their entries; delete deltas first, so that no
            reader sees a deleted row again meanwhile.
        sizes: All directories that the cleaning had moved, including those that an earlier attempt
            put back: by name, the number and the bytes of the files.
        entries: The paths of the cleaning's entries.
    """

    put_back: tuple[tuple[str, str], ...]
    sizes: Mapping[str, tuple[int, int]]
    entries: tuple[str, ...]


def plan_undo(
    listing: Sequence[ListedDirectory] | None,
    entries: Sequence[Entry],
    cleaning: str,
    request: str,
) -> UndoPlan:
    """Plan the undo of a cleaning from the directory as it is now.

    Args:
        listing: The directory; None if it does not exist.
        entries: All entries of its quarantine.
        cleaning: The id of the CleaningReleased to undo.
        request: The id of the undo's request. The same request has the same result again.

    Raises:
        Refused: nothing may be put back.
    """
    if listing is None:
        raise Refused(Reason.NO_SUCH_TABLE, "the directory no longer exists")
    own = [entry for entry in entries if entry.record.cleaning == cleaning]
    if not own:
        raise Refused(
            Reason.NOT_QUARANTINED,
            f"the cleaning {cleaning} has nothing in quarantine: it deleted its directories, or the"
            " quarantine has ended",
        )
    there = {directory.name for directory in listing}
    quarantined = Counter(name for entry in own for name in entry.quarantined)
    _check_none_leaving(own, quarantined)
    if quarantined:
        _check_complete(own, quarantined, there)
        _check_hidden(quarantined, entries, listing)
    elif not _was_undone(own, there, request):
        raise Refused(Reason.NOT_QUARANTINED, "everything was put back already, or was removed")
    sizes = {name: size for entry in own for name, size in entry.record.directories.items()}
    places = {name: entry.path for entry in own for name in entry.quarantined}
    ordered = sorted(places.items(), key=lambda item: (not _deletes(item[0]), item[0]))
    return UndoPlan(tuple(ordered), sizes, tuple(entry.path for entry in own))


def _was_undone(own: Sequence[Entry], there: Collection[str], request: str) -> bool:
    """Whether this request was completed before, or crashed after its last move."""
    by = {entry.undone_by for entry in own}
    if by == {request}:
        return True
    planned = {name for entry in own for name in entry.record.directories}
    return by <= {None, request} and planned <= set(there)


def _check_none_leaving(own: Sequence[Entry], quarantined: Collection[str]) -> None:
    """Refuse an undo once one directory is being removed for good."""
    if leaving := sorted(name for entry in own for name in entry.leaving):
        raise Refused(
            Reason.QUARANTINE_INCOMPLETE,
            f"this quarantine has ended: {len(leaving)} directories are being removed for good,"
            f" {len(quarantined)} are left",
        )


def _check_complete(
    own: Sequence[Entry], quarantined: Counter[str], there: Collection[str]
) -> None:
    """Refuse an incomplete undo: readers would miss rows silently instead of having an error."""
    planned = {name for entry in own for name in entry.record.directories}
    if gone := sorted(planned - set(quarantined) - set(there)):
        raise Refused(
            Reason.QUARANTINE_INCOMPLETE,
            f"missing in the quarantine and in the table: {_named(gone)}",
        )
    twice = {name for name, count in quarantined.items() if count > 1} | (
        set(quarantined) & set(there)
    )
    if twice:
        raise Refused(
            Reason.NAME_TAKEN, f"another directory has the same name: {_named(sorted(twice))}"
        )
    if stray := sorted(set(quarantined) - planned):
        raise Refused(Reason.UNREADABLE_QUARANTINE, f"no record names {_named(stray)}")
    for entry in own:
        for name, size in entry.sizes.items():
            if entry.record.directories.get(name) != size:
                raise Refused(
                    Reason.QUARANTINE_INCOMPLETE, f"the files of {name} changed in quarantine"
                )


def _check_hidden(
    quarantined: Collection[str], entries: Sequence[Entry], listing: Sequence[ListedDirectory]
) -> None:
    known = {name for entry in entries for name in entry.record.products}
    try:
        products = [AcidEntry.parse(directory) for directory in listing if directory.name in known]
        back = [FoundDirectory.named(name) for name in quarantined]
    except FormatError as error:
        raise Refused(Reason.BAD_NAME, str(error)) from error
    complete = [
        product.found for product in products if product.listed.is_plain and product.is_complete
    ]
    for found in back:
        if not any(hides(product, found) for product in complete):
            raise Refused(
                Reason.ROWS_TWICE,
                f"no known product of a vacuum hides {found.name} from readers: they could see its"
                " rows twice, or rows that were deleted since."
                " If a later cleaning is in quarantine, undo that one first",
            )


def _deletes(name: str) -> bool:
    return name.startswith("delete_delta_")


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
