"""Remove planned directories, each only while the table is still as it was planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.cleaning.directory_reader import files_below
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan
from tidegate.errors import TidegateError
from tidegate.storage import ParallelMap
from tidegate.tables.refusal import readable
from tidegate.tables.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class NotRemoved:
    """A directory that could not be removed."""

    reason: str
    """Which one, and why."""
    fault: OSError | None = None
    """What the file system answered; None if the cause is another. Picklable, so that Spark can
    return it: its number decides whether another attempt may succeed."""


def remove_directories(
    warehouse: Warehouse, plan: CleaningPlan, parallel_map: ParallelMap
) -> list[NotRemoved]:
    """Remove the directories of a plan, phase by phase; stop before the next phase at an error.

    Returns:
        What could not be removed and why; empty if everything was.
    """
    remove = RemoveUnchanged(warehouse, plan.products)
    for phase in plan.phases:
        errors = [error for error in parallel_map.map(remove, phase) if error is not None]
        if errors:
            return errors
    return []


@dataclass(frozen=True, slots=True)
class RemoveUnchanged:
    """Removes one directory at a time. Picklable, so that Spark can run it.

    The table may be dropped, created again or moved while it is cleaned: then a path names other
    data than planned. So each time the vacuum's products are looked at first, then the directory.
    """

    warehouse: Warehouse
    products: tuple[ListedDirectory, ...]

    def __call__(self, directory: ListedDirectory) -> NotRemoved | None:
        """Remove a directory; return the error, because the others are still to be removed."""
        try:
            changed = self._changed(directory)
            if changed is None:
                self._remove(directory)
        except OSError as error:
            # a store's own kinds of OSError can't all be pickled, and their numbers mislead
            fault = error if type(error).__module__ == "builtins" else None
            return NotRemoved(readable(f"{directory.name}: {error}"), fault)
        except TidegateError as error:
            return NotRemoved(readable(f"{directory.name}: {error}"))
        return NotRemoved(changed) if changed else None

    def _changed(self, directory: ListedDirectory) -> str | None:
        for product in self.products:
            if files_below(self.warehouse, product.path) != product.files:
                return f"{product.name}, a product of the vacuum, changed since the plan"
        files = files_below(self.warehouse, directory.path)
        if files is not None and not _contains(directory.files, files):
            return f"{directory.name} changed since the plan"
        return None

    def _remove(self, directory: ListedDirectory) -> None:
        self.warehouse.remove_tree(directory.path)
        if directory.has_marker:
            self.warehouse.remove_files([directory.marker_path])


def _contains(planned: Iterable[object], found: Iterable[object]) -> bool:
    """Whether all files found were planned; others may be gone, if another cleaner is at work."""
    return set(found) <= set(planned)
