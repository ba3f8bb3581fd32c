"""Which directories one compaction made obsolete, excluding those of later compactions.

Hive and openLooKeng remove everything that is obsolete now. That is too much: a reader that started
between two compactions still reads the directories that the second one replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, Self

from tidegate.errors import TidegateError
from tidegate.hive.names import AcidDirectory, Base, Delta, parse_name
from tidegate.hive.obsolete import FoundDirectory, is_compacted, settled_state
from tidegate.hive.write_ids import CleanerWriteIds, ValidWriteIds

_MOST_PRODUCTS: Final = 2
_MAJOR: Final = "major"


class InconsistentCompaction(TidegateError):  # noqa: N818 - expected, not a fault
    """Kind, range, products and snapshot contradict each other. The catcher changes nothing."""


class _Vacuum(Protocol):
    """A compaction as events describe it."""

    @property
    def kind(self) -> str: ...
    @property
    def directories(self) -> tuple[str, ...]: ...
    @property
    def min_write_id(self) -> int: ...
    @property
    def max_write_id(self) -> int: ...
    @property
    def own_transaction_id(self) -> int | None: ...


class _Removable(NamedTuple):
    """What may go once the readers from before a compaction have ended.

    Attributes:
        obsolete: What the compaction replaced, and what `overwrite` did.
        aborted: Directories with aborted write ids only, of the compaction's range.
        failed: Directories of compactions that aborted, up to the compaction's last write id.
        overwrite: The base of an INSERT OVERWRITE or a TRUNCATE that the compaction found, and on
            which it builds. No compaction of its own follows it, so the next one's cleaning does
            its work: readers from before the overwrite are from before the compaction too.
    """

    obsolete: tuple[FoundDirectory, ...]
    aborted: tuple[FoundDirectory, ...]
    overwrite: FoundDirectory | None = None
    failed: tuple[FoundDirectory, ...] = ()


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction that finished.

    Attributes:
        products: The directories that it wrote.
        min_write_id: The first write id that it compacted.
        max_write_id: The last write id that it compacted.
        write_ids: Its snapshot, as a cleaner's list.
        own_txn: Its transaction, if known; in Hive 4, the names of its products end with it.
    """

    products: tuple[AcidDirectory, ...]
    min_write_id: int
    max_write_id: int
    write_ids: CleanerWriteIds
    own_txn: int | None = None

    @classmethod
    def of(cls, vacuum: _Vacuum, write_ids: ValidWriteIds) -> Self:
        """Check the fields of a compaction, and parse the names of its products.

        Raises:
            FormatError: a name in `directories` is not the name of an ACID directory.
            InconsistentCompaction: a product contradicts the kind or the range, or the range
                exceeds the snapshot.
        """
        first, last = vacuum.min_write_id, vacuum.max_write_id
        products = tuple(dict.fromkeys(map(parse_name, vacuum.directories)))
        if len(products) > _MOST_PRODUCTS:
            raise InconsistentCompaction(
                f"it names {len(products)} directories; a vacuum writes at most {_MOST_PRODUCTS}:"
                " a base, or a delta and a delete delta"
            )
        for product in products:
            _check_product(product, vacuum)
        if last > write_ids.high_water_mark:
            raise InconsistentCompaction(
                f"it compacted write ids up to {last}, but the high-water mark of its snapshot is"
                f" {write_ids.high_water_mark}"
            )
        snapshot = CleanerWriteIds.of(write_ids)
        return cls(products, first, last, snapshot, vacuum.own_transaction_id)

    @property
    def is_major(self) -> bool:
        """Whether it wrote a base."""
        return any(isinstance(product, Base) for product in self.products)

    def is_product(self, acid: AcidDirectory) -> bool:
        """Whether this compaction wrote a directory.

        A product given without `_vT` also matches with the `_vT` of `own_txn`, or with any `_vT` if
        `own_txn` is unknown.
        """
        return any(self._is(acid, product) for product in self.products)

    def _is(self, acid: AcidDirectory, product: AcidDirectory) -> bool:
        if acid == product:
            return True
        if product.visibility_txn is not None or _plain(acid) != product:
            return False
        return self.own_txn is None or acid.visibility_txn == self.own_txn

    def reaches(self, acid: AcidDirectory) -> bool:
        """Whether a directory is in the compacted range; a major compaction's has no lower end."""
        if acid.max_write_id > self.max_write_id:
            return False
        return self.is_major or acid.min_write_id >= self.min_write_id

    def removable(
        self, found: Sequence[FoundDirectory], aborted_txns: Collection[int] = ()
    ) -> _Removable:
        """Choose the directories that this compaction made obsolete, and the aborted ones in range.

        The result does not depend on the order of the listing. It never contains a product, or a
        directory in which a write id was still open. A base above the high-water mark makes nothing
        obsolete, although Hive's shortcut by the least open id would allow that (HIVE-29601).

        Args:
            found: The directories of the table or partition.
            aborted_txns: Transactions known to have aborted: no reader reads their `_vT`.

        Raises:
            NotEnoughHistory: as `settled_state`.
        """
        failed = tuple(one for one in found if one.acid.visibility_txn in aborted_txns)
        found = [one for one in found if one.acid.visibility_txn not in aborted_txns]
        considered = self._considered(found)
        state = settled_state(considered, self.write_ids)
        overwrite = next((b for b in considered if b.name == state.base), None)
        if overwrite is not None and not self._builds_on(overwrite):
            overwrite = None
        obsolete = self._choose(found, state.obsolete, overwrite)
        failed = tuple(one for one in failed if one.acid.max_write_id <= self.max_write_id)
        return _Removable(obsolete, self._choose(found, state.aborted), overwrite, failed)

    def _builds_on(self, base: FoundDirectory) -> bool:
        """Whether a base is of an overwrite that had committed when the compaction began."""
        if is_compacted(base) or base.acid.max_write_id > self.max_write_id:
            return False
        return self.write_ids.is_valid(base.acid.max_write_id)

    def _choose(
        self,
        found: Sequence[FoundDirectory],
        names: Iterable[str],
        overwrite: FoundDirectory | None = None,
    ) -> tuple[FoundDirectory, ...]:
        chosen = frozenset(names)
        if not chosen:
            return ()
        below = 0 if overwrite is None else overwrite.acid.max_write_id
        return tuple(
            directory
            for directory in found
            if directory.name in chosen and self._may_go(directory.acid, below)
        )

    def _considered(self, found: Sequence[FoundDirectory]) -> list[FoundDirectory]:
        """Omit later bases; mark the products, because names of Hive 3 do not show them.

        An unmarked base without `_vT` with an aborted write id would count as an aborted insert
        overwrite.
        """
        return [
            directory._replace(compacted=True) if self.is_product(directory.acid) else directory
            for directory in found
            if isinstance(directory.acid, Delta) or not self._is_later_base(directory)
        ]

    def _is_later_base(self, found: FoundDirectory) -> bool:
        """Whether a base was written later: above the snapshot, or compacted above the range.

        A later compaction's base may contain ids that were open in the snapshot, so the snapshot
        can't be read from it. That does not contradict this compaction.
        """
        if not isinstance(found.acid, Base):
            return False
        above_range = found.acid.write_id > self.max_write_id and is_compacted(found)
        return above_range or found.acid.write_id > self.write_ids.high_water_mark

    def _may_go(self, acid: AcidDirectory, below: int) -> bool:
        if self.write_ids.opens_in(*acid.written_by):
            return False
        if acid.max_write_id > below and not self.reaches(acid):
            return False
        return not self.is_product(acid) and not self._is_newer(acid)

    def _is_newer(self, acid: AcidDirectory) -> bool:
        """Whether a later compaction wrote it: its readers were not among the awaited ones."""
        if self.own_txn is None or acid.visibility_txn is None:
            return False
        return acid.visibility_txn > self.own_txn


