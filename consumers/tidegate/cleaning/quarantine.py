"""Moves directories into quarantine and back, or removes them for good.

    TABLE/.tidegate_quarantine/RUN/record.json
    TABLE/.tidegate_quarantine/RUN/delta_0000001_0000001_0000/...

Every run of the cleaner has an entry of its own, so names never collide, and concurrent cleaners
never write to the same entry. Its name contains a hash of the cleaning's id. Hive, Spark and Trino
ignore hidden names.

Every step can be repeated, even by a concurrent process: a rename is atomic, so a directory is in
one location at any moment. A directory is renamed before its final removal, so that a partly
removed one is never put back.

On S3 a directory is moved object by object, in a bucket with versions: the entry has a list of its
objects instead of the directory (`tables/warehouse/s3_versions.py`). A run may die half way, so all
runs of a cleaning have one entry there, and the next one adds to its lists. What another cleaning
left half way is moved into that one's entry: a directory is never in two.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated, Final, Literal, Self

from pydantic import Field

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan
from tidegate.cleaning.removal import NotRemoved, changed_product, not_removed, was_planned
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import FormatError, TidegateError, TransientError
from tidegate.events import CleaningReleased, Value
from tidegate.events.reasons import Reason
from tidegate.storage import NotFound, ParallelMap, join
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import AlreadyExists, Move, OpenFolder, Warehouse

FOLDER: Final = ".tidegate_quarantine"
"""The hidden directory in the directory of a table or partition."""
RECORD: Final = "record.json"
UNDONE: Final = "undone.json"
"""Names the request that put everything back. The entry stays until the quarantine ends."""
LEAVING: Final = ".leaving-"
"""The prefix of directories that are being removed for good: they are never put back."""
MAX_RECORD_BYTES: Final = 16 * 2**20
"""A record lists up to 1,000 directories twice: by name, and with the partition."""
_Count = Annotated[int, Field(strict=True, ge=0, lt=2**50)]
_Name = Annotated[str, Field(min_length=1, max_length=255)]


class QuarantineRecord(Value, frozen=True):
    """The directories that one run of a cleaning moved, or was about to move, into quarantine."""

    cleaning: str
    """The id of the CleaningReleased."""
    vacuum: str
    table: str
    partition: str | None
    why: str
    at: str
    """The time of the run by the cleaner's clock; for people."""
    keep_ms: _Count
    directories: Mapping[_Name, tuple[_Count, _Count]]
    """By name, the number and the bytes of the files of a directory."""
    paths: tuple[str, ...]
    """The original locations of the directories, relative to the table; for people."""
    products: tuple[str, ...]
    """The vacuum's products, which replace these directories for readers."""
    failed: tuple[str, ...]
    """Directories of compactions that aborted: an undo does not put them back."""
    version: Literal[1] = 1

    @classmethod
    def of(
        cls, command: CleaningReleased, plan: CleaningPlan, why: str, at: datetime, keep_ms: int
    ) -> Self:
        """The record of a run that is about to begin."""
        prefix = f"{command.partition}/" if command.partition else ""
        return cls(
            cleaning=command.event_id,
            vacuum=command.caused_by or "",
            table=command.table,
            partition=command.partition,
            why=why,
            at=at.isoformat(),
            keep_ms=keep_ms,
            directories=plan.sizes,
            paths=tuple(prefix + name for name in plan.directories),
            products=tuple(product.name for product in plan.products),
            failed=plan.failed,
        )

    @classmethod
    def parse(cls, content: bytes, path: str = RECORD) -> Self:
        """Read a record; `path` is for the error.

        Raises:
            FormatError: it is not a record, or has a later version.
        """
        try:
            return cls.model_validate(parse_json(content, RECORD, MAX_RECORD_BYTES))
        except ValueError as error:
            raise FormatError(f"{path} is not a quarantine record: {error!r}") from error

    def dump(self) -> bytes:
        """The file's content."""
        return json.dumps(self.model_dump(mode="json"), indent=1).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Entry:
    """One run's entry in a quarantine, as it was found."""

    name: str
    path: str
    record: QuarantineRecord
    quarantined: Collection[str] = ()
    """The names of directories that can be put back."""
    leaving: Collection[str] = ()
    """The present names of directories that are being removed for good."""
    undone_by: str | None = None
    """The id of the request that put everything back."""
    partly_back: Collection[str] = ()
    """The names of directories that may be in the table too, with nothing but files of their own:
    on S3, where a process may have died while it moved them."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By name, the number and the bytes of the present files, if they were counted."""


