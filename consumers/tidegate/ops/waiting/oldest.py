"""The oldest of the vacuums that wait, of however many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter

from tidegate.coordinator.store import Store
from tidegate.ops.waiting.lack import LackingVacuum, StoredVacuum, stored_vacuums


@dataclass(slots=True)
class OldestVacuums:
    """At most `limit` of them, the oldest first, and how many there are: no more are in memory."""

    limit: int
    wanted: Callable[[StoredVacuum], bool] = lambda _: True
    vacuums: Sequence[LackingVacuum] = field(default=(), init=False)
    count: int = field(default=0, init=False)

    def take(self, store: Store) -> None:
        """Count what waits in one partition, and keep what is older than what was kept.

        Raises:
            StopService: a record can't be read.
        """
        wanted = (vacuum for vacuum in stored_vacuums(store) if self._counted(vacuum))
        # first the oldest of this store: until they are turned into others they keep its records
        own = [each.lacking() for each in nsmallest(self.limit, wanted, key=attrgetter("age"))]
        self.vacuums = nsmallest(self.limit, [*self.vacuums, *own], key=attrgetter("age"))

    def _counted(self, vacuum: StoredVacuum) -> bool:
        is_wanted = self.wanted(vacuum)
        self.count += is_wanted
        return is_wanted
