"""For how long write ids have been seen as aborted, by table."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidegate.hive import ValidWriteIds
from tidegate.hive_metastore.values import write_ids_of_compaction

_TableName = tuple[str, str]
"""The database, and the table in it."""


class Ages:
    """Finds the write ids that have been seen as final for the grace time.

    Order of calls for a table: `is_of_new_table`, then `old_enough`.
    """

    def __init__(self, grace: float, clock: Callable[[], float]) -> None:
        """Take the grace time in seconds, and a clock of seconds."""
        self._grace, self._clock = grace, clock
        self._seen: dict[_TableName, list[tuple[float, int]]] = {}
        """By table: when (in seconds) the final write ids first reached a write id."""

    def is_of_new_table(self, key: _TableName, write_ids: ValidWriteIds) -> bool:
        """Whether this may be a new table with an old name: its last final write id went down.

        If so, this forgets the old table, and the new table's writes begin a grace time of their
        own. The same table shows a lower id if the Metastore forgot its last write; the only cost
        is one more grace time.
        """
        seen = self._seen.get(key)
        if not seen or seen[-1][1] <= write_ids.high_water_mark:
            return False
        del self._seen[key]
        return True

    def old_enough(self, key: _TableName, write_ids: ValidWriteIds) -> ValidWriteIds:
        """The write ids seen as final for the grace time; later aborts do not delay them."""
        now, last = self._clock(), write_ids.high_water_mark
        seen = self._seen.setdefault(key, [])
        if not seen or seen[-1][1] < last:
            seen.append((now, last))
        old = [at for at, (since, _) in enumerate(seen) if now - since >= self._grace]
        if not old:
            return write_ids_of_compaction(write_ids, 0)
        del seen[: old[-1]]
        return write_ids_of_compaction(write_ids, seen[0][1])

    def keep_only(self, keys: Collection[_TableName]) -> frozenset[_TableName]:
        """Forget all tables but these; returns the forgotten ones."""
        gone = frozenset(self._seen.keys() - keys)
        for key in gone:
            del self._seen[key]
        return gone
