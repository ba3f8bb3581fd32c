"""Which holds of a waiting vacuum have not ended, and whose they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.cleaning.gate_index import GateIndex, lock_token, transaction_token
from tidegate.cleaning.gate_state import HeldLock, WaitingVacuum
from tidegate.events import OutstandingReader


def unended(waiting: WaitingVacuum, index: GateIndex) -> tuple[list[HeldLock], list[int]]:
    """The locks, and the transactions without a known lock, that have not ended."""
    locks = [lock for lock in waiting.locks if not index.has_ended(_tokens(lock))]
    in_locks = {lock.transaction_id for lock in locks}
    transactions = [
        txn
        for txn in waiting.transactions
        if txn not in in_locks and not index.has_ended((transaction_token(txn),))
    ]
    return locks, transactions


def holds_of(waiting: WaitingVacuum) -> int:
    """How many holds a vacuum began with: a lock and its transaction are one."""
    in_locks = {lock.transaction_id for lock in waiting.locks}
    return len(waiting.locks) + len(set(waiting.transactions) - in_locks)


def lacks_of(waiting: WaitingVacuum, index: GateIndex) -> Iterator[OutstandingReader]:
    """The same, for people."""
    locks, transactions = unended(waiting, index)
    for lock in locks:
        kind = None if lock.lock_type is None else str(lock.lock_type)
        yield OutstandingReader(
            lock_id=lock.lock_id,
            transaction_id=lock.transaction_id,
            partition=lock.partition,
            lock_type=kind,
            owner=lock.owner,
        )
    # a lock that has ended may still name the owner of a transaction that has not
    owners = {lock.transaction_id: lock.owner for lock in waiting.locks if lock.owner}
    for txn in transactions:
        yield OutstandingReader(transaction_id=txn, owner=owners.get(txn))


def _tokens(lock: HeldLock) -> tuple[int, ...]:
    if lock.transaction_id is None:
        return (lock_token(lock.lock_id),)
    return lock_token(lock.lock_id), transaction_token(lock.transaction_id)
