"""Decide what an undo puts back, or why nothing may be put back. Pure.

Nothing is put back that any reader could take in addition to what it reads now: a complete product
of a vacuum must be there that hides it (`tidegate.hive.hides`). That the vacuum had committed is
known from its own cleaning, or from a later one's record. Readers who began before the product was
visible do not see it: for them the directories are what they were before the cleaning, provided
that all of them come back.
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
        put_back: The directories, each with the path of the entry that it is in; delete deltas
            first, so that no reader sees a deleted row again in between.
        sizes: All that the cleaning had moved, those put back by an earlier attempt too: by name
            the number and the bytes of the files.
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
        request: The id of the undo's request: asked again, it has the same answer.

    Raises:
        Refused: nothing may be put back.
    """
    if listing is None:
        raise Refused(Reason.NO_SUCH_TABLE, "the directory does not exist any more")
    own = [entry for entry in entries if entry.record.cleaning == cleaning]
    if not own:
        raise Refused(
            Reason.NOT_QUARANTINED,
            f"the cleaning {cleaning} has nothing in quarantine: it deleted, or its time is over",
        )
    there = {each.name for each in listing}
    kept = Counter(name for each in own for name in each.kept)
    _check_none_leaving(own, kept)
    if kept:
        _check_complete(own, kept, there)
        _check_hidden(kept, entries, listing)
    elif not _was_undone(own, there, request):
        raise Refused(Reason.NOT_QUARANTINED, "everything was put back already, or is gone")
    sizes = {name: size for each in own for name, size in each.record.directories.items()}
    places = {name: each.path for each in own for name in each.kept}
    ordered = sorted(places.items(), key=lambda item: (not _deletes(item[0]), item[0]))
    return UndoPlan(tuple(ordered), sizes, tuple(each.path for each in own))


def _was_undone(own: Sequence[Entry], there: Collection[str], request: str) -> bool:
    """Whether this request did it before, or died after its last move."""
    by = {each.undone_by for each in own}
    if by == {request}:
        return True
    planned = {name for each in own for name in each.record.directories}
    return by <= {None, request} and planned <= set(there)


def _check_none_leaving(own: Sequence[Entry], kept: Collection[str]) -> None:
    """Once one directory is being removed for good, nothing is put back."""
    if leaving := sorted(name for each in own for name in each.leaving):
        raise Refused(
            Reason.QUARANTINE_INCOMPLETE,
            f"the time of this quarantine is over: {len(leaving)} directories are being removed for"
            f" good, {len(kept)} are left",
        )


def _check_complete(own: Sequence[Entry], kept: Counter[str], there: Collection[str]) -> None:
    """Without one of them, readers would silently miss rows where they had an error before."""
    planned = {name for each in own for name in each.record.directories}
    if gone := sorted(planned - set(kept) - set(there)):
        raise Refused(
            Reason.QUARANTINE_INCOMPLETE,
            f"not in quarantine any more, nor in its place: {_named(gone)}",
        )
    twice = {name for name, count in kept.items() if count > 1} | (set(kept) & set(there))
    if twice:
        raise Refused(
            Reason.NAME_TAKEN, f"there is another directory of that name: {_named(sorted(twice))}"
        )
    if stray := sorted(set(kept) - planned):
        raise Refused(Reason.UNREADABLE_QUARANTINE, f"no record names {_named(stray)}")
    for each in own:
        for name, size in each.sizes.items():
            if each.record.directories.get(name) != size:
                raise Refused(
                    Reason.QUARANTINE_INCOMPLETE, f"the files of {name} changed in quarantine"
                )


def _check_hidden(
    kept: Collection[str], entries: Sequence[Entry], listing: Sequence[ListedDirectory]
) -> None:
    known = {name for entry in entries for name in entry.record.products}
    try:
        products = [AcidEntry.parse(each) for each in listing if each.name in known]
        back = [FoundDirectory.named(name) for name in kept]
    except FormatError as error:
        raise Refused(Reason.BAD_NAME, str(error)) from error
    complete = [
        product.found for product in products if product.listed.is_plain and product.is_complete
    ]
    for found in back:
        if not any(hides(product, found) for product in complete):
            raise Refused(
                Reason.ROWS_TWICE,
                f"nothing that is known to have replaced {found.name} is there to hide it from"
                " readers: they could see its rows twice, or what was deleted since."
                " If a later cleaning is in quarantine, undo that one first",
            )


def _deletes(name: str) -> bool:
    return name.startswith("delete_delta_")


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
