"""Checks that a vacuum's products are complete and contain everything to be removed. Pure.

Products are the directories that the vacuum (in Hive: the compaction) wrote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Self

from tidegate.cleaning.listing import ListedDirectory
from tidegate.events.reasons import Reason
from tidegate.hive.compaction import Compaction, covers
from tidegate.hive.names import AcidDirectory, Base, Delta
from tidegate.hive.obsolete import (
    DATA_FORMAT_FILE,
    FoundDirectory,
    NotEnoughHistory,
    acid_state,
    is_compacted,
    is_of_compaction,
)
from tidegate.hive.write_ids import RangeResponse, ValidWriteIds
from tidegate.storage.file_info import ListedFile
from tidegate.tables.refusal import Refused

_VERSION_FILE: Final = "_orc_acid_version"
_BUCKET: Final = re.compile(r"(bucket_[0-9]+)(_[0-9]+)?")
"""Names of the data files of full ACID tables: each bucket of a table has its own."""
_BUCKET_FILE: Final = re.compile(
    r"(bucket_[0-9]+(_[0-9]+)?|[0-9]+_[0-9]+(_copy_[0-9]+)?)"
    r"(\.(gz|bz2|deflate|snappy|lz4|lzo|lzo_deflate|zst|zstd))?(\.(orc|parquet|avro|txt))?"
)
"""Names of data files; insert-only tables may be compressed, or name their format."""


class AcidEntry(NamedTuple):
    """An ACID directory with its parsed name and its files."""

    listed: ListedDirectory
    found: FoundDirectory

    @classmethod
    def parse(cls, listed: ListedDirectory) -> Self:
        """Parse the name and, for a base, the file that names its writer.

        Raises:
            FormatError: the name is not the name of an ACID directory, or that file is not Hive's.
        """
        found = FoundDirectory.named(listed.name)
        if isinstance(found.acid, Base) and listed.data_format is not None:
            found = found._replace(compacted=is_of_compaction(listed.data_format))
        return cls(listed, found)

    @property
    def name(self) -> str:
        """The name as it was found."""
        return self.listed.name

    @property
    def acid(self) -> AcidDirectory:
        """The parsed name."""
        return self.found.acid

    @property
    def deletes(self) -> bool:
        """Whether it is a delete delta."""
        return isinstance(self.acid, Delta) and self.acid.deletes

    @property
    def is_of_truncate(self) -> bool:
        """Whether a TRUNCATE wrote this base: readers see it, if it committed, by its marker."""
        return self.listed.data_format is not None and not self.found.compacted

    @property
    def is_overwrite(self) -> bool:
        """Whether an INSERT OVERWRITE or a TRUNCATE wrote this base."""
        return isinstance(self.acid, Base) and not is_compacted(self.found)

    @property
    def has_rows(self) -> bool:
        """Whether it contains a bucket file."""
        return any(
            _BUCKET_FILE.fullmatch(file.name) and _has_content(file) for file in self.listed.files
        )

    @property
    def buckets(self) -> frozenset[str]:
        """The buckets of a full ACID table that it has rows of; empty where the table has none."""
        names = (_BUCKET.fullmatch(file.name) for file in self.bucket_files)
        return frozenset(name[1] for name in names if name)

    @property
    def bucket_files(self) -> tuple[ListedFile, ...]:
        """The data files of a full ACID table; empty where the table has none."""
        return tuple(f for f in self.listed.files if _BUCKET.fullmatch(f.name) and _has_content(f))

    @property
    def is_empty_base(self) -> bool:
        """Whether this is the base of a table without rows, as Hive writes it.

        It contains the version file and, from Hive 3's compactor, a marker. Without the version
        file readers would not see the base: they would read the deltas instead, and deleted rows
        would be back once the first delete delta is removed.
        """
        files = [file for file in self.listed.files if not file.name.startswith(".")]
        expected = all(_is_file(file, _VERSION_FILE, DATA_FORMAT_FILE) for file in files)
        has_version = any(file.name == _VERSION_FILE for file in files)
        return isinstance(self.acid, Base) and expected and has_version

    @property
    def is_complete(self) -> bool:
        """Whether readers see it: with a bucket file, or as an empty base."""
        return self.has_rows or self.is_empty_base


def complete_products(compaction: Compaction, entries: Iterable[AcidEntry]) -> list[AcidEntry]:
    """Choose the products that exist and are complete.

    A minor vacuum's event may name a delta and a delete delta though there was only one kind of
    events to compact, so one of the two may be missing or empty. If it is needed after all,
    `check_covered` finds that no product contains what would be removed.

    Raises:
        Refused: PRODUCTS_MISSING or PRODUCTS_INCOMPLETE, if none is complete.
    """
    products = [entry for entry in entries if compaction.is_product(entry.acid)]
    complete = [product for product in products if _counts(product, compaction.write_ids)]
    if complete:
        return complete
    if products:
        fault = "has no bucket file"
        if products[0].is_of_truncate:
            fault = "was written by a TRUNCATE that has not committed"
        raise Refused(Reason.PRODUCTS_INCOMPLETE, f"{products[0].name} {fault}")
    raise Refused(Reason.PRODUCTS_MISSING, f"{compaction.products[0].name} does not exist")


def _counts(product: AcidEntry, snapshot: ValidWriteIds) -> bool:
    """Whether readers read it: a TRUNCATE's base has no bucket, and may not have committed."""
    if product.is_of_truncate:
        return snapshot.is_valid(product.acid.max_write_id)
    return product.is_complete


