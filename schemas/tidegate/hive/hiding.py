"""Which directory hides which: whoever reads with the first passes over the second.

A reader's snapshot decides whether it sees a compaction's product (`_vT` is its transaction). One
that sees it and can use it reads it instead of all that it hides; one that does not see it began
before the compaction, and reads the others. So putting back what a product hides shows no row
twice, whatever the snapshot.
"""

from __future__ import annotations

from tidegate.hive.bases import FoundDirectory, is_compacted
from tidegate.hive.names import Base, Delta


def hides(product: FoundDirectory, found: FoundDirectory) -> bool:
    """Whether `found` adds nothing for any reader that can use `product`, whatever else is there.

    A base hides every delta up to its write id, and every lesser base; of two compacted bases of
    one write id neither hides the other. A compaction's delta hides the deltas in its range, of
    inserts and of deletes alike, but neither a base nor a delta of its very range without a
    statement: getAcidState takes both.
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
