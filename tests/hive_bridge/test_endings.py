"""Why something ended: by its reader, or because its heartbeats stayed away."""

from __future__ import annotations

from support.metastore_model import lock, snapshot
from tidegate.events import ReleaseReason
from tidegate.hive_bridge.endings import Endings
from tidegate.hive_metastore.values import Snapshot, Transactions

TIMEOUT = 100.0
NOBODY: frozenset[int] = frozenset()


def beating(ms: int) -> Snapshot:
    transactions = Transactions(9, {7: ms})
    locks = (lock(1, heartbeat_ms=ms), lock(2, transaction_id=7))
    return Snapshot("uuid-1", (), locks, transactions)


def watched(*moments: tuple[float, int]) -> Endings:
    endings = Endings(TIMEOUT)
    for now, ms in moments:
        endings.look(beating(ms), now)
    return endings


def test_a_reader_that_was_alive_ended_by_itself() -> None:
    endings = watched((0, 1), (40, 2), (80, 3), (120, 4))

    assert endings.of_transaction(7, NOBODY, 122) is ReleaseReason.COMMITTED
    assert endings.of_transaction(7, frozenset({7}), 122) is ReleaseReason.ABORTED
    assert endings.of_lock(1, None, NOBODY, 122) is ReleaseReason.UNLOCKED
    assert endings.of_lock(2, None, NOBODY, 122) is ReleaseReason.COMMITTED
    assert endings.has_seen(1, None)
    assert endings.has_seen(None, 7)
    assert not endings.has_seen(3, 8)


def test_a_reader_whose_heartbeat_is_as_old_as_the_timeout_has_expired() -> None:
    endings = watched((0, 1), (40, 1), (80, 1))

    assert endings.of_transaction(7, frozenset({7}), 95) is ReleaseReason.EXPIRED
    assert endings.of_transaction(7, NOBODY, 95) is ReleaseReason.EXPIRED
    assert endings.of_lock(1, None, NOBODY, 95) is ReleaseReason.EXPIRED
    assert endings.of_lock(2, None, NOBODY, 95) is ReleaseReason.EXPIRED


def test_what_lived_between_two_looks_did_not_expire() -> None:
    endings = watched(*((float(now), now) for now in range(0, 120, 2)))

    assert endings.of_lock(50, None, NOBODY, 120) is ReleaseReason.UNLOCKED
    assert endings.of_transaction(51, NOBODY, 120) is ReleaseReason.COMMITTED


def test_what_a_bridge_never_saw_may_have_expired_before_it_came() -> None:
    assert Endings(TIMEOUT).of_lock(50, None, NOBODY, 1) is ReleaseReason.EXPIRED
    assert watched((0, 1), (2, 1)).of_lock(50, None, NOBODY, 4) is ReleaseReason.EXPIRED
    # nor is anything known of the time in which the Metastore did not answer
    away = watched(*((float(now), now) for now in range(0, 120, 2)), (300, 300))
    assert away.of_lock(50, None, NOBODY, 302) is ReleaseReason.EXPIRED


def test_a_lock_whose_row_was_seen_ends_as_its_transaction_does() -> None:
    endings = watched((0, 1), (99, 2))
    assert endings.of_lock(2, None, frozenset({7}), 100) is ReleaseReason.ABORTED
    endings.look(snapshot(), 101)
    assert not endings.has_seen(2, 7)
