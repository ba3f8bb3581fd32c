"""A Hudi timeline: all instants of a table at one moment, and queries on them."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from tidegate.hudi.instant import COMMITS, WRITES, Action, Instant, InstantState

_PENDING_IS_LAST: Final = "~"


def _completion(instant: Instant) -> str:
    return instant.completion or _PENDING_IS_LAST


@dataclass(frozen=True)
class Timeline:
    """Instants in the order of their requested times, one per action.

    An instant with several files (requested, inflight, completed) appears once, in its furthest
    state. A clustering that completed as a replacecommit, and a compaction that completed as a
    commit, are one instant, too.
    """

    instants: tuple[Instant, ...]

    @classmethod
    def of(cls, files: Iterable[Instant]) -> Self:
        """Build a timeline from its files, in any order."""
        furthest: dict[tuple[str, str], Instant] = {}
        # the earlier of two completed files counts: a slower process will remove the later one
        for file in sorted(files, key=_completion, reverse=True):
            key = (file.timestamp, "write" if file.action in WRITES else file.action)
            known = furthest.get(key)
            if known is None or _rank(file) >= _rank(known):
                furthest[key] = file
        return cls(tuple(sorted(furthest.values(), key=lambda i: (i.timestamp, i.action))))

    def of_action(self, action: Action, *states: InstantState) -> tuple[Instant, ...]:
        """The instants of one action, in any of the given states (by default, in all states)."""
        return tuple(
            i for i in self.instants if i.action is action and (not states or i.state in states)
        )

    def find(self, action: Action, timestamp: str) -> Instant | None:
        """The instant of one action with this requested time, in any state."""
        return next((i for i in self.of_action(action) if i.timestamp == timestamp), None)

    @cached_property
    def writes(self) -> tuple[Instant, ...]:
        """Instants that write data files, including pending ones."""
        return tuple(i for i in self.instants if i.action in WRITES)

    @cached_property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed commits, deltacommits and replacecommits."""
        return tuple(
            i for i in self.writes if i.state is InstantState.COMPLETED and i.action in COMMITS
        )

    @cached_property
    def savepoints(self) -> frozenset[str]:
        """The timestamps of completed savepoints."""
        return frozenset(
            i.timestamp for i in self.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
        )

    @cached_property
    def pending_restores(self) -> tuple[Instant, ...]:
        """Restores that began and did not complete, furthest state first."""
        pending = self.of_action(Action.RESTORE, InstantState.REQUESTED, InstantState.INFLIGHT)
        return tuple(sorted(pending, key=lambda i: (-i.state, i.timestamp)))

    @cached_property
    def greatest(self) -> str:
        """The greatest requested or completion time on the timeline; empty if there is none."""
        times = {t for i in self.instants for t in (i.timestamp, i.completion) if t is not None}
        return max(times, default="")

    @cached_property
    def _completed_by_time(self) -> dict[str, Instant]:
        return {i.timestamp: i for i in self.completed_writes}

    @cached_property
    def _times_of_writes(self) -> frozenset[str]:
        return frozenset(write.timestamp for write in self.writes)

    @cached_property
    def start(self) -> str | None:
        """The first completed write, savepointed or not; as in Hudi, the timeline begins here."""
        return min(self._completed_by_time, default=None)

    def completion_of(self, timestamp: str) -> str:
        """When a write completed; its own time if it is not (or no longer) on the timeline."""
        write = self._completed_by_time.get(timestamp)
        return (write and write.completion) or timestamp

    def completed_write(self, timestamp: str) -> Instant | None:
        """The completed write with this requested time."""
        return self._completed_by_time.get(timestamp)

    def last_completed_write(self, until: str | None = None) -> Instant | None:
        """The last completed write, or the last one requested at or before `until`."""
        found = (i for i in reversed(self.completed_writes) if not until or i.timestamp <= until)
        return next(found, None)

    def is_committed(self, timestamp: str) -> bool:
        """Whether data files of this instant count: it is completed, or older than the timeline.

        Files of a pending write never count, however old it is: its rows are not in the table.
        """
        if timestamp in self._completed_by_time:
            return True
        if timestamp in self._times_of_writes:
            return False
        return self.start is not None and timestamp < self.start

    def is_forgotten(self, timestamp: str) -> bool:
        """Whether a write was archived: it is older than the timeline and not on it."""
        return timestamp not in self._times_of_writes and self.is_committed(timestamp)

    def completed_after(
        self, savepoint: Instant, by_request: AbstractSet[Action] = frozenset()
    ) -> tuple[Instant, ...]:
        """The writes that a restore rolls back, in the order of the rollbacks.

        Completion times are compared. So a write that was requested before the savepoint and
        completed after it is included; a pending write counts as later than all others.

        Pending clusterings and replacements come first, then the other pending writes, then the
        completed ones, each newest first. A pending compaction is ordered by its request, so that
        writes to the slices that it began are rolled back before it.

        Args:
            savepoint: The savepointed commit.
            by_request: Actions whose requested times are compared instead: COMPACTIONS on
                merge-on-read tables.
        """
        later = [
            i
            for i in self.writes
            if i.timestamp != savepoint.timestamp
            and (
                i.timestamp > savepoint.timestamp
                if i.action in by_request
                else _completion(i) > _completion(savepoint)
            )
        ]
        return tuple(sorted(later, key=_rollback_order, reverse=True))


def _rank(file: Instant) -> tuple[InstantState, bool]:
    return file.state, file.action in COMMITS


def _rollback_order(instant: Instant) -> tuple[str, bool, str]:
    if instant.action is Action.COMPACTION:
        return instant.timestamp, False, instant.timestamp
    replaces = instant.action in {Action.CLUSTERING, Action.REPLACE_COMMIT}
    pending = instant.state is not InstantState.COMPLETED
    return _completion(instant), pending and replaces, instant.timestamp
