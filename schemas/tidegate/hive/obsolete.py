"""What a snapshot reads of a directory, and what it makes obsolete: Hive's getAcidState.

Mirrors `AcidUtils.getAcidState` of Hive 4.0 and 4.1. Hive walks bases in the order of a hash map,
and a few answers depend on it: `acid_state` walks them in the order given, and `always_obsolete`
names only what every order would call obsolete. Only directories are judged; with a base, Hive
also calls files outside any ACID directory obsolete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.errors import TidegateError
from tidegate.hive.bases import BaseWalk, FoundDirectory, is_compacted, is_usable, rank
from tidegate.hive.names import AcidDirectory, Base, Delta
from tidegate.hive.write_ids import Share, ValidTxns, ValidWriteIds


class NotEnoughHistory(TidegateError):  # noqa: N818 - named as Hive names it
    """The snapshot can use none of the bases, though one is compacted. The catcher refuses."""


@dataclass(frozen=True, slots=True)
class AcidState:
    """What a snapshot reads (`base`, `current`) and what it never will (`obsolete`, `aborted`)."""

    base: str | None = None
    current: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()


def acid_state(
    found: Sequence[FoundDirectory], write_ids: ValidWriteIds, txns: ValidTxns | None = None
) -> AcidState:
    """Judge the directories of one table or partition.

    Args:
        found: The directories, in the order in which Hive is to meet them.
        write_ids: The snapshot: a reader's list, or a cleaner's.
        txns: Decides which `_vT` are visible; with none, all are.

    Raises:
        NotEnoughHistory: no base is usable, and the oldest is a compaction's.
    """
    visible, aborted = _visible(found, txns)
    bases = BaseWalk()
    for directory in visible:
        if isinstance(directory.acid, Base):
            bases = bases.meet(directory, write_ids)
    if bases.best is None and bases.oldest is not None and is_compacted(bases.oldest):
        raise NotEnoughHistory(f"{bases.oldest.name} cannot serve {write_ids}")
    deltas = [each for each in visible if isinstance(each.acid, Delta)]
    dead = [each.name for each in deltas if _all_aborted(each.acid, write_ids)]
    alive = [each for each in deltas if _any_valid(each.acid, write_ids)]
    current, shadowed = _working_deltas(alive, write_ids, bases.write_id)
    return AcidState(
        base=bases.best.name if bases.best else None,
        current=current,
        obsolete=(*bases.obsolete, *shadowed),
        aborted=(*aborted, *bases.aborted, *dead),
    )


def always_obsolete(
    found: Sequence[FoundDirectory], write_ids: ValidWriteIds, txns: ValidTxns | None = None
) -> tuple[str, ...]:
    """Name what is obsolete in whatever order Hive meets the directories, sorted by name.

    A base counts only if it is usable itself and a better one is usable too: the lesser of two
    unusable bases is obsolete in one order and needed in the other.

    Raises:
        NotEnoughHistory: as `acid_state`, in one order at least.
    """
    visible, _ = _visible(found, txns)
    bases = [each for each in visible if isinstance(each.acid, Base)]
    # of two oldest bases of one write id, Hive looks at the one it met first
    oldest_first = sorted(bases, key=lambda each: (each.acid.max_write_id, not is_compacted(each)))
    deltas = [each for each in visible if not isinstance(each.acid, Base)]
    state = acid_state([*oldest_first, *deltas], write_ids)
    usable = [each for each in bases if is_usable(each, write_ids)]
    best = max(map(rank, usable), default=None)
    lesser = {each.name for each in usable if rank(each) != best}
    shadowed = set(state.obsolete) - {each.name for each in bases}
    return tuple(sorted(lesser | shadowed))


def _visible(
    found: Iterable[FoundDirectory], txns: ValidTxns | None
) -> tuple[list[FoundDirectory], list[str]]:
    visible: list[FoundDirectory] = []
    aborted: list[str] = []
    for each in found:
        txn = each.acid.visibility_txn
        if txns is None or txn is None or txns.is_valid(txn):
            visible.append(each)
        elif txns.is_aborted(txn):
            aborted.append(each.name)
    return visible, aborted


def _all_aborted(acid: AcidDirectory, write_ids: ValidWriteIds) -> bool:
    return write_ids.aborted_in(acid.min_write_id, acid.max_write_id) is Share.ALL


def _any_valid(acid: AcidDirectory, write_ids: ValidWriteIds) -> bool:
    valid = write_ids.valid_in(acid.min_write_id, acid.max_write_id)
    return valid is not Share.NONE and not _all_aborted(acid, write_ids)


def _working_deltas(
    alive: Iterable[FoundDirectory], write_ids: ValidWriteIds, current: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    taken: list[str] = []
    obsolete: list[str] = []
    last: tuple[int, int, int] | None = None
    by_statement = False
    for low, falling, statement, name in sorted(map(_order, alive)):
        high, span = -falling, (low, -falling, statement)
        if high > current:
            if write_ids.valid_in(current + 1, high) is Share.NONE:
                continue
            current, by_statement = high, statement >= 0
        elif span != last and not (high == current and by_statement):
            obsolete.append(name)
            continue
        last = span
        taken.append(name)
    return tuple(taken), tuple(obsolete)


def _order(found: FoundDirectory) -> tuple[int, int, int, str]:
    """Wider ranges first; a compaction's delta, which has no statement, before a statement's."""
    statement = found.acid.statement if isinstance(found.acid, Delta) else None
    rank = -1 if statement is None else statement
    return found.acid.min_write_id, -found.acid.max_write_id, rank, found.name
