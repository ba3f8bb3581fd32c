"""The products of a vacuum: whether they are there, and what they hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from tidegate.cleaning.listing import ListedDirectory
from tidegate.hive import AcidDirectory, Base, Delta, FoundDirectory, Vacuum
from tidegate.hive.vacuum import covers
from tidegate.refusals import Refused

_VERSION_FILE: Final = "_orc_acid_version"
_BUCKET_FILE: Final = re.compile(r"bucket_[0-9]+(_[0-9]+)?|[0-9]+_[0-9]+(_copy_[0-9]+)?")


def whole_products(
    vacuum: Vacuum, listing: Iterable[ListedDirectory], found: Sequence[FoundDirectory]
) -> list[AcidDirectory]:
    """Choose the products that are there, each with a bucket file, or a base of no rows.

    A delete delta may be empty or absent, when there was no delete to compact: if there was one
    after all, it is not covered.

    Raises:
        Refused: a product of another kind lacks.
    """
    pairs = zip(listing, found, strict=True)
    filled = [each.acid for entry, each in pairs if _has_bucket(entry) or is_emptied(entry, each)]
    whole = [acid for acid in filled if vacuum.is_product(acid)]
    for product in vacuum.products:
        may_lack = isinstance(product, Delta) and product.deletes
        if not may_lack and not any(covers(acid, product) for acid in whole):
            _check_overtaken(product, vacuum, found, filled)
    return whole


def _check_overtaken(
    product: AcidDirectory,
    vacuum: Vacuum,
    found: Iterable[FoundDirectory],
    filled: Iterable[AcidDirectory],
) -> None:
    """A product may lack once a later vacuum's cleaning took it, and all below it, away."""
    if any(vacuum.is_product(each.acid) and covers(each.acid, product) for each in found):
        raise Refused("products-incomplete", f"{product.name} holds no bucket file")
    left = next((each.name for each in found if vacuum.reaches(each.acid)), None)
    if left is not None or not any(covers(acid, product) for acid in filled):
        raise Refused("products-missing", f"{product.name} is not there")


def is_emptied(entry: ListedDirectory, found: FoundDirectory) -> bool:
    """Whether this is the base of a table without rows, as Hive's compactor leaves it.

    Its version file alone is there. Without that file no reader would see the base: it would read
    on from the deltas, and deleted rows would be back as soon as the first delete delta went.
    """
    files = [file for file in entry.files if not file.name.startswith(".")]
    alone = [file.name for file in files] == [_VERSION_FILE]
    return isinstance(found.acid, Base) and alone and files[0].size > 0 and not files[0].is_link


def check_emptied(
    vacuum: Vacuum,
    listing: Sequence[ListedDirectory],
    found: Sequence[FoundDirectory],
    obsolete: Collection[str],
) -> None:
    """A base of no rows replaces rows only together with what deleted them.

    Raises:
        Refused: without one delete, the rows must have got lost.
    """
    pairs = list(zip(listing, found, strict=True))
    if not any(vacuum.is_product(each.acid) and is_emptied(entry, each) for entry, each in pairs):
        return
    gone = [(entry, each.acid) for entry, each in pairs if each.name in obsolete]
    if any(isinstance(acid, Delta) and acid.deletes for _, acid in gone):
        return
    if left := next((entry.name for entry, _ in gone if _has_bucket(entry)), None):
        raise Refused("products-incomplete", f"the base is empty, but nothing deleted {left}")


def _has_bucket(entry: ListedDirectory) -> bool:
    return any(
        _BUCKET_FILE.fullmatch(file.name) and file.size > 0 and not file.is_link
        for file in entry.files
    )


def covered(
    vacuum: Vacuum, found: Sequence[FoundDirectory], whole: Sequence[AcidDirectory]
) -> list[str]:
    """Name what the vacuum made obsolete.

    Raises:
        Refused: no product in `whole` holds one of it.
    """
    obsolete = vacuum.obsolete(found)
    for each in obsolete:
        if not any(covers(product, each.acid) for product in whole):
            raise Refused("not-covered", f"{each.name} is obsolete, but no product here holds it")
    return [each.name for each in obsolete]


def dead(
    vacuum: Vacuum, found: Sequence[FoundDirectory], whole: Sequence[AcidDirectory]
) -> list[str]:
    """Name what holds aborted rows only: no product holds those, one spans their write ids."""
    return [
        each.name
        for each in vacuum.dead(found)
        if any(_spans(product, each.acid) for product in whole)
    ]


def _spans(product: AcidDirectory, acid: AcidDirectory) -> bool:
    low, high = product.min_write_id, product.max_write_id
    return low <= acid.min_write_id and acid.max_write_id <= high
