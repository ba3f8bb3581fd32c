"""What the reader gate keeps of a table: the vacuums that wait, and what was released.

The states are plain dataclasses, because one is made for every event and pydantic's models cost
three times as much. pydantic validates them where a changelog is read back.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Final

from pydantic import AwareDatetime, ConfigDict

from tidegate.cleaning.memory import Memory, has_old, without_old
from tidegate.events import LockHold, VacuumFinished, VacuumKind

_CLOSED: Final = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Vacuum:
    """What the cleaner is told of a vacuum: the fields of its CleaningReleased, but for the cause.

    No event of its own, because a state is read back often and a million of these may wait.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    location: str
    kind: VacuumKind
    partition: str | None
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    own_transaction_id: int | None

    @classmethod
    def of(cls, event: VacuumFinished) -> Vacuum:
        """What is kept of an event."""
        return cls(*(getattr(event, name) for name in TOLD))


TOLD: Final = tuple(each.name for each in fields(Vacuum))


@dataclass(frozen=True, slots=True)
class WaitingVacuum:
    """A vacuum, the holds it still waits for, and since when."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    locks: tuple[LockHold, ...]
    transactions: tuple[int, ...]
    since: AwareDatetime
    vacuum: Vacuum
    gone_locks: tuple[int, ...] = ()
    gone_transactions: tuple[int, ...] = ()
    """Holds that it waits for no longer, for as long as it waits: the table's memory is bounded."""

    def told(
        self, event: VacuumFinished, released: Container[int], ended: Container[int]
    ) -> WaitingVacuum:
        """Told of, perhaps not for the first time: it waits for what is new and not gone.

        A writer and a bridge may have seen different holds: it waits for those of both.
        """
        known = {*self.gone_locks, *(each.lock_id for each in self.locks)}
        locks = [each for each in event.locks if each.lock_id not in known]
        begun = {*self.gone_transactions, *self.transactions}
        txns = [each for each in event.open_transactions if each not in begun]
        return replace(
            self,
            locks=(*self.locks, *(each for each in locks if each.lock_id not in released)),
            gone_locks=(
                *self.gone_locks,
                *(each.lock_id for each in locks if each.lock_id in released),
            ),
            transactions=(*self.transactions, *(each for each in txns if each not in ended)),
            gone_transactions=(
                *self.gone_transactions,
                *(each for each in txns if each in ended),
            ),
        )

    def without(self, lock: int | None, txn: int | None) -> WaitingVacuum:
        """Give what is left to wait for; itself where it did not wait for these."""
        locks = tuple(each for each in self.locks if each.lock_id != lock)
        transactions = tuple(each for each in self.transactions if each != txn)
        gone = () if lock is None or len(locks) == len(self.locks) else (lock,)
        ended = () if txn is None or len(transactions) == len(self.transactions) else (txn,)
        if not gone and not ended:
            return self
        return replace(
            self,
            locks=locks,
            gone_locks=(*self.gone_locks, *gone),
            transactions=transactions,
            gone_transactions=(*self.gone_transactions, *ended),
        )

    @property
    def is_free(self) -> bool:
        """Whether every hold is gone."""
        return not self.locks and not self.transactions


@dataclass(frozen=True, slots=True)
class GateState:
    """One table's memory: vacuums by their event id, and what was released when."""

    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    waiting: dict[str, WaitingVacuum] = field(default_factory=dict[str, WaitingVacuum])
    released_locks: Memory[int] = ()
    ended_transactions: Memory[int] = ()
    released_vacuums: Memory[str] = ()

    def has_old(self, before: int) -> bool:
        """Whether anything that is remembered was heard before a moment (ms)."""
        return (
            has_old(self.released_locks, before)
            or has_old(self.ended_transactions, before)
            or has_old(self.released_vacuums, before)
        )

    def without_old(self, before: int) -> GateState:
        """Give the state without what was heard before a moment (ms)."""
        return GateState(
            self.waiting,
            without_old(self.released_locks, before),
            without_old(self.ended_transactions, before),
            without_old(self.released_vacuums, before),
        )
