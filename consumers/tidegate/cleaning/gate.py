"""The reader gate: a vacuum waits until the last lock and transaction that it saw is gone.

Events may come in any order, twice, or late. Every release is remembered, because a second vacuum
that lists the same lock may still be on its way. Forgetting is always safe: a vacuum whose release
was forgotten waits (an alarm, and healed by a release published again); none is let go too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from pydantic import AwareDatetime, Field

from tidegate.cleaning.memory import heard, milliseconds, remember, without_old
from tidegate.events import (
    CleaningReleased,
    Event,
    LockHold,
    LockReleased,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.base import Value
from tidegate.runtime.services import Decision


class Vacuum(Value, frozen=True):
    """What the cleaner is told of a vacuum: the fields of its CleaningReleased, but for the cause.

    No event of its own, because a state is read back often and a million of these may wait.
    """

    location: str
    kind: VacuumKind
    partition: str | None
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    own_transaction_id: int | None


class WaitingVacuum(Value, frozen=True):
    """A vacuum, the holds it still waits for, and since when."""

    locks: tuple[LockHold, ...]
    transactions: tuple[int, ...]
    since: AwareDatetime
    vacuum: Vacuum

    @property
    def is_free(self) -> bool:
        """Whether every hold is gone."""
        return not self.locks and not self.transactions


class GateState(Value, frozen=True):
    """One table's memory: vacuums by their event id, and what was released when (ms of epoch)."""

    waiting: dict[str, WaitingVacuum] = Field(default_factory=dict)
    released_locks: tuple[dict[int, int], ...] = ()
    ended_transactions: tuple[dict[int, int], ...] = ()
    released_vacuums: tuple[dict[str, int], ...] = ()


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

    def initial(self) -> GateState:
        """Know nothing of the table."""
        return GateState()

    def decide(self, state: GateState, event: Event, at: datetime) -> Decision[GateState]:
        """Take in one event; let go every vacuum that it sets free."""
        now = milliseconds(at)
        state = self._without_old(state, now)
        match event:
            case LockReleased():
                return self._let_go(self._with_release(state, event, now), event.table, at)
            case VacuumFinished():
                return self._let_go(self._with_vacuum(state, event, at), event.table, at)
            case _:
                return Decision(state)

    def _with_vacuum(self, state: GateState, vacuum: VacuumFinished, at: datetime) -> GateState:
        key = vacuum.event_id
        if key in state.waiting or heard(state.released_vacuums, key):
            return state
        locks, transactions = vacuum.locks, vacuum.open_transactions
        new = WaitingVacuum(
            locks=tuple(each for each in locks if not heard(state.released_locks, each.lock_id)),
            transactions=tuple(
                each for each in transactions if not heard(state.ended_transactions, each)
            ),
            since=at,
            vacuum=_kept(vacuum),
        )
        return _changed(state, waiting={**state.waiting, key: new})

    def _with_release(self, state: GateState, release: LockReleased, now: int) -> GateState:
        lock, txn, most = release.lock_id, release.transaction_id, self.remember_most
        locks, transactions, waiting = (
            state.released_locks,
            state.ended_transactions,
            state.waiting,
        )
        if lock is not None:
            locks = remember(locks, lock, now, most)
        if txn is not None:
            transactions = remember(transactions, txn, now, most)
        if waiting:
            waiting = {key: _discharged(each, lock, txn) for key, each in waiting.items()}
        return _changed(
            state, waiting=waiting, released_locks=locks, ended_transactions=transactions
        )

    def _let_go(self, state: GateState, table: str, at: datetime) -> Decision[GateState]:
        free = {key: each for key, each in state.waiting.items() if each.is_free}
        if not free:
            return Decision(state)
        released = state.released_vacuums
        for key in free:
            released = remember(released, key, milliseconds(at), self.remember_most)
        waiting = {key: each for key, each in state.waiting.items() if key not in free}
        commands = tuple(_command(table, key, each.vacuum, at) for key, each in free.items())
        after = _changed(state, waiting=waiting, released_vacuums=released)
        return Decision(after, commands)

    def _without_old(self, state: GateState, now: int) -> GateState:
        before = now - self.remember_for // timedelta(milliseconds=1)
        locks = without_old(state.released_locks, before)
        transactions = without_old(state.ended_transactions, before)
        vacuums = without_old(state.released_vacuums, before)
        if (
            locks is state.released_locks
            and transactions is state.ended_transactions
            and vacuums is state.released_vacuums
        ):
            return state
        return _changed(
            state, released_locks=locks, ended_transactions=transactions, released_vacuums=vacuums
        )


def _changed(state: GateState, **fields: Any) -> GateState:  # noqa: ANN401 - our own fields
    """Give the state with some fields replaced; they are ours, so nothing is validated again."""
    return GateState.model_construct(**{**state.__dict__, **fields})


def command_for(vacuum: VacuumFinished, at: datetime) -> CleaningReleased:
    """The command that follows once the vacuum is free; also what a dry run plans for."""
    return _command(vacuum.table, vacuum.event_id, _kept(vacuum), at)


def _kept(vacuum: VacuumFinished) -> Vacuum:
    return Vacuum(**{name: getattr(vacuum, name) for name in Vacuum.model_fields})


def _command(table: str, vacuum_id: str, vacuum: Vacuum, at: datetime) -> CleaningReleased:
    """Derived from the vacuum alone, but for the time: its id does not depend on who came last."""
    envelope = {
        "table": table,
        "caused_by": vacuum_id,
        "said_by": ReaderGate.name,
        "occurred_at": at,
    }
    return CleaningReleased.model_validate(envelope | vacuum.model_dump())


def _discharged(waiting: WaitingVacuum, lock: int | None, txn: int | None) -> WaitingVacuum:
    locks = tuple(each for each in waiting.locks if each.lock_id != lock)
    transactions = tuple(each for each in waiting.transactions if each != txn)
    if (locks, transactions) == (waiting.locks, waiting.transactions):
        return waiting
    return waiting.model_copy(update={"locks": locks, "transactions": transactions})
