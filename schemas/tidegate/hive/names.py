"""Parse and format the names of ACID directories.

    base_W[_vT]                              every row up to write id W, one file per bucket
    [delete_]delta_MIN_MAX[_STATEMENT][_vT]  the row events of the write ids MIN to MAX

Ids are Java longs. `T` is the transaction that made the directory visible; Hive 4 adds it to the
products of compactions, Hive 3 never. Hive pads write ids to seven digits and statements to four,
and parses any number of digits.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tidegate.errors import FormatError
from tidegate.hive.write_ids import shortened

_LONG_MAX: Final = 2**63 - 1
_LONG_MIN: Final = -(2**63)
_LONGEST: Final = 20
"""Number of digits: one more than a Java long can have."""
_INT_MAX: Final = 2**31 - 1
_PREFIXES: Final = ("base_", "delta_", "delete_delta_")
_BASE: Final = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?")
_DELTA: Final = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?")


class Base(NamedTuple):
    """All rows as of `write_id`, written by a major compaction or an insert overwrite.

    The base of a table that was converted to ACID has the smallest Java long as its write id.
    """

    write_id: int
    visibility_txn: int | None = None

    @property
    def min_write_id(self) -> int:
        """The smallest Java long: a base covers every write id up to its own."""
        return _LONG_MIN

    @property
    def max_write_id(self) -> int:
        """The same as `write_id`, as in deltas."""
        return self.write_id

    @property
    def written_by(self) -> tuple[int, int]:
        """The first and the last write id of its writers: of an insert overwrite, its own."""
        return self.write_id, self.write_id

    @property
    def name(self) -> str:
        """The directory's name as Hive writes it."""
        return f"base_{self.write_id:07d}{_visibility(self.visibility_txn)}"


class Delta(NamedTuple):
    """The insert events of a range of write ids or, with `deletes`, its delete events.

    `statement` is the number of the statement within its transaction; None in deltas of
    compactions.
    """

    min_write_id: int
    max_write_id: int
    statement: int | None = None
    visibility_txn: int | None = None
    deletes: bool = False

    @property
    def written_by(self) -> tuple[int, int]:
        """The first and the last write id of its writers."""
        return self.min_write_id, self.max_write_id

    @property
    def name(self) -> str:
        """The directory's name as Hive writes it."""
        prefix = "delete_delta" if self.deletes else "delta"
        statement = "" if self.statement is None else f"_{self.statement:04d}"
        ids = f"{self.min_write_id:07d}_{self.max_write_id:07d}"
        return f"{prefix}_{ids}{statement}{_visibility(self.visibility_txn)}"


AcidDirectory = Base | Delta


def is_acid_name(name: str) -> bool:
    """Whether Hive would parse this as the name of an ACID directory."""
    return name.startswith(_PREFIXES)


def parse_name(name: str) -> AcidDirectory:
    """Parse a directory's name; the inverse of `.name` (up to leading zeros).

    Raises:
        FormatError: `name` is not the name of an ACID directory; Hive's getAcidState fails on such
            a name. Stricter than Hive: only a base may have a sign, and MIN must not exceed MAX.
    """
    if name.startswith("base_") and (base := _BASE.fullmatch(name)):
        write_id, txn = _number(base[1]), _optional(base[2])
        if _LONG_MIN <= write_id <= _LONG_MAX and _fits(txn):
            return Base(write_id, txn)
    elif delta := _DELTA.fullmatch(name):
        low, high = _number(delta[2]), _number(delta[3])
        statement, txn = _optional(delta[4]), _optional(delta[5])
        if low <= high <= _LONG_MAX and _fits(statement, _INT_MAX) and _fits(txn):
            return Delta(low, high, statement, txn, deletes=delta[1] is not None)
    raise FormatError(f"not the name of an ACID directory: {shortened(name)}")


def _visibility(txn: int | None) -> str:
    return "" if txn is None else f"_v{txn:07d}"


def _optional(digits: str | None) -> int | None:
    return None if digits is None else _number(digits)


def _number(digits: str) -> int:
    """The number, or another one above Java's longs: Python converts at most 4,300 digits."""
    if len(digits) < _LONGEST:
        return int(digits)
    sign, significant = digits[: digits.startswith("-")], digits.lstrip("-0")
    return int(f"{sign}{significant[:_LONGEST] or 0}")


def _fits(number: int | None, limit: int = _LONG_MAX) -> bool:
    return number is None or number <= limit
