"""Why something ended: by its reader, or because its heartbeats stayed away."""

from __future__ import annotations

from support.metastore_model import lock, snapshot
from tidegate.events import ReleaseReason
from tidegate.hive_bridge.endings import Endings, Expired
from tidegate.hive_metastore.values import Snapshot, Transactions

TIMEOUT = 100.0
NO_IDS: frozenset[int] = frozenset()


def beating(ms: int) -> Snapshot:
    transactions = Transactions(9, {7: ms})
    locks = (lock(1, heartbeat_ms=ms), lock(2, transaction_id=7))
    return Snapshot("uuid-1", (), locks, transactions)


def watched(*moments: tuple[float, int]) -> Endings:
    endings = Endings(TIMEOUT)
    for now, ms in moments:
        endings.look(beating(ms), now, now)
    return endings


def expired(endings: Endings) -> set[Expired]:
    return set(endings.expired_since(compaction=0))


def test_a_reader_that_was_alive_ended_by_itself() -> None:
    endings = watched((0, 1), (40, 2), (80, 3), (120, 4))

    assert endings.of_transaction(7, NO_IDS, 122) is ReleaseReason.COMMITTED
    assert endings.of_transaction(7, frozenset({7}), 122) is ReleaseReason.ABORTED
    assert endings.of_lock(1, None, NO_IDS, 122) is ReleaseReason.UNLOCKED
    assert endings.of_lock(2, None, NO_IDS, 122) is ReleaseReason.COMMITTED
    assert endings.has_seen(1, None)
    assert endings.has_seen(None, 7)
    assert not endings.has_seen(3, 8)


def test_a_reader_whose_heartbeat_is_as_old_as_the_timeout_has_expired() -> None:
    endings = watched((0, 1), (40, 1), (80, 1))

    assert endings.of_transaction(7, frozenset({7}), 95) is ReleaseReason.EXPIRED
    assert endings.of_transaction(7, NO_IDS, 95) is ReleaseReason.EXPIRED
    assert endings.of_lock(1, None, NO_IDS, 95) is ReleaseReason.EXPIRED
    assert endings.of_lock(2, None, NO_IDS, 95) is ReleaseReason.EXPIRED


def test_an_answer_without_heartbeats_makes_no_stalled_reader_look_alive() -> None:
    endings = watched((0, 1), (40, 1), (60, 0), (80, 1))
    assert endings.of_transaction(7, NO_IDS, 95) is ReleaseReason.EXPIRED


def test_a_reader_that_the_bridge_found_may_have_stalled_before() -> None:
    endings = watched((0, 1), (2, 1))

    assert endings.of_transaction(7, frozenset({7}), 4) is ReleaseReason.EXPIRED
    assert endings.of_lock(1, None, NO_IDS, 4) is ReleaseReason.EXPIRED


def test_a_bridge_without_processor_time_takes_no_old_heartbeat_for_a_new_one() -> None:
    endings = watched((0, 1))
    endings.look(beating(2), 10, 70)  # the Metastore answered at once; the bridge stood still

    assert endings.of_transaction(7, frozenset({7}), 95) is ReleaseReason.EXPIRED
    assert endings.of_transaction(7, frozenset({7}), 80) is ReleaseReason.ABORTED


def test_what_lived_between_two_looks_did_not_expire() -> None:
    endings = watched(*((float(now), now) for now in range(0, 120, 2)))

    assert endings.of_lock(50, None, NO_IDS, 120, 10) is ReleaseReason.UNLOCKED
    assert endings.of_transaction(51, NO_IDS, 120) is ReleaseReason.COMMITTED


def test_what_a_vacuum_of_before_the_bridge_names_may_have_expired_before_it_came() -> None:
    endings = watched(*((float(now), now) for now in range(0, 120, 2)))  # from transaction 9 on

    assert endings.of_transaction(6, NO_IDS, 120) is ReleaseReason.EXPIRED
    assert endings.of_transaction(6, frozenset({6}), 120) is ReleaseReason.EXPIRED
    assert endings.of_lock(50, None, NO_IDS, 120, 9) is ReleaseReason.EXPIRED


