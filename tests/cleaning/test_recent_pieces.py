"""Pieces that are kept as they were put change no decision, and take bounded memory."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cleaning import ReaderGate
from tidegate.cleaning.gate_state import (
    GateState,
    Vacuum,
    VacuumRecord,
    WaitingVacuum,
    identity,
    vacuum_name,
)
from tidegate.events import Event, LockHold, LockReleased, ReleaseReason, VacuumFinished
from tidegate.runtime.bus import ChangelogRecord
from tidegate.runtime.decider.pieces import RecentPieces
from tidegate.runtime.decider.state_store import StateStore, store_of
from tidegate.runtime.protocols import Decision

NOON: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
TABLE: Final = "lake.sales.orders"
SUBJECT: Final = {"table": TABLE, "location": "/w/t", "occurred_at": NOON, "source": "x"}


def vacuum(number: int, locks: list[int], last: int) -> VacuumFinished:
    return VacuumFinished.model_validate(
        {
            **SUBJECT,
            "kind": "minor",
            "directories": (f"delta_{number:07}_{number:07}",),
            "min_write_id": 1,
            "max_write_id": last,
            "valid_write_ids": f"db.t:{last}:9223372036854775807::",
            "own_lock_id": locks[0],
            "locks": tuple(LockHold(lock_id=lock, owner="ana") for lock in locks),
        }
    )


def release(lock_id: int, reason: ReleaseReason) -> LockReleased:
    return LockReleased.model_validate({**SUBJECT, "lock_id": lock_id, "reason": reason})


EVENTS: Final = st.one_of(
    st.builds(
        vacuum,
        st.integers(1, 4),
        st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True),
        st.integers(4, 5),
    ),
    st.builds(release, st.integers(1, 8), st.sampled_from(ReleaseReason)),
)


class Gate:
    """A gate and its store; `limit` is how much of what it has put it keeps."""

    def __init__(self, limit: int | None = None) -> None:
        self.gate = ReaderGate()
        self.store: StateStore[GateState] = store_of(self.gate)
        if limit is not None:
            self.store.recent = RecentPieces(limit)

    def apply(self, event: Event, at: datetime) -> Decision[GateState]:
        decision = self.gate.decide(self.store.state(TABLE), event, at)
        self.store.put(TABLE, decision.state, decision.pieces)
        return decision

    def kept(self) -> dict[str, object]:
        """The waiting vacuums that are kept as they were put."""
        kept = self.store.recent.of(TABLE).items()
        return {name: piece for name, piece in kept if isinstance(piece, WaitingVacuum)}

    def kept_as_parsed(self) -> dict[str, object]:
        """The same, read from their records."""
        records = self.store.pieces(TABLE)
        return {name: VacuumRecord(records[name]).whole() for name in self.kept()}

    def restarted(self, changelog: list[ChangelogRecord]) -> Gate:
        made = Gate()
        made.store.restore(changelog)
        return made


@given(steps=st.lists(EVENTS | st.just("write") | st.just("restart"), max_size=25))
def test_what_is_kept_changes_neither_a_decision_nor_a_record(steps: list[Event | str]) -> None:
    keeps, forgets, changelog = Gate(), Gate(limit=0), list[ChangelogRecord]()
    for number, step in enumerate(steps):
        if isinstance(step, str):
            written = keeps.store.changed_records()
            assert written == forgets.store.changed_records()
            changelog += written
            assert keeps.kept() == keeps.kept_as_parsed()
            if step == "restart":
                keeps = keeps.restarted(changelog)
            continue
        at = NOON + timedelta(seconds=number)
        ours, parsed = keeps.apply(step, at), forgets.apply(step, at)
        assert ours.commands == parsed.commands
        assert ours.outcomes == parsed.outcomes
        assert ours.state == parsed.state


def test_what_is_kept_is_bounded_and_given_as_it_was_put() -> None:
    gate, kept = Gate(), list[bool]()
    gate.store.recent = RecentPieces(8_000)
    for number in range(1, 21):
        gate.apply(vacuum(number, [number], 20), NOON)
        gate.store.changed_records()
        recent = gate.store.recent.of(TABLE)
        kept.append(bool(recent))
        assert all(isinstance(piece, WaitingVacuum) for piece in recent.values())
        assert len(recent) <= 8_000 // 800

    assert True in kept
    assert False in kept


@pytest.mark.parametrize("holds", [1, 20, 1_000, 20_000])
def test_what_is_kept_takes_no_more_memory_than_its_bound(holds: int) -> None:
    """Objects take up to ten times as much as JSON, and forty times as much as packed JSON."""
    limit, recent, gate = 2 * 2**20, RecentPieces(2 * 2**20), ReaderGate()
    kept, most = recent.of(TABLE), 0
    tracemalloc.start()
    try:
        for number in range(8_000_000 // (1_000 + 100 * holds)):
            first = 2_000 * (number + 1)
            vacuum = waiting(number, tuple(range(first, first + holds)))
            recent.keep(kept, f"v{number:016x}", vacuum, gate.dump_piece(vacuum))
            del vacuum
            most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    assert most < limit


def test_of_a_process_that_owns_more_partitions_each_keeps_less_at_once() -> None:
    gate = Gate()
    gate.apply(vacuum(1, [1], 4), NOON)
    gate.store.changed_records()
    gate.store.recent.bound(100_000)
    assert gate.kept()

    gate.store.recent.bound(100)
    assert gate.kept() == {}
    assert gate.store.state(TABLE).loaded.pieces.get(vacuum_name(identity(vacuum(1, [1], 4))))


def waiting(number: int, transactions: tuple[int, ...]) -> WaitingVacuum:
    event = vacuum(number, [1], 4)
    return WaitingVacuum(
        "".join(["e", str(number)]), NOON, number, (), transactions, Vacuum.of(event)
    )


def test_a_piece_that_is_put_again_and_packed_is_not_the_one_from_before() -> None:
    gate = Gate()
    many = list(range(1, 4_000))
    for event in (vacuum(1, [1, 2], 4), vacuum(1, many, 4)):
        gate.apply(event, NOON)
        gate.store.changed_records()

    found = gate.store.state(TABLE).loaded.pieces.get(vacuum_name(identity(vacuum(1, [1], 4))))
    assert gate.kept() == {}
    assert isinstance(found, VacuumRecord)
    assert len(found.holds) == len(many)


def test_a_piece_that_was_removed_is_not_there() -> None:
    gate = Gate()
    for event in (vacuum(1, [1], 4), release(1, ReleaseReason.UNLOCKED)):
        gate.apply(event, NOON)
        gate.store.changed_records()

    pieces = gate.store.state(TABLE).loaded.pieces
    assert list(pieces.names()) == []
    assert pieces.get(vacuum_name(identity(vacuum(1, [1], 4)))) is None


def test_a_piece_that_was_put_again_is_the_newer_one() -> None:
    gate = Gate()
    for event in (vacuum(1, [1, 2], 4), vacuum(1, [1, 3], 4)):
        gate.apply(event, NOON)
        gate.store.changed_records()

    assert len(gate.kept()) == 1
    assert gate.kept() == gate.kept_as_parsed()