@dataclass(slots=True)
class MoveAside:
    """Moves directories of one location into an entry, which is created for the first of them.

    Its name is unique if a directory is moved at once: two runs never write to the same entry.
    """

    warehouse: Warehouse
    location: str
    record: QuarantineRecord
    claim: AnyClaim = NO_CLAIM
    _entry: str | None = None
    _half_way: Mapping[str, str] = field(default_factory=dict[str, str])
    """By directory that another cleaning moved in part, the entry of that one."""

    def __call__(
        self, plan: CleaningPlan, failed: list[NotRemoved]
    ) -> Iterator[Sequence[ListedDirectory]]:
        """Move the directories of a plan, phase by phase, if they are unchanged since the plan.

        Args:
            plan: The plan.
            failed: Takes the directories that could not be moved: then no further phase begins.

        Yields:
            Before each directory, what went since the last time. The caller may end the moves.

        Raises:
            Refused: an earlier run left a record or a list that can't be read.
        """
        if self._entry is None:
            try:
                self._entry = self._made_entry()
            except FormatError as error:
                raise Refused(Reason.UNREADABLE_QUARANTINE, str(error)) from error
        for phase in plan.phases:
            self.claim.check()
            yield from self._move(phase, plan.products, self._entry, failed)
            if failed:
                return

    def _made_entry(self) -> str:
        stamp = self.record.at[:19].replace(":", "").replace("-", "")
        name = f"{stamp}Z-{_id_of(self.record.cleaning)}-{uuid.uuid4().hex[:8]}"
        if not self.warehouse.can(self.location).renames:
            name = _id_of(self.record.cleaning)
            self._half_way = dict(self._found_half_way(name))
            sizes = self.record.directories
            left = {name: size for name, size in sizes.items() if name not in self._half_way}
            self.record = self.record.model_copy(update={"directories": left})
        entry = join(self.location, f"{FOLDER}/{name}")
        try:
            self.warehouse.create(join(entry, RECORD), self.record.dump())
        except FileNotFoundError as error:  # another quarantine's removal swept the entry
            raise TransientError(f"{entry} was removed at once") from error
        except AlreadyExists:
            self._add_to_record(entry)
        return entry

    def _found_half_way(self, own: str) -> Iterator[tuple[str, str]]:
        """Directories in the entries of other cleanings; a record may be unreadable."""
        for path in _paths(self.warehouse, self.location):
            if path == join(self.location, f"{FOLDER}/{own}"):
                continue
            with suppress(NotFound):  # another process has just removed it
                names = [
                    name
                    for name in self.warehouse.moved_names(path)
                    if name in self.record.directories
                ]
                found = self.warehouse.moved(path, names, self.location, ThreadMap())
                for name, moved in zip(names, found, strict=True):
                    if moved is not None and moved.is_partly_back:
                        yield name, path

    def _add_to_record(self, entry: str) -> None:
        """Continue an earlier run; the sizes of what it moved in part are those from before.

        Raises:
            TransientError: another process writes the record at the same time.
        """
        path, its = join(entry, RECORD), self.record
        there = self.warehouse.entry(path)
        if there is None:
            raise TransientError(f"{entry} was removed at once")
        before = QuarantineRecord.parse(self.warehouse.read(path, MAX_RECORD_BYTES), path)
        all_of = {
            "directories": {**its.directories, **before.directories},
            "paths": tuple(sorted({*its.paths, *before.paths})),
            "products": tuple(sorted({*its.products, *before.products})),
            "failed": tuple(sorted({*its.failed, *before.failed})),
        }
        try:
            added = its.model_copy(update=all_of)
            self.warehouse.replace(path, added.dump(), there.version)
        except AlreadyExists as error:
            raise TransientError(f"{path} is written by another process") from error
        self.warehouse.remove_files([join(entry, UNDONE)])

    def _move(
        self,
        phase: Sequence[ListedDirectory],
        products: Sequence[ListedDirectory],
        entry: str,
        failed: list[NotRemoved],
    ) -> Iterator[Sequence[ListedDirectory]]:
        warehouse, location = self.warehouse, self.location
        gone: Sequence[ListedDirectory] = ()
        with warehouse.moving(location, entry) as move, warehouse.opened(location) as folder:
            for directory in phase:
                yield gone
                self.claim.check_if_old()
                other = self._half_way.get(directory.name)
                with warehouse.moving(location, other) if other else nullcontext(move) as its:
                    fault = _moved(its, folder, directory, products)
                gone = [] if fault else [directory]
                failed += [fault] if fault else []
        if markers := [directory.marker_path for directory in phase if directory.has_marker]:
            warehouse.remove_files(markers)


