"""Which base a snapshot reads, and which are obsolete: the first half of Hive's getAcidState."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tidegate.hive.names import AcidDirectory, parse_name
from tidegate.hive.write_ids import ValidWriteIds


@dataclass(frozen=True, slots=True)
class FoundDirectory:
    """An ACID directory: its name as it was found, what that name says, and what was in it.

    `compacted` means that its `_metadata_acid` file says so; a cleaner's listing can't know.
    """

    name: str
    acid: AcidDirectory
    compacted: bool = False

    @classmethod
    def named(cls, name: str, *, compacted: bool = False) -> Self:
        """Parse the name.

        Raises:
            FormatError: it is no ACID directory's name.
        """
        return cls(name, parse_name(name), compacted)


@dataclass(frozen=True, slots=True)
class BaseWalk:
    """The walk over the bases: call `meet` for each, in order."""

    best: FoundDirectory | None = None
    oldest: FoundDirectory | None = None
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()

    @property
    def write_id(self) -> int:
        """The best one's write id; 0 where there is none."""
        return self.best.acid.max_write_id if self.best else 0

    def meet(self, found: FoundDirectory, write_ids: ValidWriteIds) -> BaseWalk:
        """Take in one more base."""
        older = self.oldest is None or self.oldest.acid.max_write_id > found.acid.max_write_id
        seen = replace(self, oldest=found if older else self.oldest)
        if _is_dead_overwrite(found, write_ids):
            return replace(seen, aborted=(*self.aborted, found.name))
        if self.best is not None and not self._is_better(found):
            return replace(seen, obsolete=(*self.obsolete, found.name))
        if not is_usable(found, write_ids):
            return seen
        replaced = () if self.best is None else (self.best.name,)
        return replace(seen, best=found, obsolete=(*self.obsolete, *replaced))

    def _is_better(self, found: FoundDirectory) -> bool:
        write_id = found.acid.max_write_id
        same = write_id == self.write_id
        return write_id > self.write_id or (same and is_compacted(found))


def is_compacted(found: FoundDirectory) -> bool:
    """Whether a compaction made it, as far as that can be seen; else an insert overwrite did."""
    return bool(found.acid.visibility_txn) or found.compacted


def _is_dead_overwrite(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    return write_ids.is_aborted(found.acid.max_write_id) and not is_compacted(found)


def is_usable(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    """Whether a base can serve the snapshot."""
    write_id = found.acid.max_write_id
    if _is_dead_overwrite(found, write_ids):
        return False
    if write_ids.has_open and write_id <= write_ids.min_open:
        return True
    if is_compacted(found):
        return write_ids.takes_compacted_base(write_id)
    return write_ids.is_valid(write_id)


def rank(found: FoundDirectory) -> tuple[int, bool]:
    """Order bases: a compaction's wins over an insert overwrite's of the same write id."""
    return found.acid.max_write_id, is_compacted(found)
