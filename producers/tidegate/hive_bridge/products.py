"""Find the directories that a compaction in the Metastore's queue made. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Self

from tidegate.errors import FormatError
from tidegate.events import VacuumFinished, VacuumKind
from tidegate.hive.compaction import Compaction, covers
from tidegate.hive.names import AcidDirectory, Base, Delta, is_acid_name, parse_name
from tidegate.hive.obsolete import FoundDirectory, is_compacted, settled_state
from tidegate.hive.write_ids import CleanerWriteIds, ValidTxns, ValidWriteIds
from tidegate.hive_metastore.values import QueueEntry


@dataclass(frozen=True, slots=True)
class VacuumFields:
    """The fields of a VacuumFinished except its holds. They are final.

    Attributes:
        location: The table's root directory.
        directories: Names of the directories that it made in the table's or partition's directory;
            if it made none, those that it found in place of others. Empty: nothing is obsolete.
        min_write_id: The first write id that it compacted.
        max_write_id: The last write id that it compacted.
        valid_write_ids: Its snapshot, in Hive's text format.
        own_transaction_id: Its transaction, if it is known and made the directories.
    """

    location: str
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    kind: VacuumKind
    own_transaction_id: int | None = None

    @classmethod
    def of(cls, event: VacuumFinished) -> Self:
        """Take the fields from an event."""
        return cls(**{field.name: getattr(event, field.name) for field in fields(cls)})

    def covers(self, other: VacuumFields) -> bool:
        """Whether this vacuum's cleaning also does the other's: it compacted at least as much."""
        if self.max_write_id < other.max_write_id:
            return False
        if self.kind is VacuumKind.MAJOR:
            return True
        return other.kind is VacuumKind.MINOR and self.min_write_id <= other.min_write_id

    def compaction(self) -> Compaction:
        """The same, to find out what it made obsolete.

        Raises:
            FormatError: the snapshot or a directory's name is not Hive's.
            InconsistentCompaction: the fields contradict each other.
        """
        return Compaction.of(self, ValidWriteIds.parse(self.valid_write_ids))


def products_of(compaction: QueueEntry, names: Iterable[str]) -> tuple[AcidDirectory, ...]:
    """Find the directories that a compaction made, among these names; may be empty.

    In Hive 4 these names end with the compaction's transaction. In Hive 3 they don't: there it is
    the base of the highest write id, or the widest delta that ends with it and that no statement
    wrote. If the Metastore does not report the highest write id, use `products_of_hive_3`.
    """
    found = [acid for name in names if (acid := _parsed(name)) is not None]
    of_kind = [acid for acid in found if isinstance(acid, Base) == _is_major(compaction)]
    if compaction.transaction_id is not None:
        return tuple(e for e in of_kind if e.visibility_txn == compaction.transaction_id)
    plain = [e for e in of_kind if e.visibility_txn is None]
    return _widest(e for e in plain if e.max_write_id == compaction.highest_write_id)


def products_of_hive_3(
    compaction: QueueEntry, names: Iterable[str], compacted_bases: Collection[str]
) -> tuple[AcidDirectory, ...]:
    """Find the directories of the latest compaction of its kind, without its highest write id.

    A compaction's base has a marker. The base of an insert overwrite, which may be uncommitted, has
    no marker. A compaction's delta covers the narrower deltas that it merged, while those are still
    there. The delta of a streaming writer's batch has a similar name, but covers no other delta.

    Args:
        compaction: The compaction.
        names: The names in the directory.
        compacted_bases: The names of the bases with a marker.
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


def present_of(
    found: Sequence[FoundDirectory], snapshot: ValidWriteIds, transactions: ValidTxns
) -> tuple[AcidDirectory, ...]:
    """The directories that readers read now, in place of others that are still there.

    A compaction that finds nothing to merge is queued for cleaning without a product: what an
    overwrite or an earlier compaction replaced is to go.

    Args:
        found: The directories of the table or partition.
        snapshot: What was valid of the table when the compaction began.
        transactions: The valid transactions now.

    Returns:
        A base; or a delta, with the delete delta of the same range; or nothing, where nothing is
        obsolete.

    Raises:
        NotEnoughHistory: the snapshot can't be read from these directories.
    """
    known = [
        entry
        for entry in found
        if _is_known(entry, snapshot) and not is_of_failed_compaction(entry, transactions)
    ]
    state = settled_state(known, CleanerWriteIds.of(snapshot))
    obsolete = [entry.acid for entry in known if entry.name in state.obsolete]
    current = (state.base, *state.current)
    for entry in sorted(known, key=lambda entry: not isinstance(entry.acid, Base)):
        if entry.name in current and any(covers(entry.acid, other) for other in obsolete):
            low, high = entry.acid.min_write_id, entry.acid.max_write_id
            same = (one.acid for one in known if one.name in current)
            return tuple(
                one
                for one in same
                if isinstance(one, Base) == isinstance(entry.acid, Base)
                and (one.min_write_id, one.max_write_id) == (low, high)
            )
    return ()


def is_of_failed_compaction(found: FoundDirectory, transactions: ValidTxns) -> bool:
    """Whether a compaction wrote it that aborted, or that has not committed yet."""
    txn = found.acid.visibility_txn
    return txn is not None and not transactions.is_valid(txn)


def _is_known(found: FoundDirectory, snapshot: ValidWriteIds) -> bool:
    """Whether it is of the snapshot. Hive takes the base of the lowest open id too (HIVE-29601)."""
    last = found.acid.max_write_id
    if isinstance(found.acid, Base) and not is_compacted(found):
        return snapshot.is_valid(last)
    return last <= snapshot.high_water_mark


def _widest(found: Iterable[AcidDirectory]) -> tuple[AcidDirectory, ...]:
    """The bases; or else the deltas with the lowest first write id that no statement wrote."""
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
    """The first and the last write id in a compaction's products; a base begins with 1."""
    made = tuple(products)
    last = max(product.max_write_id for product in made)
    if any(isinstance(product, Base) for product in made):
        return min(1, last), last
    return min(product.min_write_id for product in made), last


def _is_major(compaction: QueueEntry) -> bool:
    return compaction.kind is VacuumKind.MAJOR


def _parsed(name: str) -> AcidDirectory | None:
    if not is_acid_name(name):
        return None
    try:
        return parse_name(name)
    except FormatError:
        return None
