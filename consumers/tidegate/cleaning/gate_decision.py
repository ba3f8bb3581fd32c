"""One decision of the reader gate in the making: what a release or a vacuum sets in motion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Final

from tidegate.cleaning.gate_alarms import first_release, resolved, table_known
from tidegate.cleaning.gate_commands import (
    WaitedFor,
    command,
    command_of_event,
    require_publishable,
)
from tidegate.cleaning.gate_flags import content_changed, holds_after_release, may_be_forgotten
from tidegate.cleaning.gate_index import (
    ClosedChunk,
    GateIndex,
    RememberedIds,
    expired_token,
    lock_token,
    transaction_token,
)
from tidegate.cleaning.gate_state import (
    CLEANED,
    MARKS,
    RELEASED,
    UNKNOWN,
    VACUUM,
    VACUUMS,
    Chunk,
    GateState,
    HeldLock,
    Marks,
    UnknownTable,
    Vacuum,
    WaitingVacuum,
    content,
    hashed,
    identity,
    vacuum_name,
)
from tidegate.events import (
    Command,
    Event,
    LockHold,
    LockReleased,
    Outcome,
    ReleaseReason,
    VacuumFinished,
)
from tidegate.runtime.protocols import Decision, Pieces

CHUNK: Final = 128
"""Ids in the main record before they become a chunk of their own."""
LARGEST_CHUNK: Final = 4096
"""Ids in a chunk at most: some 80 kB."""
_CLEANED_LIMIT: Final = 2 * 4096
"""Two for each vacuum: beyond these a repeat is released again, with the id that it had."""


class Turn:
    """One decision in the making."""

    __slots__ = (
        "at", "changed", "commands", "event", "freed", "index", "now", "outcomes", "pieces",
        "released", "state",
    )  # fmt: skip

    def __init__(self, state: GateState, event: Event, at: datetime) -> None:
        """Begin with nothing changed."""
        self.state, self.index = state, state.loaded
        self.pieces = self.index.pieces
        self.event, self.at, self.now = event, at, milliseconds(at)
        self.changed: dict[str, object] = {}
        self.released: list[int] = []
        self.freed: dict[str, WaitingVacuum] = {}
        self.commands: list[Command] = []
        self.outcomes: list[Outcome] = []

    def close_if_old(self, before: int) -> None:
        """Close the open chunk of a table that was quiet since a moment (ms of the epoch)."""
        state = self.state
        if state.released and state.released_at < before:
            number = self.index.released.close_chunk(state.released_at, len(state.released))
            self.changed[f"{RELEASED}{number}"] = Chunk(state.released_at, state.released)
            self.state = replace(state, released=(), released_at=0)

    def release(self, event: LockReleased) -> None:
        """A lock, a transaction, or both have ended."""
        tokens: list[int] = []
        if event.lock_id is not None:
            tokens.append(lock_token(event.lock_id))
        if event.transaction_id is not None:
            tokens.append(transaction_token(event.transaction_id))
        index = self.index
        if index.is_new:
            index.is_new, index.is_unknown = False, True
            self.changed[UNKNOWN] = first_release(event, self.at)
        ended = tokens
        if event.reason is ReleaseReason.EXPIRED:
            ended = [*tokens, *map(expired_token, tokens)]
        self.released += index.released.add(ended)
        for name in index.watching(tokens):
            self._watch_next(name)

    def vacuum(self, event: VacuumFinished) -> None:
        """A vacuum was published, perhaps not for the first time."""
        require_publishable(event)
        itself, index, done = identity(event), self.index, self.index.cleaned.tokens
        name = vacuum_name(itself)
        index.is_new = False
        if index.is_unknown:
            self._table_known(event)
        now = WaitingVacuum(
            event.event_id, self.at, content(event, itself), _locks(event), event.open_transactions,
            Vacuum.of(event), from_event=True,
        )  # fmt: skip
        before = self.pieces.get(name)
        if isinstance(before, VACUUMS):
            self._published_again(name, event, before.whole(), now)
            return
        if now.content in done or (len(done) and hashed(event.event_id) in done):
            late = [hold for hold in now.holds if not index.has_ended(hold)]
            if late and not all(self._is_below_mark(each) for each in late):
                self.outcomes.append(holds_after_release(event, self.at))
            return
        if itself in done:
            self.outcomes.append(content_changed(event, self.at))
        self._wait(name, event, now)

    def _table_known(self, event: VacuumFinished) -> None:
        """The first vacuum of a table of which only releases were known."""
        known = self.pieces.get(UNKNOWN)
        if isinstance(known, UnknownTable):
            self.outcomes += table_known(event, known, self.at)
        self.index.is_unknown, self.changed[UNKNOWN] = False, None

    def _published_again(
        self, name: str, event: VacuumFinished, before: WaitingVacuum, now: WaitingVacuum
    ) -> None:
        """A writer and a bridge may have seen different holds: wait for those of both."""
        known = {lock.lock_id: lock for lock in before.locks}
        for lock in now.locks:
            if lock.lock_id not in known or known[lock.lock_id].transaction_id is None:
                known[lock.lock_id] = lock
        locks = tuple(known.values())
        txns = tuple(dict.fromkeys((*before.transactions, *now.transactions)))
        merged = replace(before, locks=locks, transactions=txns)
        if before.content != now.content:  # the later publication is the correction
            self.outcomes += resolved(event.table, before, self.at, replaced_by=now.event_id)
            merged = replace(now, since=before.since, locks=locks, transactions=txns)
            self.outcomes.append(content_changed(event, self.at))
        if merged == before:
            return
        self.index.holds += len(merged.holds) - len(before.holds)
        self.changed[name] = merged
        if not index_vacuum(self.index, name, merged.holds, is_new=False):
            self.freed[name] = merged

    def _wait(self, name: str, event: VacuumFinished, vacuum: WaitingVacuum) -> None:
        if not index_vacuum(self.index, name, vacuum.holds):
            self.freed[name] = vacuum
            return
        self.changed[name] = vacuum
        if _marks(self.pieces) is _NO_MARKS:  # nothing was ever forgotten
            return
        unknown = [
            hold
            for hold in vacuum.holds
            if not self.index.has_ended(hold) and self._is_below_mark(hold)
        ]
        if unknown:
            self.outcomes.append(may_be_forgotten(event, self.at, unknown))

    def _is_below_mark(self, hold: Sequence[int]) -> bool:
        marks = _marks(self.pieces)
        limits = (marks.lock, marks.transaction)
        return any(
            (limit := limits[token & 1]) is not None and token >> 1 <= limit for token in hold
        )

    def _watch_next(self, name: str) -> None:
        vacuum = self.pieces.get(name)
        if not isinstance(vacuum, VACUUMS) or name in self.changed:
            return
        hold = self.index.next_hold(vacuum.holds)
        if hold is not None:
            self.index.watch(name, hold)
        elif name not in self.freed:
            self.freed[name] = vacuum.whole()

    def free_those_ready(self) -> None:
        """Those that wait for nothing but for people, or turned out so at the table's loading."""
        if not self.index.ready or self.index.is_held:
            return
        for name in self.index.ready:
            self._watch_next(name)
        self.index.ready = []

    def finish(self, before: int, limit: int) -> Decision[GateState]:
        """The decision. Records from before a moment (ms), or beyond the limit, are forgotten."""
        if self.index.is_held:
            self._hold_back()
        cleaned = self._free() if self.freed else ()
        state = self.state
        if self.released or cleaned:
            state = self._remember(tuple(self.released), cleaned)
        old, done = self.index.released, self.index.cleaned
        if old.closed and (old.has_old(before) or len(old) > limit):
            state = self._forget(state, before, limit)
        if done.closed and (done.has_old(before) or len(done) > _CLEANED_LIMIT + CHUNK):
            self._forget_cleaned(before)
        return Decision(state, self.commands, self.outcomes, self.changed)

    def _hold_back(self) -> None:
        """Somebody holds the table: what became free goes on waiting, for the hold's removal."""
        for name, vacuum in self.freed.items():
            if name not in self.changed and self.pieces.get(name) is None:
                self.changed[name] = vacuum
            self.index.ready.append(name)
        self.freed = {}

    def _free(self) -> tuple[int, ...]:
        done: list[int] = []
        freed = list(self.freed.items())
        if len(freed) > 1:
            freed.sort(key=lambda each: (each[1].since, each[1].event_id))
        for name, vacuum in freed:
            if name in self.changed or self.pieces.get(name) is not None:
                self.changed[name] = None
            self.index.waiting -= 1
            self.index.holds -= len(vacuum.holds)
            if vacuum.overdue_since is not None:
                self.outcomes += resolved(self.event.table, vacuum, self.at)
            done += [int(name[1:], 16), vacuum.content]
            expired = self.index.any_expired(vacuum.holds)
            make = command_of_event if vacuum.from_event else command
            table, vacuum_id = self.event.table, vacuum.event_id
            waited_for = WaitedFor.of(vacuum.locks, vacuum.transactions, after_expiry=expired)
            self.commands.append(make(table, vacuum_id, vacuum.vacuum, self.at, waited_for))
        return tuple(self.index.cleaned.add(done))

    def _remember(self, released: tuple[int, ...], cleaned: tuple[int, ...]) -> GateState:
        state, at = self.state, self.now
        released_at = at if released else state.released_at
        cleaned_at = at if cleaned else state.cleaned_at
        released, cleaned = state.released + released, state.cleaned + cleaned
        if len(released) >= CHUNK:
            self._close(self.index.released, RELEASED, released)
            released = ()
        if len(cleaned) >= CHUNK:
            self._close(self.index.cleaned, CLEANED, cleaned)
            cleaned = ()
        return GateState(released, released_at, cleaned, cleaned_at, self.index)

    def _close(self, memory: RememberedIds, letter: str, ids: Sequence[int]) -> None:
        """Close the open chunk with these ids; one release may free any number of vacuums."""
        for start in range(0, len(ids), LARGEST_CHUNK):
            part = tuple(ids[start : start + LARGEST_CHUNK])
            memory.add(part)
            self.changed[f"{letter}{memory.close_chunk(self.now, len(part))}"] = Chunk(
                self.now, part
            )

    def _forget(self, state: GateState, before: int, limit: int) -> GateState:
        """Forget what is old, but not what a waiting vacuum lists; leave a mark of the rest.

        It takes a look at every waiting vacuum, so it waits until that many ids can be forgotten.
        """
        index, memory = self.index, self.index.released
        expired = memory.expired(before, limit)
        if not expired or sum(each.size for each in expired) < index.holds:
            return state
        needed = self._needed() if index.waiting else frozenset[int]()
        forgotten: list[int] = []
        kept: list[int] = []
        for chunk in expired:
            name = f"{RELEASED}{chunk.number}"
            for key in memory.forget(chunk, self._chunk(name).ids):
                (kept if key in needed else forgotten).append(key)
            self.changed[name] = None
        self._close(memory, RELEASED, kept)
        if kept and state.released:  # the open chunk has a new number
            memory.add(state.released)
        if forgotten:
            self.changed[MARKS] = _raised(_marks(self.pieces), forgotten)
        return state

    def _forget_cleaned(self, before: int) -> None:
        for chunk in self.index.cleaned.expired(before, _CLEANED_LIMIT):
            name = f"{CLEANED}{chunk.number}"
            self.index.cleaned.forget(chunk, self._chunk(name).ids)
            self.changed[name] = None

    def _needed(self) -> frozenset[int]:
        """The tokens of everything that waiting vacuums list."""
        waiting = {name: None for name in self.pieces.names() if name[0] == VACUUM}
        waiting |= {name: None for name in self.changed if name[0] == VACUUM}
        tokens: set[int] = set()
        for name in waiting:
            vacuum = self.changed[name] if name in self.changed else self.pieces.get(name)
            if isinstance(vacuum, VACUUMS):
                for hold in vacuum.holds:
                    tokens.update(hold)
                    tokens.update(map(expired_token, hold))
        return frozenset(tokens)

    def _chunk(self, name: str) -> Chunk:
        chunk = self.changed.get(name) or self.pieces.get(name)
        if not isinstance(chunk, Chunk):
            raise TypeError(f"chunk {name} is missing")
        return chunk


