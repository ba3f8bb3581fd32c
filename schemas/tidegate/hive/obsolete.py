"""Which directories a snapshot reads, and which are obsolete for it: Hive's getAcidState.

Mirrors `AcidUtils.getAcidState` of Hive 4.0 and 4.1. Hive visits bases in the order of a hash map,
and a few results depend on that order. `acid_state` visits them in the given order, and
`settled_state` calls obsolete only what is obsolete in every order. Original files (outside any
ACID directory) are omitted, although Hive calls them obsolete once there is a base.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from tidegate.errors import FormatError, TidegateError
from tidegate.hive.names import AcidDirectory, Base, Delta, parse_name
from tidegate.hive.write_ids import RangeResponse, ValidWriteIds, shortened

DATA_FORMAT_FILE: Final = "_metadata_acid"
"""The file in a base without `_vT` in its name that names the writer; none: an insert overwrite."""
DATA_FORMAT_LIMIT: Final = 10_000
"""How many bytes of it are read at most; Hive writes about 50."""
_WRITTEN_BY_COMPACTION: Final = {"compacted": True, "truncated": False}


def is_of_compaction(data_format: bytes) -> bool:
    """Whether the content of a base's `_metadata_acid` is that of a compaction; else a TRUNCATE's.

    Raises:
        FormatError: it is neither; Hive can't read such a table.
    """
    try:
        return _WRITTEN_BY_COMPACTION[str(json.loads(data_format)["dataFormat"]).lower()]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        text = shortened(data_format.decode(errors="replace"))
        raise FormatError(f"a base's {DATA_FORMAT_FILE} can't be read: {text!r}") from error


class FoundDirectory(NamedTuple):
    """An ACID directory: its name on disk, and the parsed name.

    `compacted` marks a base that a compaction wrote though its name has no `_vT`, as in Hive 3,
    where the base's `_metadata_acid` file says so (`is_of_compaction`).
    """

    name: str
    acid: AcidDirectory
    compacted: bool = False

    @classmethod
    def named(cls, name: str, *, compacted: bool = False) -> Self:
        """Parse the name.

        Raises:
            FormatError: `name` is not the name of an ACID directory.
        """
        return cls(name, parse_name(name), compacted)


@dataclass(slots=True)
class _BaseWalk:
    """The result of visiting bases one by one: call `visit` for each, in order.

    Attributes:
        best: The base that a reader with the snapshot reads; None if no base is usable.
        oldest: The base with the lowest write id.
        obsolete: The names of bases that a better one replaces.
        aborted: The names of bases of aborted insert overwrites.
    """

    best: FoundDirectory | None = None
    oldest: FoundDirectory | None = None
    obsolete: list[str] = field(default_factory=list[str])
    aborted: list[str] = field(default_factory=list[str])

    @property
    def write_id(self) -> int:
        """The write id of the best base; 0 without one."""
        return self.best.acid.max_write_id if self.best else 0

    def visit(self, found: FoundDirectory, write_ids: ValidWriteIds) -> None:
        """Compare one more base with the best so far."""
        if self.oldest is None or self.oldest.acid.max_write_id > found.acid.max_write_id:
            self.oldest = found
        if _is_aborted_overwrite(found, write_ids):
            self.aborted.append(found.name)
        elif self.best is not None and not self._is_better(found):
            self.obsolete.append(found.name)
        elif _is_usable(found, write_ids):
            if self.best is not None:
                self.obsolete.append(self.best.name)
            self.best = found

    def _is_better(self, found: FoundDirectory) -> bool:
        write_id = found.acid.max_write_id
        same = write_id == self.write_id
        return write_id > self.write_id or (same and is_compacted(found))


def is_compacted(found: FoundDirectory) -> bool:
    """Whether a compaction wrote this base, as far as its marks show, not an insert overwrite."""
    return bool(found.acid.visibility_txn) or found.compacted


def _is_aborted_overwrite(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    return write_ids.is_aborted(found.acid.max_write_id) and not is_compacted(found)


def _is_usable(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    """Whether a reader with this snapshot can read from a base."""
    write_id = found.acid.max_write_id
    if _is_aborted_overwrite(found, write_ids):
        return False
    if write_ids.has_open and write_id <= write_ids.min_open:
        return True
    if is_compacted(found):
        return write_ids.takes_compacted_base(write_id)
    return write_ids.is_valid(write_id)


def aborted_rows(found: FoundDirectory, write_ids: ValidWriteIds) -> RangeResponse:
    """How many of a directory's write ids aborted; a compaction takes no row of an aborted write.

    ALL only if it has no write id above the high-water mark, of which nothing is known.
    """
    if found.acid.visibility_txn is not None or found.compacted:
        return RangeResponse.NONE
    response = write_ids.aborted_in(*found.acid.written_by)
    is_above = found.acid.max_write_id > write_ids.high_water_mark
    return RangeResponse.SOME if is_above and response is RangeResponse.ALL else response


def _rank(found: FoundDirectory) -> tuple[int, bool]:
    """Sort key of bases: with equal write ids, a compaction's base is above an overwrite's."""
    return found.acid.max_write_id, is_compacted(found)


class NotEnoughHistory(TidegateError):  # noqa: N818 - named as Hive names it
    """The oldest base is a compaction's, and the snapshot can't use any. The catcher refuses."""


@dataclass(frozen=True, slots=True)
class _AcidState:
    """Names of directories that a snapshot reads (`base`, `current`), and that it never reads.

    `obsolete` directories are replaced by those that are read; `aborted` directories contain only
    aborted write ids.
    """

    base: str | None = None
    current: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()


def acid_state(found: Sequence[FoundDirectory], write_ids: ValidWriteIds) -> _AcidState:
    """Classify the directories of one table or partition.

    Args:
        found: The directories, in the order in which Hive would visit them. Hive leaves out those
            whose `_vT` is of a transaction that the reader does not see.
        write_ids: The snapshot: a reader's list, or a cleaner's.

    Raises:
        NotEnoughHistory: no base is usable, and a compaction wrote the oldest.
    """
    bases = _BaseWalk()
    for directory in found:
        if isinstance(directory.acid, Base):
            bases.visit(directory, write_ids)
    if bases.best is None and bases.oldest is not None and is_compacted(bases.oldest):
        snapshot = shortened(str(write_ids))
        raise NotEnoughHistory(f"the snapshot {snapshot} cannot be read from {bases.oldest.name}")
    valid, aborted_deltas = _visited_deltas(found, write_ids)
    current, shadowed = _working_deltas(valid, write_ids, bases.write_id)
    return _AcidState(
        base=bases.best.name if bases.best else None,
        current=current,
        obsolete=(*bases.obsolete, *shadowed),
        aborted=(*bases.aborted, *aborted_deltas),
    )


def settled_state(found: Sequence[FoundDirectory], write_ids: ValidWriteIds) -> _AcidState:
    """Classify like `acid_state`, but as obsolete only if that holds in any order of Hive's visits.

    A base is obsolete only if it is usable and a better base is usable, too: the lower of two
    unusable bases is obsolete in one order and needed in the other. Aborted directories do not
    depend on the order. `obsolete` is sorted by name.

    Raises:
        NotEnoughHistory: `acid_state` raises it in at least one order.
    """
    bases = [directory for directory in found if isinstance(directory.acid, Base)]
    # of two oldest bases with the same write id, Hive checks the one that it visited first
    oldest_first = sorted(bases, key=lambda base: (base.acid.max_write_id, not is_compacted(base)))
    deltas = [directory for directory in found if not isinstance(directory.acid, Base)]
    state = acid_state([*oldest_first, *deltas], write_ids)
    usable = [base for base in bases if _is_usable(base, write_ids)]
    best = max(map(_rank, usable), default=None)
    lesser = {base.name for base in usable if _rank(base) != best}
    shadowed = set(state.obsolete) - {base.name for base in bases}
    return replace(state, obsolete=tuple(sorted(lesser | shadowed)))


def _visited_deltas(
    found: Iterable[FoundDirectory], write_ids: ValidWriteIds
) -> tuple[list[FoundDirectory], list[str]]:
    """The deltas with a valid write id, and the names of those with only aborted ones."""
    valid: list[FoundDirectory] = []
    aborted: list[str] = []
    for directory in found:
        acid = directory.acid
        if isinstance(acid, Base):
            continue
        low, high = acid.min_write_id, acid.max_write_id
        if write_ids.aborted_in(low, high) is RangeResponse.ALL:
            aborted.append(directory.name)
        elif write_ids.valid_in(low, high) is not RangeResponse.NONE:
            valid.append(directory)
    return valid, aborted


def _working_deltas(
    deltas: Iterable[FoundDirectory], write_ids: ValidWriteIds, current: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    taken: list[str] = []
    obsolete: list[str] = []
    last: tuple[int, int, int] | None = None
    by_statement = False
    for low, falling, statement, name in sorted(map(_order, deltas)):
        high, span = -falling, (low, -falling, statement)
        if high > current:
            if write_ids.valid_in(current + 1, high) is RangeResponse.NONE:
                continue
            current, by_statement = high, statement >= 0
        elif span != last and not (high == current and by_statement):
            obsolete.append(name)
            continue
        last = span
        taken.append(name)
    return tuple(taken), tuple(obsolete)


def _order(found: FoundDirectory) -> tuple[int, int, int, str]:
    """Sort key: wider ranges first; a compaction's delta (no statement) before a statement's."""
    acid = found.acid
    statement = acid.statement if isinstance(acid, Delta) else None
    rank = -1 if statement is None else statement
    return acid.min_write_id, -acid.max_write_id, rank, found.name


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