def test_the_lock_of_a_transaction_that_goes_on_has_not_ended_by_itself() -> None:
    endings = watched((0, 1))
    for now in (10, 50, 90):  # a rename took the lock away, and its transaction stalls
        endings.look(snapshot(open_txns=[7]), now, now)

    assert endings.of_lock(2, 7, frozenset({7}), 95) is ReleaseReason.EXPIRED


def test_a_vacuum_that_comes_late_finds_why_its_reader_ended() -> None:
    stalled, alive = watched((0, 1), (40, 1), (80, 1)), watched((0, 1), (40, 2), (80, 3))
    for endings in (stalled, alive):
        for now in range(95, 300, 5):
            endings.look(snapshot(), now, now)

    assert stalled.of_transaction(7, NO_IDS, 300) is ReleaseReason.EXPIRED
    assert stalled.of_lock(1, None, NO_IDS, 300, 20) is ReleaseReason.EXPIRED
    assert stalled.of_lock(2, 7, NO_IDS, 300, 20) is ReleaseReason.EXPIRED
    assert alive.of_transaction(7, NO_IDS, 300) is ReleaseReason.COMMITTED
    assert alive.of_lock(1, None, NO_IDS, 300) is ReleaseReason.UNLOCKED


def test_what_a_bridge_never_saw_may_have_expired_before_it_came() -> None:
    assert Endings(TIMEOUT).of_lock(50, None, NO_IDS, 1) is ReleaseReason.EXPIRED
    assert watched((0, 1), (2, 1)).of_lock(50, None, NO_IDS, 4) is ReleaseReason.EXPIRED
    # nor is anything known of the time in which the Metastore did not answer
    away = watched(*((float(now), now) for now in range(0, 120, 2)), (300, 300))
    assert away.of_lock(50, None, NO_IDS, 302) is ReleaseReason.EXPIRED


def test_a_lock_whose_row_was_seen_ends_as_its_transaction_does() -> None:
    endings = watched((0, 1), (50, 1), (99, 2))
    assert endings.of_lock(2, None, frozenset({7}), 100) is ReleaseReason.ABORTED
    endings.look(snapshot(), 101, 101)
    assert not endings.has_seen(2, 7)


def test_what_stalled_and_is_gone_has_expired_and_what_its_reader_ended_has_not() -> None:
    stalled, alive = watched((0, 1), (40, 1), (80, 1)), watched((0, 1), (40, 2), (80, 3))
    gone = snapshot(aborted=[7])

    stalled.look(beating(1), 95, 95)
    assert expired(stalled) == set()
    stalled.look(gone, 95, 95)
    alive.look(gone, 95, 95)
    assert expired(stalled) == {7, lock(1, heartbeat_ms=1)}
    assert expired(alive) == set()


def test_an_abort_that_an_idle_bridge_never_saw_open_may_have_expired_before_it_came() -> None:
    idle = watched()
    idle.look(snapshot(aborted=[7]), 1, 1)
    assert expired(idle) == {7}
    seen = watched((0, 1))
    seen.look(snapshot(aborted=[7]), 1, 1)
    once = list(seen.expired_since(0))
    seen.look(snapshot(aborted=[7]), 2, 2)
    assert list(seen.expired_since(0)) == once


def test_a_compaction_has_the_expirations_since_an_answer_that_did_not_have_it() -> None:
    found = Endings(TIMEOUT)
    found.asked()
    found.look(snapshot(aborted=[1]), 1, 1)
    found.answered({70})  # of the first answer: it may have begun at any time
    found.asked()
    found.look(snapshot(aborted=[1, 2]), 2, 2)
    found.answered({70})
    found.look(snapshot(aborted=[1, 2, 3]), 3, 3)
    found.asked()
    found.answered({70, 71})  # it began after 70 was asked for alone, when 1 had expired

    assert list(found.expired_since(70)) == [1, 2, 3]
    assert list(found.expired_since(71)) == [2, 3]
    found.answered({71})
    found.look(snapshot(aborted=[1, 2, 3, 4]), 4, 4)
    assert list(found.expired_since(71)) == [2, 3, 4]
