"""Which directories a directory hides: a reader of the first skips the others.

A reader's snapshot decides whether it sees a compaction's product (`_vT` is its transaction). A
reader that sees and can use the product reads it instead of all directories that it hides. A reader
that does not see it began before the compaction, and reads the others. So after hidden directories
are put back, no reader sees a row twice, with any snapshot.
"""

from __future__ import annotations

from tidegate.hive.bases import FoundDirectory, is_compacted
from tidegate.hive.names import Base, Delta


def hides(product: FoundDirectory, found: FoundDirectory) -> bool:
    """Whether every reader that can use `product` skips `found`, with any other directories.

    A base hides every delta up to its write id and every lower base. Of two compacted bases with
    the same write id, neither hides the other. A compaction's delta hides the deltas in its range,
    both of inserts and of deletes. It hides neither a base nor a delta of exactly its range without
    a statement, because getAcidState reads both.
    """
    if isinstance(product.acid, Base):
        return _base_hides(product, found)
    acid, wide = found.acid, product.acid
    if isinstance(acid, Base) or wide.statement is not None:
        return False
    if acid.min_write_id < wide.min_write_id or acid.max_write_id > wide.max_write_id:
        return False
    same = (acid.min_write_id, acid.max_write_id) == (wide.min_write_id, wide.max_write_id)
    return not same or acid.statement is not None


def _base_hides(product: FoundDirectory, found: FoundDirectory) -> bool:
    write_id, last = product.acid.max_write_id, found.acid.max_write_id
    if isinstance(found.acid, Delta):
        return last <= write_id
    return last < write_id or (last == write_id and is_compacted(product) > is_compacted(found))
