"""Why a lock or a transaction ended, from what was seen of its heartbeats. Pure.

The Metastore does not say it. A reader that ended is no longer there; a reader that stalled may
read on after its lock has expired. In doubt it has expired: whoever cleans may then wait longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidegate.events import ReleaseReason
from tidegate.hive_metastore.values import Snapshot

_SHARE: Final = 0.9
"""Of the time-out: from this age of a heartbeat on, an ending may be an expiry."""


class _Beat(NamedTuple):
    value: int
    seen: float
    """When this value was first seen, by our own clock: the heartbeat itself was earlier."""


class Endings:
    """What was seen of every lock's and transaction's heartbeat, look by look."""

    def __init__(self, timeout_seconds: float) -> None:
        """Take the Metastore's time-out of transactions and locks, in seconds."""
        self._timeout = timeout_seconds
        self._locks: dict[int, _Beat] = {}
        self._transactions: dict[int, _Beat] = {}
        self._transaction_of: dict[int, int] = {}
        self._watching_since: float | None = None
        self._last_look = 0.0

    def look(self, snapshot: Snapshot, now: float) -> None:
        """Take in a snapshot at a moment of a monotonic clock, in seconds.

        Called after `of_lock` and `of_transaction` were asked about what it no longer has.
        """
        if self._watching_since is None or now - self._last_look > self._timeout / 2:
            self._watching_since = now
        self._last_look = now
        locks = {lock.lock_id: lock.heartbeat_ms for lock in snapshot.locks}
        self._locks = _beats(locks, self._locks, now)
        self._transactions = _beats(snapshot.transactions.open, self._transactions, now)
        self._transaction_of = {
            lock.lock_id: lock.transaction_id
            for lock in snapshot.locks
            if lock.transaction_id is not None
        }

    def has_seen(self, lock_id: int | None, transaction_id: int | None) -> bool:
        """Whether the previous snapshot had the lock, or else the transaction."""
        return lock_id in self._locks or transaction_id in self._transactions

    def of_transaction(
        self, transaction: int, aborted: frozenset[int], now: float
    ) -> ReleaseReason:
        """Why a transaction ended that the previous snapshot had open, or that was never seen.

        An aborted transaction that wrote nothing is soon forgotten and looks like a committed one:
        both were ended by their own reader. One that timed out is told by its last heartbeat.
        """
        if self._may_have_expired(self._transactions.get(transaction), now):
            return ReleaseReason.EXPIRED
        return ReleaseReason.ABORTED if transaction in aborted else ReleaseReason.COMMITTED

    def of_lock(
        self, lock_id: int, transaction: int | None, aborted: frozenset[int], now: float
    ) -> ReleaseReason:
        """Why a lock ended; that of a transaction ends with it, and has no heartbeat of its own."""
        owner = self._transaction_of.get(lock_id, transaction)
        if owner is not None:
            return self.of_transaction(owner, aborted, now)
        expired = self._may_have_expired(self._locks.get(lock_id), now)
        return ReleaseReason.EXPIRED if expired else ReleaseReason.UNLOCKED

    def _may_have_expired(self, beat: _Beat | None, now: float) -> bool:
        limit = _SHARE * self._timeout
        if beat is not None:
            return now - beat.seen >= limit
        # never seen: it lived between two looks, unless we were not looking all the time
        watched = 0.0 if self._watching_since is None else self._last_look - self._watching_since
        return watched < limit or now - self._last_look > self._timeout / 2


def _beats(listed: Mapping[int, int], before: Mapping[int, _Beat], now: float) -> dict[int, _Beat]:
    found: dict[int, _Beat] = {}
    for key, value in listed.items():
        known = before.get(key)
        found[key] = known if known is not None and known.value == value else _Beat(value, now)
    return found
