"""Why locks and transactions ended, and which of them may have expired. Pure.

The Metastore does not report why a hold ended: a reader that released its lock has stopped reading,
but a stalled reader may go on reading after its lock expired. In doubt the reason is expiry, which
makes the cleaner wait longer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from tidegate.events import ReleaseReason
from tidegate.hive_metastore.values import Lock, Snapshot

_SHARE: Final = 0.9
"""An end may be an expiry if the last heartbeat is at least this share of the time-out old."""
_MOST_EXPIRED: Final = 100_000
"""The most expirations to remember; the oldest are dropped."""
_MOST_ENDED: Final = 100_000
"""The most ended locks, and ended transactions, to remember; the oldest are dropped."""
Expired = int | Lock
"""A transaction, or a lock without a transaction."""


class _Beat(NamedTuple):
    value: int
    after: float
    """A time before the heartbeat, in seconds: when the poll before the first with this value
    began. Of the first poll: minus infinity."""


class Endings:
    """The latest heartbeat of every lock and transaction, as seen in the polls, and which expired.

    A reader whose hold expired before a vacuum is published may still be reading, and the Metastore
    does not list it. So expirations are remembered since the compactions in the queue may have
    begun: call `asked` before a poll of the queue, and `answered` with its answer.
    """

    def __init__(self, timeout_seconds: float) -> None:
        """Take the Metastore's time-out of transactions and locks, in seconds."""
        self._timeout = timeout_seconds
        self._locks: dict[int, _Beat] = {}
        self._transactions: dict[int, _Beat] = {}
        self._transaction_of: dict[int, int] = {}
        self._aborted: frozenset[int] = frozenset()
        self._plain: tuple[Lock, ...] = ()
        """The locks without a transaction."""
        self._ended_locks: dict[int, ReleaseReason] = {}
        self._ended_transactions: dict[int, ReleaseReason] = {}
        """Why they ended: a vacuum that waits for one may become known later."""
        self._watching_since: float | None = None
        self._watching_from = 0
        """The highest transaction id when the bridge began to watch."""
        self._last_began = -math.inf
        self._last_poll = 0.0
        self._expired: deque[Expired] = deque(maxlen=_MOST_EXPIRED)
        """Holds that ended, possibly by expiry."""
        self._count = 0
        """Of all that expired, the forgotten ones included."""
        self._since: dict[int, int] = {}
        """By compaction: the count of expirations before the last poll that did not list it."""
        self._asked = self._asked_before = 0

    def look(self, snapshot: Snapshot, began: float, now: float) -> None:
        """Record the snapshot of a poll between two times of a monotonic clock, in seconds.

        Call `of_lock` and `of_transaction` for this snapshot before.
        """
        opened, aborted = snapshot.transactions.open, snapshot.transactions.aborted
        held = {lock.lock_id for lock in snapshot.locks}
        expired: list[Expired] = []
        for transaction in self._transactions.keys() - opened.keys() | aborted - self._aborted:
            reason = self.of_transaction(transaction, aborted, now)
            _remember(self._ended_transactions, transaction, reason)
            if reason is ReleaseReason.EXPIRED:
                expired.append(transaction)
        for lock in (row for row in self._plain if row.lock_id not in held):
            reason = self.of_lock(lock.lock_id, None, aborted, now)
            _remember(self._ended_locks, lock.lock_id, reason)
            if reason is ReleaseReason.EXPIRED:
                expired.append(lock)
        if self._watching_since is None or now - self._last_poll > self._timeout / 2:
            self._watching_since = now
            self._watching_from = snapshot.transactions.high_water_mark
        self._last_poll = now
        locks = {lock.lock_id: lock.heartbeat_ms for lock in snapshot.locks}
        after, self._last_began = self._last_began, began
        self._locks = _beats(locks, self._locks, after)
        self._transactions = _beats(opened, self._transactions, after)
        self._aborted = aborted
        self._plain = tuple(lock for lock in snapshot.locks if lock.transaction_id is None)
        self._transaction_of = {
            lock.lock_id: lock.transaction_id
            for lock in snapshot.locks
            if lock.transaction_id is not None
        }
        self._expired += expired
        self._count += len(expired)

    def asked(self) -> None:
        """Note that a poll of the queue begins."""
        self._asked = self._count

    def answered(self, compactions: Collection[int]) -> None:
        """Record the ids of the queue's answer; in the first answer they may be of any age."""
        for compaction in compactions:
            self._since.setdefault(compaction, self._asked_before)
        for gone in self._since.keys() - set(compactions):
            del self._since[gone]
        self._asked_before = self._asked

    def expired_since(self, compaction: int) -> Iterator[Expired]:
        """The remembered holds that may have expired since a compaction began."""
        first = self._since.get(compaction, 0)
        return islice(self._expired, max(0, first - (self._count - len(self._expired))), None)

    def has_seen(self, lock_id: int | None, transaction_id: int | None) -> bool:
        """Whether the previous snapshot had the lock or the transaction."""
        return lock_id in self._locks or transaction_id in self._transactions

    def of_transaction(
        self, transaction: int, aborted: frozenset[int], now: float
    ) -> ReleaseReason:
        """Why a transaction ended.

        The Metastore soon forgets an aborted transaction that wrote nothing. It then counts as
        committed, which is safe: in both cases the reader itself ended it. A transaction that timed
        out is recognised by the age of its last heartbeat.
        """
        beat = self._transactions.get(transaction)
        if beat is None and (known := self._ended_transactions.get(transaction)) is not None:
            return known
        if self._may_have_expired(beat, now, transaction):
            return ReleaseReason.EXPIRED
        return ReleaseReason.ABORTED if transaction in aborted else ReleaseReason.COMMITTED

    def of_lock(
        self,
        lock_id: int,
        transaction: int | None,
        aborted: frozenset[int],
        now: float,
        known_transaction: int = 0,
    ) -> ReleaseReason:
        """Why a lock ended. The lock of a transaction ends with it and has no own heartbeat.

        `known_transaction` is the highest transaction id in the vacuum that waits for the lock.
        """
        owner = self._transaction_of.get(lock_id, transaction)
        if owner is not None:
            return self.of_transaction(owner, aborted, now)
        beat = self._locks.get(lock_id)
        if beat is None and (known := self._ended_locks.get(lock_id)) is not None:
            return known
        expired = self._may_have_expired(beat, now, known_transaction)
        return ReleaseReason.EXPIRED if expired else ReleaseReason.UNLOCKED

    def _may_have_expired(self, beat: _Beat | None, now: float, transaction: int) -> bool:
        limit = _SHARE * self._timeout
        if beat is not None:
            return now - beat.after >= limit
        # never seen: it began and ended between two polls, unless it ended before the first of
        # them, or there was a gap in the polls
        watched = 0.0 if self._watching_since is None else self._last_poll - self._watching_since
        gap = now - self._last_poll > self._timeout / 2
        return watched < limit or gap or transaction <= self._watching_from


def _beats(
    listed: Mapping[int, int], before: Mapping[int, _Beat], after: float
) -> dict[int, _Beat]:
    found: dict[int, _Beat] = {}
    for key, value in listed.items():
        known = before.get(key)
        if known is None or value not in {0, known.value}:  # 0: this answer has no heartbeats
            known = _Beat(value, after)
        found[key] = known
    return found


def _remember(ended: dict[int, ReleaseReason], key: int, reason: ReleaseReason) -> None:
    ended[key] = reason
    if len(ended) > _MOST_ENDED:
        del ended[next(iter(ended))]
