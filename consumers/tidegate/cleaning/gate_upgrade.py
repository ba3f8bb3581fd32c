"""The form in which the reader gate stored a table up to version 0.1: the whole in one record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from pydantic import AwareDatetime, ConfigDict, TypeAdapter

from tidegate.cleaning.gate_index import lock_token, transaction_token
from tidegate.cleaning.gate_state import (
    CLEANED,
    RELEASED,
    VACUUM,
    Chunk,
    GateState,
    HeldLock,
    Vacuum,
    WaitingVacuum,
    hashed,
)
from tidegate.events import LockHold

_CLOSED: Final = ConfigDict(extra="forbid")
_IdPages = tuple[tuple[int, tuple[int, ...]], ...]
_NamePages = tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Waiting:
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    locks: tuple[LockHold, ...]
    transactions: tuple[int, ...]
    since: AwareDatetime
    vacuum: Vacuum
    gone_locks: tuple[int, ...] = ()
    gone_transactions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Whole:
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    waiting: dict[str, _Waiting] = field(default_factory=dict[str, _Waiting])
    released_locks: _IdPages = ()
    ended_transactions: _IdPages = ()
    released_vacuums: _NamePages = ()


_FORM: Final = TypeAdapter(_Whole)


def upgraded(state: object) -> tuple[GateState, dict[str, object]]:
    """The main record and the pieces that a state of the old form becomes.

    A vacuum that waits keeps the holds that have not ended; it is named by its event, because the
    old form does not know its own lock.

    Args:
        state: The old record's state, as parsed from JSON.

    Raises:
        ValueError: it is not of the old form either.
    """
    whole = _FORM.validate_python(state)
    pieces: dict[str, object] = {}
    for event_id, each in whole.waiting.items():
        name = f"{VACUUM}{hashed(event_id):016x}"
        pieces[name] = WaitingVacuum(
            event_id,
            each.since,
            hashed(event_id),
            tuple(
                HeldLock(it.lock_id, it.transaction_id, it.partition, it.lock_type, it.owner)
                for it in each.locks
            ),
            each.transactions,
            each.vacuum,
        )
    ended = [(at, lock_token(it)) for at, ids in whole.released_locks for it in ids]
    ended += [(at, transaction_token(it)) for at, ids in whole.ended_transactions for it in ids]
    done = [(at, hashed(it)) for at, names in whole.released_vacuums for it in names]
    pieces |= {f"{RELEASED}{n}": chunk for n, chunk in enumerate(_chunks(ended))}
    pieces |= {f"{CLEANED}{n}": chunk for n, chunk in enumerate(_chunks(done))}
    return GateState(), pieces


def _chunks(dated: list[tuple[int, int]]) -> list[Chunk]:
    dated.sort()
    parts = [dated[n : n + 1024] for n in range(0, len(dated), 1024)]
    return [Chunk(part[-1][0], tuple(it for _, it in part)) for part in parts]