def covers(product: AcidDirectory, acid: AcidDirectory) -> bool:
    """Whether `product` contains all rows or events of `acid`, by range and kind of events."""
    if product.max_write_id < acid.max_write_id or product.min_write_id > acid.min_write_id:
        return False
    if isinstance(product, Base):
        return True
    return isinstance(acid, Delta) and acid.deletes == product.deletes


def _plain(acid: AcidDirectory) -> AcidDirectory:
    if isinstance(acid, Base):
        return Base(acid.write_id)
    return Delta(acid.min_write_id, acid.max_write_id, acid.statement, deletes=acid.deletes)


def _check_product(product: AcidDirectory, vacuum: _Vacuum) -> None:
    low, high = vacuum.min_write_id, vacuum.max_write_id
    if isinstance(product, Base) != (vacuum.kind == _MAJOR):
        raise InconsistentCompaction(f"a {vacuum.kind} vacuum does not write {product.name}")
    if isinstance(product, Delta) and product.statement is not None:
        raise InconsistentCompaction(f"{product.name} was written by a statement, not by a vacuum")
    starts_low = isinstance(product, Delta) and product.min_write_id < low
    if product.max_write_id > high or starts_low:
        raise InconsistentCompaction(
            f"{product.name} exceeds the vacuum's range of write ids {low} to {high}"
        )
