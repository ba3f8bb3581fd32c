"""From a compaction in the Metastore's queue to what a VacuumFinished says of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidegate.errors import FormatError
from tidegate.events import VacuumKind
from tidegate.hive import (
    AcidDirectory,
    Base,
    Delta,
    ValidWriteIds,
    is_acid_name,
    parse_name,
)
from tidegate.hive_metastore.values import Compaction


@dataclass(frozen=True, slots=True)
class Description:
    """What is said of a compaction beside its holds; it does not change any more.

    Attributes:
        location: The table's root directory.
        directories: The names of what it made, in the table's or the partition's directory; where
            it made nothing, the base of an overwrite that it found.
        min_write_id: The first write id that it compacted.
        max_write_id: The last one.
        valid_write_ids: Its snapshot, as Hive writes it.
    """

    location: str
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    kind: VacuumKind


def products_of(compaction: Compaction, names: Iterable[str]) -> tuple[AcidDirectory, ...]:
    """Find what a compaction made among the names in a directory; empty if nothing is there.

    Hive 4 ends these names with the compaction's transaction. Hive 3 does not; there it is the base
    of the highest write id, or the widest delta up to it that no statement wrote. Where the
    Metastore does not say the highest write id either, see `products_of_hive_3`.
    """
    found = [acid for name in names if (acid := _parsed(name)) is not None]
    of_kind = [each for each in found if isinstance(each, Base) == _is_major(compaction)]
    if compaction.transaction_id is not None:
        return tuple(e for e in of_kind if e.visibility_txn == compaction.transaction_id)
    plain = [e for e in of_kind if e.visibility_txn is None]
    return _widest(e for e in plain if e.max_write_id == compaction.highest_write_id)


def products_of_hive_3(
    compaction: Compaction, names: Iterable[str], compacted_bases: Collection[str]
) -> tuple[AcidDirectory, ...]:
    """Find what the latest compaction of its kind made, where nothing says what it compacted.

    A base that a compaction made has a marker; one of an insert overwrite, which may not have
    committed, does not. A delta that a compaction made covers narrower ones, of which it was made,
    for as long as they are there; a batch of a streaming writer, which is named alike, covers none.

    Args:
        compaction: The entry of the queue.
        names: The names in the directory.
        compacted_bases: Those of the bases with a marker.
    """
    found = [acid for name in names if (acid := _parsed(name)) is not None]
    plain = [e for e in found if e.visibility_txn is None]
    deltas = [e for e in found if isinstance(e, Delta)]
    made: list[AcidDirectory] = (
        [e for e in plain if isinstance(e, Base) and e.name in compacted_bases]
        if _is_major(compaction)
        else [e for e in plain if isinstance(e, Delta) and any(_covers(e, o) for o in deltas)]
    )
    last = max((e.max_write_id for e in made), default=0)
    return _widest(e for e in made if e.max_write_id == last)


def overwrite_of(
    names: Iterable[str], compacted_bases: Collection[str], snapshot: ValidWriteIds
) -> tuple[AcidDirectory, ...]:
    """The base of an INSERT OVERWRITE or a TRUNCATE that readers read, as a tuple of one.

    A compaction that finds nothing to merge is queued for cleaning without a product: what such a
    base replaced is to go. Empty where readers read a compaction's base, whose own cleaning that
    is, or none.

    Args:
        names: The names in the directory.
        compacted_bases: Those of the bases that `compacted_bases` found.
        snapshot: What was valid of the table when the compaction began.
    """
    found: list[tuple[int, bool, Base]] = []
    for name in names:
        if not isinstance(base := _parsed(name), Base):
            continue
        is_compacted = base.visibility_txn is not None or name in compacted_bases
        is_known = base.write_id <= snapshot.high_water_mark
        if is_known if is_compacted else snapshot.is_valid(base.write_id):
            found.append((base.write_id, is_compacted, base))
    _, is_compacted, best = max(found, key=lambda each: each[:2], default=(0, True, None))
    return () if best is None or is_compacted else (best,)


def _widest(found: Iterable[AcidDirectory]) -> tuple[AcidDirectory, ...]:
    """The bases; or the deltas that no statement wrote and that begin first."""
    candidates = tuple(found)
    bases = tuple(e for e in candidates if isinstance(e, Base))
    deltas = [e for e in candidates if isinstance(e, Delta) and e.statement is None]
    merged = [e for e in deltas if e.min_write_id < e.max_write_id]
    first = min((e.min_write_id for e in merged), default=0)
    return bases or tuple(e for e in merged if e.min_write_id == first)


def _covers(wide: Delta, other: Delta) -> bool:
    inside = wide.min_write_id <= other.min_write_id and other.max_write_id <= wide.max_write_id
    return inside and (other.min_write_id, other.max_write_id) != (
        wide.min_write_id,
        wide.max_write_id,
    )


def write_id_range(products: Iterable[AcidDirectory]) -> tuple[int, int]:
    """The first and the last write id that a compaction's products contain; a base has them all."""
    made = tuple(products)
    last = max(each.max_write_id for each in made)
    if any(isinstance(each, Base) for each in made):
        return min(1, last), last
    return min(each.min_write_id for each in made), last


def _is_major(compaction: Compaction) -> bool:
    return compaction.kind is VacuumKind.MAJOR


def _parsed(name: str) -> AcidDirectory | None:
    if not is_acid_name(name):
        return None
    try:
        return parse_name(name)
    except FormatError:
        return None