def visible_overwrite(found: FoundDirectory, entries: Iterable[AcidEntry]) -> AcidEntry:
    """The base of an overwrite on which a compaction builds.

    Raises:
        Refused: PRODUCTS_INCOMPLETE: readers don't see it.
    """
    entry = next(entry for entry in entries if entry.name == found.name)
    if entry.is_complete or entry.is_of_truncate:
        return entry
    raise Refused(Reason.PRODUCTS_INCOMPLETE, f"{entry.name} has no bucket file")


def check_covered(obsolete: Iterable[FoundDirectory], products: Sequence[AcidEntry]) -> None:
    """Check that the vacuum's products contain all that it made obsolete.

    Raises:
        Refused: NOT_COVERED: no complete product contains one of them.
    """
    acids = [product.acid for product in products]
    for directory in obsolete:
        for product in acids:
            if covers(product, directory.acid):
                break
        else:
            raise Refused(
                Reason.NOT_COVERED,
                f"{directory.name} is obsolete, but none of the vacuum's products contains it",
            )


def check_empty_base(
    products: Iterable[AcidEntry], entries: Sequence[AcidEntry], obsolete: Collection[str]
) -> None:
    """Check that the rows which an empty base replaces were deleted or overwritten.

    Args:
        products: The vacuum's complete products.
        entries: All entries of the directory.
        obsolete: The names of the directories that the vacuum made obsolete.

    Raises:
        Refused: PRODUCTS_INCOMPLETE: nothing deleted the rows, so they must have been lost.
    """
    if not any(product.is_empty_base and not product.is_of_truncate for product in products):
        return
    replaced = [entry for entry in entries if entry.name in obsolete]
    if any(entry.deletes for entry in replaced):
        return
    # an insert overwrite of nothing leaves an empty base, below which no rows were left to compact
    empty_bases = [entry.acid.max_write_id for entry in replaced if entry.is_empty_base]
    overwritten = max(empty_bases, default=None)
    for entry in replaced:
        if entry.has_rows and (overwritten is None or entry.acid.max_write_id > overwritten):
            raise Refused(
                Reason.PRODUCTS_INCOMPLETE,
                f"the vacuum's base is empty, but nothing deletes the rows of {entry.name}",
            )


def check_every_bucket(
    products: Sequence[AcidEntry], replaced: Sequence[AcidEntry], snapshot: ValidWriteIds
) -> None:
    """Check that the products have every bucket that the directories have which they replace.

    A bucket is not missed where its rows may all be gone by what the names show: aborted, deleted
    by a delete delta that a base replaces too, or overwritten.

    Args:
        products: The vacuum's complete products.
        replaced: What it made obsolete.
        snapshot: Its snapshot.

    Raises:
        Refused: PRODUCTS_INCOMPLETE: the vacuum may not be at its end.
    """
    deletes = [entry for entry in replaced if entry.deletes]
    deleted = frozenset(bucket for entry in deletes for bucket in entry.buckets)
    overwrites = (e.acid.max_write_id for e in (*products, *replaced) if e.is_overwrite)
    overwritten = max(overwrites, default=0)
    for entry in replaced:
        low, high = entry.acid.written_by
        if high < overwritten or snapshot.aborted_in(low, high) is not RangeResponse.NONE:
            continue
        covering = [product for product in products if covers(product.acid, entry.acid)]
        by_base = any(isinstance(product.acid, Base) for product in covering)
        made = frozenset(bucket for product in covering for bucket in product.buckets)
        if by_base:
            made |= deleted
        if missing := entry.buckets - made:
            raise Refused(
                Reason.PRODUCTS_INCOMPLETE,
                f"{entry.name} has {min(missing)}, which none of the vacuum's products has",
            )


def rows_needed(
    products: Sequence[AcidEntry], replaced: Sequence[AcidEntry], snapshot: ValidWriteIds
) -> tuple[list[AcidEntry], list[AcidEntry]]:
    """The directories whose rows must be in the products, and those that may delete some of them.

    The products have at least as many rows as the first ones, less those of the second ones.

    Args:
        products: The vacuum's complete products.
        replaced: What it made obsolete.
        snapshot: Its snapshot.
    """
    overwritten = max((e.acid.max_write_id for e in products if e.is_overwrite), default=0)
    entries = [entry for entry in replaced if entry.acid.max_write_id > overwritten]
    try:
        state = acid_state([entry.found for entry in entries], snapshot)
    except NotEnoughHistory:
        return [], []
    read = [entry for entry in entries if entry.name in {state.base, *state.current}]
    by_base = any(isinstance(product.acid, Base) for product in products)
    deletes = [entry for entry in read if entry.deletes and by_base]  # a delta has all rows
    rows = [
        entry
        for entry in read
        if not entry.deletes
        and snapshot.aborted_in(entry.acid.min_write_id, entry.acid.max_write_id)
        is RangeResponse.NONE
    ]
    return rows, deletes


def aborted_within(aborted: Iterable[FoundDirectory], products: Sequence[AcidEntry]) -> list[str]:
    """Name the directories with aborted rows only that lie in a product's range of write ids.

    No product contains those rows, because readers never see them.
    """
    return [
        directory.name
        for directory in aborted
        if any(_spans(product.acid, directory.acid) for product in products)
    ]


def _spans(product: AcidDirectory, acid: AcidDirectory) -> bool:
    low, high = product.min_write_id, product.max_write_id
    return low <= acid.min_write_id and acid.max_write_id <= high


def _is_file(file: ListedFile, *names: str) -> bool:
    return file.name in names and _has_content(file)


def _has_content(file: ListedFile) -> bool:
    return file.size > 0 and not file.is_link
