"""The cleaner's commands about directories in quarantine: undo and final removal.

A directory is put back only if no reader would read it in addition to what it reads now: a complete
product of a vacuum must hide it (`tidegate.hive.hides`). The record of the vacuum's own cleaning,
or of a later one, proves that the vacuum had committed. Readers that began before the product was
visible do not see it. They read the same directories as before the cleaning, if all of them come
back.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from tidegate.cleaning.directory_reader import location_of, read_acid_directories
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.outcomes import event_fields, parts
from tidegate.cleaning.products import AcidEntry
from tidegate.cleaning.quarantine import UNDONE, Entry, read_entries, remove_for_good
from tidegate.errors import ConfinementError, FormatError, TransientError
from tidegate.events import (
    CleaningRefused,
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRefused,
    CleaningUndoRequested,
    Outcome,
    QuarantineRemovalRequested,
    QuarantineRemoved,
)
from tidegate.events.fields import elapsed_ms
from tidegate.events.reasons import Reason
from tidegate.hive.obsolete import FoundDirectory, hides
from tidegate.storage import NotFound, ParallelMap, join
from tidegate.tables.refusal import Refused, refusal_of
from tidegate.tables.task_numbers import AnyClaim
from tidegate.tables.warehouse import Warehouse

_NAMED = 5


@dataclass(frozen=True, slots=True)
class _UndoPlan:
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
    listing: Sequence[ListedDirectory] | None, entries: Sequence[Entry], cleaning: str, request: str
) -> _UndoPlan:
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
    sizes = {
        name: size
        for entry in own
        for name, size in entry.record.directories.items()
        if name not in entry.record.failed
    }
    places = [
        (name, entry.path)
        for entry in own
        for name in entry.quarantined
        if name not in entry.record.failed
    ]
    quarantined = Counter(name for name, _ in places)
    _check_none_leaving(own, quarantined)
    if quarantined:
        _check_complete(own, sizes, quarantined, there)
        _check_hidden(quarantined, entries, listing)
    elif not sizes or not _was_undone(own, sizes, there, request):
        raise Refused(Reason.NOT_QUARANTINED, "everything was put back already, or was removed")
    ordered = sorted(places, key=lambda item: (not item[0].startswith("delete_delta_"), item[0]))
    return _UndoPlan(tuple(ordered), sizes, tuple(entry.path for entry in own))


def _was_undone(
    own: Sequence[Entry], planned: Collection[str], there: Collection[str], request: str
) -> bool:
    """Whether this request was completed before, or crashed after its last move."""
    by = {entry.undone_by for entry in own}
    if by == {request}:
        return True
    return by <= {None, request} and set(planned) <= set(there)


def _check_none_leaving(own: Sequence[Entry], quarantined: Collection[str]) -> None:
    """Refuse an undo once one directory is being removed for good."""
    if leaving := sorted(name for entry in own for name in entry.leaving):
        raise Refused(
            Reason.QUARANTINE_INCOMPLETE,
            f"this quarantine has ended: {len(leaving)} directories are being removed for good,"
            f" {len(quarantined)} are left",
        )


def _check_complete(
    own: Sequence[Entry],
    planned: Collection[str],
    quarantined: Counter[str],
    there: Collection[str],
) -> None:
    """Refuse an incomplete undo: readers would miss rows silently instead of having an error."""
    if gone := sorted(set(planned) - set(quarantined) - set(there)):
        raise Refused(
            Reason.QUARANTINE_INCOMPLETE,
            f"missing in the quarantine and in the table: {_named(gone)}",
        )
    back = {name for entry in own for name in entry.partly_back}
    twice = {name for name, count in quarantined.items() if count > 1} | (
        set(quarantined) & set(there) - back
    )
    if twice:
        raise Refused(
            Reason.NAME_TAKEN, f"another directory has the same name: {_named(sorted(twice))}"
        )
    if stray := sorted(set(quarantined) - set(planned)):
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


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _put_back(warehouse: Warehouse, location: str, plan: _UndoPlan, claim: AnyClaim) -> None:
    """Move directories back to their places, in the order of the plan.

    Raises:
        TransientError: an entry is gone meanwhile: plan again.
        FileExistsError: a directory of that name was created meanwhile.
    """
    for path, group in groupby(plan.put_back, key=itemgetter(1)):
        try:
            claim.check()
            with warehouse.moving_back(path, location) as move:
                for name, _ in group:
                    claim.check_if_old()
                    move(name, name, lambda _: True)
        except NotFound as error:
            raise TransientError(f"the quarantine changed during the undo: {error}") from error


def _mark_undone(warehouse: Warehouse, plan: _UndoPlan, request: str) -> None:
    """Write into the entries which request put everything back."""
    for path in plan.entries:
        warehouse.replace(join(path, UNDONE), json.dumps({"request": request}).encode())


def undo(
    command: CleaningUndoRequested,
    warehouse: Warehouse,
    parallel_map: ParallelMap,
    clock: Callable[[], datetime],
    claim: AnyClaim,
) -> Iterator[Outcome]:
    """Put back the directories of a cleaning, unless a reader could then see a row twice.

    It may run twice, even concurrently.

    Raises:
        TransientError: the table or the quarantine changed during the undo.
        OSError: the file system refuses to move a directory.
    """
    began = clock()
    try:
        location = location_of(warehouse, command.location, command.partition)
        plan = _plan(warehouse, location, parallel_map, command)
    except Refused as refused:
        fields = event_fields(command, clock()) | {"cleaning": command.cleaning}
        yield CleaningUndoRefused.about(command, **fields, **refused.fields)
        return
    if command.plan_only:
        yield from _outcomes(CleaningUndoPlanned, command, plan.sizes, clock())
        return
    _put_back(warehouse, location, plan, claim)
    _verify(warehouse, location, plan)
    claim.check()
    _mark_undone(warehouse, plan, command.event_id)
    yield from _outcomes(CleaningUndone, command, plan.sizes, clock(), began)


def remove_quarantine(
    command: QuarantineRemovalRequested,
    warehouse: Warehouse,
    parallel_map: ParallelMap,
    clock: Callable[[], datetime],
    claim: AnyClaim,
) -> Iterator[Outcome]:
    """Remove the directories of a cleaning for good. Missing ones count as removed.

    It may run twice, even concurrently.

    Raises:
        OSError: the file system refuses to remove a directory.
    """
    began = clock()

    def of_cleaning() -> list[Entry]:
        there = _entries(warehouse, location, command.cleaning, parallel_map)
        return [entry for entry in there if entry.record.cleaning == command.cleaning]

    try:
        location = location_of(warehouse, command.location, command.partition)
        own = of_cleaning()
    except Refused as refused:
        fields = event_fields(command, clock())
        yield CleaningRefused.about(command, **fields, **refused.fields)
        return
    sizes = {name: size for entry in own for name, size in entry.sizes.items()}
    remove_for_good(warehouse, location, own, parallel_map, claim)
    if of_cleaning():
        raise TransientError(f"the quarantine in {location} changed during its removal")
    yield from _outcomes(QuarantineRemoved, command, sizes, clock(), began)


def _plan(
    warehouse: Warehouse, location: str, parallel_map: ParallelMap, command: CleaningUndoRequested
) -> _UndoPlan:
    entries = _entries(warehouse, location, command.cleaning, parallel_map)
    try:
        listing = read_acid_directories(warehouse, location, parallel_map)
    except (ConfinementError, FormatError) as error:
        raise refusal_of(error) from error
    return plan_undo(listing, entries, command.cleaning, command.event_id)


def _verify(warehouse: Warehouse, location: str, plan: _UndoPlan) -> None:
    """Check that every directory is back in its place.

    Raises:
        TransientError: one is missing, for example because the quarantine's removal began.
    """
    try:
        there = {entry.name for entry in warehouse.list(location) if entry.is_dir}
    except NotFound as error:  # dropped meanwhile: the next attempt refuses it
        raise TransientError(f"the directory is gone: {error}") from error
    if missing := sorted(plan.sizes.keys() - there):
        raise TransientError(f"not put back: {', '.join(missing[:5])}")


def _entries(
    warehouse: Warehouse, location: str, cleaning: str, parallel_map: ParallelMap
) -> list[Entry]:
    try:
        return read_entries(warehouse, location, cleaning, parallel_map)
    except ConfinementError as error:
        raise refusal_of(error) from error
    except FormatError as error:
        raise Refused(Reason.UNREADABLE_QUARANTINE, str(error)) from error


def _outcomes(
    kind: type[Outcome],
    command: CleaningUndoRequested | QuarantineRemovalRequested,
    sizes: Mapping[str, tuple[int, int]],
    now: datetime,
    began: datetime | None = None,
) -> Iterator[Outcome]:
    """The outcomes about these directories; with their duration, if something was done."""
    more: dict[str, Any] = event_fields(command, now) | {"cleaning": command.cleaning}
    if began is not None:
        more["duration_ms"] = elapsed_ms(began, now)
    for fields in parts(sizes):
        yield kind.about(command, **more, **fields)