def _locks(event: VacuumFinished) -> tuple[HeldLock, ...]:
    own, own_txn = event.own_lock_id, event.own_transaction_id
    locks = [held_lock(lock) for lock in event.locks]
    if own_txn is not None:  # the vacuum's own lock ends with its transaction
        locks = [
            lock._replace(transaction_id=own_txn)
            if lock.lock_id == own and lock.transaction_id is None
            else lock
            for lock in locks
        ]
    return tuple(locks)


def held_lock(lock: LockHold) -> HeldLock:
    """A lock of an event, as the gate has it."""
    return HeldLock(*_held_of(lock))


_held_of: Final = attrgetter(*HeldLock._fields)


def index_vacuum(
    index: GateIndex, name: str, holds: Collection[Sequence[int]], *, is_new: bool = True
) -> bool:
    """Count a vacuum, and let it watch a hold; False where all have ended."""
    if is_new:
        index.waiting += 1
        index.holds += len(holds)
    hold = index.next_hold(holds)
    if hold is None:
        return False
    index.watch(name, hold)
    return True


def chunks_of(pieces: Pieces, letter: str) -> list[tuple[ClosedChunk, tuple[int, ...]]]:
    """The closed chunks whose names begin with a letter."""
    return [
        (ClosedChunk(int(name[1:]), chunk.at, len(chunk.ids)), chunk.ids)
        for name in pieces.names()
        if name[0] == letter and isinstance(chunk := pieces.get(name), Chunk)
    ]


def holds_of(pieces: Pieces, name: str) -> Collection[Sequence[int]]:
    """The holds of the waiting vacuum of a name."""
    piece = pieces.get(name)
    if not isinstance(piece, VACUUMS):
        raise TypeError(f"{name} is not a vacuum")
    return piece.holds


_NO_MARKS: Final = Marks()


def _marks(pieces: Pieces) -> Marks:
    marks = pieces.get(MARKS)
    return marks if isinstance(marks, Marks) else _NO_MARKS


def _raised(marks: Marks, forgotten: Sequence[int]) -> Marks:
    ended = [token for token in forgotten if token >= 0]
    locks = [token >> 1 for token in ended if not token & 1]
    txns = [token >> 1 for token in ended if token & 1]
    known = ([each] if each is not None else [] for each in (marks.lock, marks.transaction))
    lock, txn = (
        max((*old, *new), default=None) for old, new in zip(known, (locks, txns), strict=True)
    )
    return Marks(lock, txn)


@lru_cache(maxsize=100)  # all messages of a batch have the broker's time of that batch
def milliseconds(at: datetime) -> int:
    """The milliseconds since the epoch."""
    return round(at.timestamp() * 1000)
