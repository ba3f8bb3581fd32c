"""Removes planned directories, as long as the table is unchanged since the plan.

Runs on Spark's executors too, so it imports nothing that they may miss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate.cleaning.listing import ListedDirectory
from tidegate.errors import TidegateError
from tidegate.storage import FileInfo, ListedFile, ParallelMap
from tidegate.storage.parallel import batches_of
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import OpenFolder, Warehouse

AT_ONCE: Final = 100_000
"""Directories and files that go between two questions whether to go on: twenty seconds or less."""


@dataclass(frozen=True, slots=True)
class NotRemoved:
    """A directory that could not be removed."""

    reason: str
    """The directory and the cause."""
    fault: OSError | None = None
    """The file system's error; None if the cause is another. Spark can return it, because it can
    be pickled. Its errno decides whether another attempt may succeed."""


def remove_directories(  # noqa: PLR0913 - the last by name
    warehouse: Warehouse,
    phases: Iterable[Sequence[ListedDirectory]],
    products: tuple[ListedDirectory, ...],
    parallel_map: ParallelMap,
    failed: list[NotRemoved],
    *,
    claim: AnyClaim = NO_CLAIM,
) -> Iterator[Sequence[ListedDirectory]]:
    """Remove planned directories, phase by phase; stop at an error.

    Args:
        warehouse: Where they are.
        phases: The directories to remove, in the order of the phases.
        products: The vacuum's directories, which must be unchanged.
        parallel_map: Processes the batches.
        failed: Takes the directories that could not be removed.
        claim: Checked before each batch, and within a batch that takes long.

    Yields:
        Before each portion, the directories that went since the last time. The caller may end the
        removal.
    """
    gone: Sequence[ListedDirectory] = ()
    for phase in phases:
        remove = _RemoveUnchanged(warehouse, phase[0].parent, products, claim)
        for directories in _portions(phase):
            yield gone
            done = parallel_map.map(remove, batches_of(directories))
            failed += (fault for batch in done for fault in batch)
            if failed:
                return
            gone = directories


def _portions(phase: Sequence[ListedDirectory]) -> Iterator[Sequence[ListedDirectory]]:
    """Cut a phase into portions of AT_ONCE directories and files, but at least one directory."""
    start = count = 0
    for at, directory in enumerate(phase):
        count += 1 + len(directory.files)
        if count > AT_ONCE and at > start:
            yield phase[start:at]
            start, count = at, 1 + len(directory.files)
    yield phase[start:]


@dataclass(frozen=True, slots=True)
class _RemoveUnchanged:
    """Removes directories of one location, one after the other. Picklable, for Spark.

    The table may be dropped, created again or moved while it is cleaned: then a path names other
    data than planned. So the vacuum's products and then the directory are checked before every
    removal, relative to the location as it was opened for the batch.
    """

    warehouse: Warehouse
    location: str
    products: tuple[ListedDirectory, ...]
    claim: AnyClaim = NO_CLAIM

    def __call__(self, batch: Sequence[ListedDirectory]) -> list[NotRemoved]:
        """Remove directories; return the errors, because the others are still to be removed."""
        try:
            self.claim.check()
            with self.warehouse.opened(self.location) as folder:
                failed = self.warehouse.call_all(
                    self.location, partial(self._remove, folder), batch
                )
        except (OSError, TidegateError) as error:
            return [not_removed(batch[0], error)]
        return [fault for fault in failed if fault is not None]

    def _remove(self, folder: OpenFolder, directory: ListedDirectory) -> NotRemoved | None:
        try:
            self.claim.check_if_old()
            if changed := changed_product(folder, self.products):
                return changed
            if not folder.remove_if(directory.name, partial(was_planned, directory)):
                return NotRemoved(f"{directory.name} changed since the plan")
            if directory.has_marker:
                self.warehouse.remove_files([directory.marker_path])
        except (OSError, TidegateError) as error:
            return not_removed(directory, error)
        return None


def changed_product(folder: OpenFolder, products: Iterable[ListedDirectory]) -> NotRemoved | None:
    """The first product of the vacuum that changed since the plan; then nothing may go."""
    for product in products:
        found = folder.files_below(product.name)
        if found is None or tuple(map(ListedFile.of, found)) != product.files:
            return NotRemoved(f"{product.name}, a product of the vacuum, changed since the plan")
    return None


def not_removed(directory: ListedDirectory, error: OSError | TidegateError) -> NotRemoved:
    """The error of a directory, in a form that can be sent between processes."""
    fault: OSError | None = None
    # a store's own kinds of OSError can't all be pickled, and their numbers mislead
    if isinstance(error, OSError) and type(error).__module__ == "builtins":
        fault = error
    return NotRemoved(f"{directory.name}: {error}", fault)


def was_planned(directory: ListedDirectory, found: Iterable[FileInfo]) -> bool:
    """Whether all found files were planned. Some may be gone: another cleaner may run."""
    files = tuple(map(ListedFile.of, found))
    return files == directory.files or set(files) <= set(directory.files)
