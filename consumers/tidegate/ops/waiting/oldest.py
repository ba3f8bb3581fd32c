"""The oldest waiting vacuums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter

from tidegate.coordinator.store import Store
from tidegate.ops.waiting.outstanding import PendingVacuum, StoredVacuum, stored_vacuums


@dataclass(slots=True)
class OldestVacuums:
    """Up to `limit` waiting vacuums, oldest first, and the number of all; only these in memory."""

    limit: int
    wanted: Callable[[StoredVacuum], bool] = lambda _: True
    vacuums: Sequence[PendingVacuum] = field(default=(), init=False)
    count: int = field(default=0, init=False)

    def take(self, store: Store) -> None:
        """Count the waiting vacuums of one partition, and retain the oldest ones.

        Raises:
            StopService: a record can't be read.
        """
        wanted = (vacuum for vacuum in stored_vacuums(store) if self._counted(vacuum))
        # reduce this store first: a StoredVacuum keeps the store's records in memory
        own = [vacuum.pending() for vacuum in nsmallest(self.limit, wanted, key=attrgetter("age"))]
        self.vacuums = nsmallest(self.limit, [*self.vacuums, *own], key=attrgetter("age"))

    def _counted(self, vacuum: StoredVacuum) -> bool:
        is_wanted = self.wanted(vacuum)
        self.count += is_wanted
        return is_wanted
