"""What one vacuum made obsolete: never what a later one did.

"Everything obsolete now", which Hive and openLooKeng clean, is too much: a reader that began after
this vacuum, and before the next, still reads what the next one replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from tidegate.errors import TidegateError
from tidegate.hive.bases import FoundDirectory
from tidegate.hive.names import AcidDirectory, Base, Delta, parse_name
from tidegate.hive.obsolete import acid_state, always_obsolete
from tidegate.hive.write_ids import CleanerWriteIds, ValidWriteIds


class VacuumMismatch(TidegateError):  # noqa: N818 - an expected answer, not a fault
    """What is said of a vacuum contradicts itself. The catcher refuses it and touches nothing."""


@dataclass(frozen=True, slots=True)
class Vacuum:
    """A compaction: what it made, the write ids it compacted (ends included), its snapshot."""

    products: tuple[AcidDirectory, ...]
    min_write_id: int
    max_write_id: int
    write_ids: CleanerWriteIds
    own_txn: int | None = None

    @classmethod
    def of(  # noqa: PLR0913 - the fields of one event
        cls,
        names: Iterable[str],
        *,
        major: bool,
        min_write_id: int,
        max_write_id: int,
        write_ids: ValidWriteIds,
        own_txn: int | None = None,
    ) -> Self:
        """Take a vacuum's own words, once they agree with each other.

        Raises:
            FormatError: a name is no ACID directory's.
            VacuumMismatch: a product is of the wrong kind or leaves the range, or the range leaves
                the snapshot.
        """
        products = tuple(parse_name(name) for name in names)
        for product in products:
            _check_product(product, min_write_id, max_write_id, major=major)
        if max_write_id > write_ids.high_water_mark:
            raise VacuumMismatch(
                f"it compacted write ids up to {max_write_id}, which its snapshot"
                f" (high-water mark {write_ids.high_water_mark}) could not see"
            )
        snapshot = CleanerWriteIds.of(write_ids)
        return cls(products, min_write_id, max_write_id, snapshot, own_txn)

    @property
    def is_major(self) -> bool:
        """Whether it made a base."""
        return any(isinstance(product, Base) for product in self.products)

    def is_product(self, acid: AcidDirectory) -> bool:
        """Whether a directory is one that this vacuum made.

        A product named without `_vT` is also found under its own transaction's, or under any where
        the vacuum names no transaction.
        """
        return any(self._is(acid, product) for product in self.products)

    def _is(self, acid: AcidDirectory, product: AcidDirectory) -> bool:
        if acid == product:
            return True
        if product.visibility_txn is not None or _plain(acid) != product:
            return False
        return self.own_txn is None or acid.visibility_txn == self.own_txn

    def reaches(self, acid: AcidDirectory) -> bool:
        """Whether a directory lies in the range: for a major vacuum, at or below its end."""
        if acid.max_write_id > self.max_write_id:
            return False
        return self.is_major or acid.min_write_id >= self.min_write_id

    def obsolete(self, found: Sequence[FoundDirectory]) -> tuple[FoundDirectory, ...]:
        """Choose what this vacuum made obsolete: in its range, in every order of the listing.

        A product is never among it, nor a directory in which a write id was still open. A base
        above the high-water mark judges nothing, though Hive's short cut by the least open id lets
        it (HIVE-29601).

        Raises:
            NotEnoughHistory: as `acid_state`.
        """
        return self._choose(found, always_obsolete(self._seen(found), self.write_ids))

    def dead(self, found: Sequence[FoundDirectory]) -> tuple[FoundDirectory, ...]:
        """Choose what lies in its range and holds aborted write ids only: no reader reads that.

        Raises:
            NotEnoughHistory: as `acid_state`.
        """
        return self._choose(found, acid_state(self._seen(found), self.write_ids).aborted)

    def _choose(
        self, found: Sequence[FoundDirectory], names: Iterable[str]
    ) -> tuple[FoundDirectory, ...]:
        chosen = frozenset(names)
        return tuple(each for each in found if each.name in chosen and self._may_go(each.acid))

    def _seen(self, found: Sequence[FoundDirectory]) -> list[FoundDirectory]:
        return [each for each in found if not self._is_later_base(each.acid)]

    def _is_later_base(self, acid: AcidDirectory) -> bool:
        return isinstance(acid, Base) and acid.write_id > self.write_ids.high_water_mark

    def _may_go(self, acid: AcidDirectory) -> bool:
        if isinstance(acid, Delta) and self.write_ids.opens_in(
            acid.min_write_id, acid.max_write_id
        ):
            return False
        return self.reaches(acid) and not self.is_product(acid) and not self._is_newer(acid)

    def _is_newer(self, acid: AcidDirectory) -> bool:
        """Whether a later compaction made it: who reads it began after this vacuum's readers."""
        if self.own_txn is None or acid.visibility_txn is None:
            return False
        return acid.visibility_txn > self.own_txn


def covers(product: AcidDirectory, acid: AcidDirectory) -> bool:
    """Whether `product` holds all that `acid` does: its range, and its kind of events."""
    if product.max_write_id < acid.max_write_id or product.min_write_id > acid.min_write_id:
        return False
    if isinstance(product, Base):
        return True
    return isinstance(acid, Delta) and acid.deletes == product.deletes


def _plain(acid: AcidDirectory) -> AcidDirectory:
    if isinstance(acid, Base):
        return Base(acid.write_id)
    return Delta(acid.min_write_id, acid.max_write_id, acid.statement, deletes=acid.deletes)


def _check_product(product: AcidDirectory, low: int, high: int, *, major: bool) -> None:
    if isinstance(product, Base) != major:
        raise VacuumMismatch(f"{product.name} is no product of a {_kind(major=major)} vacuum")
    if isinstance(product, Delta) and product.statement is not None:
        raise VacuumMismatch(f"{product.name} is a statement's directory, not a vacuum's")
    starts_low = isinstance(product, Delta) and product.min_write_id < low
    if product.max_write_id > high or starts_low:
        raise VacuumMismatch(f"{product.name} leaves the range {low} to {high} of its vacuum")


def _kind(*, major: bool) -> str:
    return "major" if major else "minor"
