"""The reader gate: a vacuum waits until the last lock and transaction that it saw is gone.

Events may come in any order, twice, or late. Every release is remembered, because a second vacuum
that lists the same lock may still be on its way. Forgetting is always safe: a vacuum whose release
was forgotten waits (an alarm, and healed by a release published again); none is let go too early.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar

from tidegate.cleaning.memory import Bounds, all_heard, heard, milliseconds, remember
from tidegate.cleaning.waiting import TOLD, GateState, Vacuum, WaitingVacuum
from tidegate.events import CleaningReleased, Event, LockReleased, VacuumFinished
from tidegate.runtime.services import Decision


@dataclass(frozen=True, slots=True)
class ReaderGate:
    """A decider (see `tidegate.runtime.services`) that says CleaningReleased once a vacuum is free.

    Each kind of release is remembered for `remember_for`, and at most `remember_most` of a kind a
    table, the oldest forgotten first. Waiting vacuums are never forgotten.
    """

    name: ClassVar[str] = "reader-gate"
    hears: ClassVar[tuple[type[Event], ...]] = (VacuumFinished, LockReleased)
    state_type: type[GateState] = GateState
    remember_for: timedelta = timedelta(days=7)
    remember_most: int = 4096
    _remember_ms: int = field(init=False, repr=False)
    _bounds: Bounds = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Work out once what `decide` needs for every event."""
        object.__setattr__(self, "_remember_ms", self.remember_for // timedelta(milliseconds=1))
        object.__setattr__(self, "_bounds", Bounds.of(self.remember_most))

    def initial(self) -> GateState:
        """Know nothing of the table."""
        return GateState()

    def decide(self, state: GateState, event: Event, at: datetime) -> Decision[GateState]:
        """Take in one event; let go every vacuum that it sets free."""
        now = milliseconds(at)
        before = now - self._remember_ms
        if state.has_old(before):
            state = state.without_old(before)
        if isinstance(event, LockReleased):
            state = self._with_release(state, event, now)
        elif isinstance(event, VacuumFinished):
            state = self._with_vacuum(state, event, at)
        return self._let_go(state, event.table, at) if state.waiting else Decision(state)

    def _with_vacuum(self, state: GateState, vacuum: VacuumFinished, at: datetime) -> GateState:
        key = vacuum.event_id
        if heard(state.released_vacuums, key):
            return state
        before = state.waiting.get(key) or WaitingVacuum((), (), at, Vacuum.of(vacuum))
        released, ended = all_heard(state.released_locks), all_heard(state.ended_transactions)
        after = before.told(vacuum, released, ended)
        if after == before and key in state.waiting:
            return state
        return replace(state, waiting={**state.waiting, key: after})

    def _with_release(self, state: GateState, release: LockReleased, now: int) -> GateState:
        lock, txn, bounds = release.lock_id, release.transaction_id, self._bounds
        locks, transactions, waiting = (
            state.released_locks,
            state.ended_transactions,
            state.waiting,
        )
        if lock is not None:
            locks = remember(locks, lock, now, bounds)
        if txn is not None:
            transactions = remember(transactions, txn, now, bounds)
        if waiting:
            waiting = {key: each.without(lock, txn) for key, each in waiting.items()}
        return GateState(waiting, locks, transactions, state.released_vacuums)

    def _let_go(self, state: GateState, table: str, at: datetime) -> Decision[GateState]:
        free = {key: each for key, each in state.waiting.items() if each.is_free}
        if not free:
            return Decision(state)
        released = state.released_vacuums
        for key in free:
            released = remember(released, key, milliseconds(at), self._bounds)
        waiting = {key: each for key, each in state.waiting.items() if key not in free}
        commands = tuple(_command(table, key, each.vacuum, at) for key, each in free.items())
        return Decision(replace(state, waiting=waiting, released_vacuums=released), commands)


def command_for(vacuum: VacuumFinished, at: datetime) -> CleaningReleased:
    """The command that follows once the vacuum is free; also what a dry run plans for."""
    return _command(vacuum.table, vacuum.event_id, Vacuum.of(vacuum), at)


def _command(table: str, vacuum_id: str, vacuum: Vacuum, at: datetime) -> CleaningReleased:
    """Derived from the vacuum alone, but for the time: its id does not depend on who came last."""
    envelope = {
        "table": table,
        "caused_by": vacuum_id,
        "said_by": ReaderGate.name,
        "occurred_at": at,
    }
    told = {name: getattr(vacuum, name) for name in TOLD}
    return CleaningReleased.model_validate(envelope | told)
