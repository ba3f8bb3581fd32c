"""For how long write ids have been seen as aborted, by table."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidegate.hive import ValidWriteIds
from tidegate.hive_metastore.values import write_ids_of_compaction

_TableName = tuple[str, str]
"""Its database, and its own."""


class Ages:
    """Says what of a table's final write ids has been seen for the grace time.

    Order of calls for a table: `is_of_new_table`, then `old_enough`.
    """

    def __init__(self, grace: float, clock: Callable[[], float]) -> None:
        """Take the grace time in seconds, and a clock of seconds."""
        self._grace, self._clock = grace, clock
        self._seen: dict[_TableName, list[tuple[float, int]]] = {}
        """By table when it was first seen up to which write id it had aborted ones, all final."""

    def is_of_new_table(self, key: _TableName, write_ids: ValidWriteIds) -> bool:
        """Whether another table may have had this name before: the last final id is a lesser one.

        Then what was seen of that one is forgotten: it says nothing of this one's writes, which
        have a grace time of their own. Where it is the same table after all, of which the Metastore
        has forgotten the last write, that costs one grace time more.
        """
        seen = self._seen.get(key)
        if not seen or seen[-1][1] <= write_ids.high_water_mark:
            return False
        del self._seen[key]
        return True

    def old_enough(self, key: _TableName, write_ids: ValidWriteIds) -> ValidWriteIds:
        """What has been seen as aborted for the grace time; a later abort does not delay it."""
        now, last = self._clock(), write_ids.high_water_mark
        seen = self._seen.setdefault(key, [])
        if not seen or seen[-1][1] < last:
            seen.append((now, last))
        old = [at for at, each in enumerate(seen) if now - each[0] >= self._grace]
        if not old:
            return write_ids_of_compaction(write_ids, 0)
        del seen[: old[-1]]
        return write_ids_of_compaction(write_ids, seen[0][1])

    def keep_only(self, keys: Collection[_TableName]) -> frozenset[_TableName]:
        """Forget all other tables; which those are."""
        gone = frozenset(self._seen.keys() - keys)
        for key in gone:
            del self._seen[key]
        return gone
