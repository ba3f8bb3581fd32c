"""The names of ACID directories, and the values they stand for.

    base_W[_vT]                              one file a bucket, every row up to write id W
    [delete_]delta_MIN_MAX[_STATEMENT][_vT]  the events of the write ids MIN to MAX

Ids are Java longs. `T` is the transaction that made the directory visible: only compactions carry
one. Hive writes ids with at least seven digits and statements with four, and reads any number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tidegate.errors import FormatError

_LONG_MAX: Final = 2**63 - 1
_LONG_MIN: Final = -(2**63)
_INT_MAX: Final = 2**31 - 1
_PREFIXES: Final = ("base_", "delta_", "delete_delta_")
_BASE: Final = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?")
_DELTA: Final = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Base:
    """Every row as of `write_id`: a major compaction's, or an insert overwrite's.

    The least Java long is the base that Hive makes of a table that was not ACID before.
    """

    write_id: int
    visibility_txn: int | None = None

    @property
    def min_write_id(self) -> int:
        """A base covers everything below it."""
        return _LONG_MIN

    @property
    def max_write_id(self) -> int:
        """The same as `write_id`, so that bases and deltas can be asked alike."""
        return self.write_id

    @property
    def name(self) -> str:
        """The directory's name as Hive writes it."""
        return f"base_{self.write_id:07d}{_visibility(self.visibility_txn)}"


@dataclass(frozen=True, slots=True)
class Delta:
    """The insert events, or with `deletes` the delete events, of a range of write ids.

    `statement` numbers the statements of one transaction; a compaction's delta has none.
    """

    min_write_id: int
    max_write_id: int
    statement: int | None = None
    visibility_txn: int | None = None
    deletes: bool = False

    @property
    def name(self) -> str:
        """The directory's name as Hive writes it."""
        prefix = "delete_delta" if self.deletes else "delta"
        statement = "" if self.statement is None else f"_{self.statement:04d}"
        ids = f"{self.min_write_id:07d}_{self.max_write_id:07d}"
        return f"{prefix}_{ids}{statement}{_visibility(self.visibility_txn)}"


AcidDirectory = Base | Delta


def is_acid_name(name: str) -> bool:
    """Whether Hive would try to parse this name as an ACID directory's."""
    return name.startswith(_PREFIXES)


def parse_name(name: str) -> AcidDirectory:
    """Parse a directory's name; the inverse of `.name` (up to leading zeros).

    Raises:
        FormatError: it is no ACID directory's name. Hive fails the whole call then. Stricter than
            Hive: a sign is taken on a base only, and MIN may not lie above MAX.
    """
    if base := _BASE.fullmatch(name):
        write_id, txn = int(base[1]), _optional(base[2])
        if _LONG_MIN <= write_id <= _LONG_MAX and _fits(txn):
            return Base(write_id, txn)
    elif delta := _DELTA.fullmatch(name):
        low, high = int(delta[2]), int(delta[3])
        statement, txn = _optional(delta[4]), _optional(delta[5])
        if low <= high <= _LONG_MAX and _fits(statement, _INT_MAX) and _fits(txn):
            return Delta(low, high, statement, txn, deletes=delta[1] is not None)
    raise FormatError(f"not the name of an ACID directory: {name!r}")


def _visibility(txn: int | None) -> str:
    return "" if txn is None else f"_v{txn:07d}"


def _optional(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


def _fits(number: int | None, limit: int = _LONG_MAX) -> bool:
    return number is None or number <= limit