def _moved(
    move: Move, folder: OpenFolder, directory: ListedDirectory, products: Iterable[ListedDirectory]
) -> NotRemoved | None:
    """Move one directory while the vacuum's products are as planned; None if it is gone."""
    try:
        if changed := changed_product(folder, products):
            return changed
        name = directory.name
        if move(name, name, partial(was_planned, directory)) is False:
            return NotRemoved(f"{name} changed since the plan")
    except (OSError, TidegateError) as error:
        return not_removed(directory, error)
    return None


def _id_of(cleaning: str) -> str:
    """The part of an entry's name that names its cleaning, also if its record can't be read."""
    return hashlib.sha256(cleaning.encode()).hexdigest()[:32]


def read_entries(
    warehouse: Warehouse, location: str, cleaning: str, parallel_map: ParallelMap | None = None
) -> list[Entry]:
    """The entries of the quarantine of a table's or partition's directory, oldest first.

    A directory without a record is ignored: a person has put it there. So is an entry of another
    cleaning that can't be read. With a `parallel_map` the files of the quarantined directories are
    counted.

    Raises:
        FormatError: an entry of this cleaning can't be read.
    """
    entries = list[Entry]()
    for path in _paths(warehouse, location):
        try:
            entry = _read_entry(warehouse, path, location, parallel_map)
        except FormatError:
            if _id_of(cleaning) in path.rpartition("/")[2]:
                raise
            continue
        entries += [entry] if entry else []
    return entries


def _paths(warehouse: Warehouse, location: str) -> list[str]:
    try:
        found = warehouse.list(join(location, FOLDER))
    except NotFound:
        return []
    return sorted(folder.path for folder in found if folder.is_dir and not folder.is_link)


def _read_entry(
    warehouse: Warehouse, path: str, location: str, parallel_map: ParallelMap | None
) -> Entry | None:
    try:
        found = warehouse.list(path)
        moved = warehouse.moved_names(path)
        record = QuarantineRecord.parse(warehouse.read(join(path, RECORD), MAX_RECORD_BYTES))
        by = None
        if any(file.name == UNDONE for file in found):
            undone = parse_json(warehouse.read(join(path, UNDONE), MAX_SMALL), UNDONE, MAX_SMALL)
            by = str(undone["request"])
    except NotFound:
        return None
    except (ValueError, LookupError, TypeError) as error:
        raise FormatError(f"a record in {path} can't be read: {error!r}") from error
    quarantined = tuple(sorted(name for name in moved if not name.startswith(LEAVING)))
    leaving = tuple(sorted(set(moved) - set(quarantined)))
    files = warehouse.moved(path, quarantined, location, parallel_map) if parallel_map else ()
    returning = {name: it for name, it in zip(quarantined, files, strict=False) if it is not None}
    return Entry(
        path.rpartition("/")[2],
        path,
        record,
        quarantined,
        leaving,
        by,
        partly_back=tuple(name for name, it in returning.items() if it.is_partly_back),
        sizes={name: (it.files, it.bytes) for name, it in returning.items()},
    )


def remove_for_good(
    warehouse: Warehouse,
    location: str,
    entries: Sequence[Entry],
    parallel_map: ParallelMap,
    claim: AnyClaim = NO_CLAIM,
) -> None:
    """Remove entries with everything in them; the record of an entry goes last.

    Raises:
        OSError: a file or directory can't be removed.
    """
    for entry in entries:
        claim.check()
        leaving = sorted({*entry.leaving, *_set_apart(warehouse, entry, claim)})
        remove = partial(_remove_moved, warehouse, claim, entry.path, location)
        parallel_map.map(remove, leaving)
        claim.check()
        warehouse.remove_files([join(entry.path, UNDONE), join(entry.path, RECORD)])
    _sweep(warehouse, join(location, FOLDER))


def _remove_moved(
    warehouse: Warehouse, claim: AnyClaim, entry: str, location: str, name: str
) -> None:
    claim.check_if_old()
    warehouse.remove_moved(join(entry, name), join(location, name.removeprefix(LEAVING)))


def _sweep(warehouse: Warehouse, folder: str) -> None:
    """Remove empty entries, including those of crashed runs, and then the empty folder."""
    try:
        found = warehouse.list(folder)
    except NotFound:
        return
    for entry in found:
        if entry.is_dir and not entry.is_link:
            warehouse.remove_if_empty(entry.path)
    warehouse.remove_if_empty(folder)


def _set_apart(warehouse: Warehouse, entry: Entry, claim: AnyClaim) -> Iterator[str]:
    """Rename the directories to remove, so that no undo puts them back; yield the new names."""
    try:
        with warehouse.moving(entry.path, entry.path) as move:
            for name in entry.quarantined:
                claim.check_if_old()
                if move(name, LEAVING + name, lambda _: True):
                    yield LEAVING + name
    except NotFound:  # another process removed it
        return
