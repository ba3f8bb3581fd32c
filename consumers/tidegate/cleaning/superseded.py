"""Finds out whether a later vacuum has replaced the work of an earlier one. Pure.

A later vacuum's cleaning removes the earlier one's products together with all that they replaced.
If it came first, the earlier vacuum has nothing left to do: it is superseded. While it is under
way, its result is unknown, so the earlier one waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.cleaning.products import AcidEntry
from tidegate.errors import TransientError
from tidegate.hive import AcidDirectory, Base, Compaction, Delta, covers


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
