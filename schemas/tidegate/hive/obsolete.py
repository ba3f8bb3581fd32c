"""Which directories a snapshot reads, and which are obsolete for it: Hive's getAcidState.

Mirrors `AcidUtils.getAcidState` of Hive 4.0 and 4.1. Hive visits bases in the order of a hash map,
and a few results depend on that order. `acid_state` visits them in the given order, and
`always_obsolete` returns only directories that are obsolete in every order. Original files (outside
any ACID directory) are omitted, although Hive calls them obsolete once there is a base.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidegate.errors import TidegateError
from tidegate.hive.bases import BaseWalk, FoundDirectory, is_compacted, is_usable, rank
from tidegate.hive.id_lists import shortened
from tidegate.hive.names import Base, Delta
from tidegate.hive.write_ids import RangeResponse, ValidTxns, ValidWriteIds


class NotEnoughHistory(TidegateError):  # noqa: N818 - named as Hive names it
    """The oldest base is a compaction's, and the snapshot can't use any. The catcher refuses."""


@dataclass(frozen=True, slots=True)
class AcidState:
    """Names of directories that a snapshot reads (`base`, `current`), and that it never reads.

    `obsolete` directories are replaced by those that are read; `aborted` directories contain only
    aborted write ids.
    """

    base: str | None = None
    current: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()


def acid_state(
    found: Sequence[FoundDirectory], write_ids: ValidWriteIds, txns: ValidTxns | None = None
) -> AcidState:
    """Classify the directories of one table or partition.

    Args:
        found: The directories, in the order in which Hive would visit them.
        write_ids: The snapshot: a reader's list, or a cleaner's.
        txns: The transactions whose `_vT` are visible; without it, all are.

    Raises:
        NotEnoughHistory: no base is usable, and a compaction wrote the oldest.
    """
    visible, aborted = _visible(found, txns)
    bases = BaseWalk()
    for directory in visible:
        if isinstance(directory.acid, Base):
            bases.visit(directory, write_ids)
    if bases.best is None and bases.oldest is not None and is_compacted(bases.oldest):
        snapshot = shortened(str(write_ids))
        raise NotEnoughHistory(f"the snapshot {snapshot} cannot be read from {bases.oldest.name}")
    valid, aborted_deltas = _visited_deltas(visible, write_ids)
    current, shadowed = _working_deltas(valid, write_ids, bases.write_id)
    return AcidState(
        base=bases.best.name if bases.best else None,
        current=current,
        obsolete=(*bases.obsolete, *shadowed),
        aborted=(*aborted, *bases.aborted, *aborted_deltas),
    )


def always_obsolete(
    found: Sequence[FoundDirectory], write_ids: ValidWriteIds, txns: ValidTxns | None = None
) -> tuple[str, ...]:
    """The directories that are obsolete in any order of Hive's visits: see `settled_state`."""
    return settled_state(found, write_ids, txns).obsolete


def settled_state(
    found: Sequence[FoundDirectory], write_ids: ValidWriteIds, txns: ValidTxns | None = None
) -> AcidState:
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
    state = acid_state([*oldest_first, *deltas], write_ids, txns)
    visible, _ = _visible(bases, txns)
    usable = [base for base in visible if is_usable(base, write_ids)]
    best = max(map(rank, usable), default=None)
    lesser = {base.name for base in usable if rank(base) != best}
    shadowed = set(state.obsolete) - {base.name for base in bases}
    return replace(state, obsolete=tuple(sorted(lesser | shadowed)))


def _visible(
    found: Iterable[FoundDirectory], txns: ValidTxns | None
) -> tuple[list[FoundDirectory], list[str]]:
    if txns is None:
        return list(found), []
    visible: list[FoundDirectory] = []
    aborted: list[str] = []
    for directory in found:
        txn = directory.acid.visibility_txn
        if txn is None or txns.is_valid(txn):
            visible.append(directory)
        elif txns.is_aborted(txn):
            aborted.append(directory.name)
    return visible, aborted


def _visited_deltas(
    visible: Iterable[FoundDirectory], write_ids: ValidWriteIds
) -> tuple[list[FoundDirectory], list[str]]:
    """The deltas with a valid write id, and the names of those with only aborted ones."""
    valid: list[FoundDirectory] = []
    aborted: list[str] = []
    for directory in visible:
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
