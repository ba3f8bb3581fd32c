"""The reader gate: a vacuum waits until the last lock and transaction that it saw has ended.

A vacuum, here, is what Hive calls a compaction. Events may arrive in any order, twice, or late. The
end of a lock is remembered for as long as a vacuum waits that lists it, and for `remember_for`
besides, because a vacuum that lists it may still be on its way. What is forgotten then leaves a
mark: a vacuum that arrives with a hold at or below the mark makes an outcome that people see, and
publishing the release again sets it free. Forgetting delays a cleaning; it never makes one unsafe,
and it is never silent. A vacuum that waits longer than a limit, and a table of which only releases
come, make outcomes too, once, and again when that is over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar

from tidegate.cleaning import gate_people
from tidegate.cleaning.gate_alarms import USUAL_ALARMS, Alarms
from tidegate.cleaning.gate_commands import GATE, WaitedFor, command
from tidegate.cleaning.gate_decision import (
    Turn,
    chunks_of,
    held_lock,
    holds_of,
    index_vacuum,
)
from tidegate.cleaning.gate_holds import DeferredCleaning, hold_of
from tidegate.cleaning.gate_index import GateIndex, RememberedIds
from tidegate.cleaning.gate_state import (
    CLEANED,
    RELEASED,
    UNKNOWN,
    VACUUM,
    GateState,
    Vacuum,
    WaitingVacuum,
    dump_piece,
    most_bytes,
    parse_piece,
)
from tidegate.cleaning.gate_upgrade import upgraded
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningReleased,
    Event,
    LockReleased,
    VacuumFinished,
    WritesAborted,
)
from tidegate.runtime.protocols import Decision, Pieces


@dataclass(frozen=True, slots=True)
class ReaderGate:
    """A decider (see `tidegate.runtime.protocols`) that releases a vacuum's cleaning.

    Ended locks and transactions are remembered for `remember_for` of the broker's time, and about
    `remember_most` of them a table, the oldest forgotten first; those that a waiting vacuum lists
    are kept beyond that. Waiting vacuums are never forgotten.
    """

    name: ClassVar[str] = GATE
    consumes: ClassVar[tuple[type[Event], ...]] = (
        VacuumFinished,
        LockReleased,
        WritesAborted,
        *gate_people.CONSUMED,
    )
    state_type: type[GateState] = GateState
    remember_for: timedelta = timedelta(days=7)
    remember_most: int = 2**18
    alarms: Alarms = USUAL_ALARMS
    """How long vacuums may wait, and releases of unknown tables may come, before it is said."""
    _remember_ms: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Work out once what `decide` needs for every event."""
        object.__setattr__(self, "_remember_ms", self.remember_for // timedelta(milliseconds=1))

    def initial(self) -> GateState:
        """Nothing is known of the table."""
        return GateState()

    def dump_piece(self, piece: object) -> bytes:
        """Serialize one of the records beside the main one."""
        if type(piece) is WaitingVacuum or not isinstance(piece, gate_people.Piece):
            return dump_piece(piece)
        return gate_people.dump(piece)

    def most_bytes(self, piece: object) -> int:
        """A bound of the size of its record."""
        if isinstance(piece, DeferredCleaning):  # it may be as large as its vacuum
            return len(gate_people.dump(piece))
        return most_bytes(piece)

    def parse_piece(self, name: str, record: bytes) -> object:
        """Read one of them back."""
        if gate_people.is_ours(name):
            return gate_people.parse(name, record)
        return parse_piece(name, record)

    def upgrade(self, state: object) -> tuple[GateState, Mapping[str, object]]:
        """Convert a record of version 0.1, which held the whole table."""
        return upgraded(state)

    def prepare(self, state: GateState, pieces: Pieces) -> GateState:
        """Derive the index from all records of the table."""
        index = GateIndex(
            pieces,
            RememberedIds(chunks_of(pieces, RELEASED), state.released),
            RememberedIds(chunks_of(pieces, CLEANED), state.cleaned),
        )
        index.is_new = state == GateState() and next(iter(pieces.names()), None) is None
        index.is_held = hold_of(pieces) is not None
        index.is_unknown = pieces.get(UNKNOWN) is not None
        for name in pieces.names():
            if name[0] == VACUUM and not index_vacuum(index, name, holds_of(pieces, name)):
                index.ready.append(name)
        return replace(state, index=index)

    def due_ms(self, table: str, name: str, pieces: Pieces) -> int | None:
        """When people are to be told of what waits, or when the time of a quarantine is over."""
        if name[0] != VACUUM and gate_people.is_ours(name):
            return gate_people.due_ms(name, pieces)
        return self.alarms.due_ms(table, name, pieces)

    def decide_due(
        self, state: GateState, table: str, names: Collection[str], at: datetime
    ) -> Decision[GateState]:
        """Tell people of what has waited too long by now, and end quarantines."""
        ours = {name for name in names if gate_people.is_ours(name)}
        others = [name for name in names if name not in ours]
        changed, outcomes = self.alarms.say(table, others, state.loaded, at)
        due = gate_people.decide_due(state, table, ours, at)
        return Decision(state, due.commands, outcomes, {**changed, **due.pieces})

    def decide(self, state: GateState, event: Event, at: datetime) -> Decision[GateState]:
        """Apply one event; release every vacuum that it sets free.

        Nobody reads what an aborted write left: it waits for nothing, and nothing is remembered.
        """
        # by type: pydantic's own question for a subclass costs six times as much
        if type(event) is WritesAborted:
            return Decision(state, [aborted_command(event, at)])
        turn = Turn(state, event, at)
        before = turn.now - self._remember_ms
        if state.released_at < before:
            turn.close_if_old(before)
        if type(event) is LockReleased:
            turn.release(event)
        elif type(event) is VacuumFinished:
            turn.vacuum(event)
        elif isinstance(event, gate_people.CONSUMED):
            gate_people.decide(turn, event)
        else:
            return Decision(state)
        if turn.index.ready:
            turn.free_those_ready()
        return turn.finish(before, self.remember_most)


def command_for(vacuum: VacuumFinished, at: datetime) -> CleaningReleased:
    """The command that follows once the vacuum is free; also what a dry run plans for."""
    waited_for = WaitedFor.of(map(held_lock, vacuum.locks), vacuum.open_transactions)
    return command(vacuum.table, vacuum.event_id, Vacuum.of(vacuum), at, waited_for)


def aborted_command(event: WritesAborted, at: datetime) -> AbortedCleaningReleased:
    """The command to remove what aborted writes left."""
    return AbortedCleaningReleased.about(
        event,
        source=GATE,
        occurred_at=at,
        partition=event.partition,
        valid_write_ids=event.valid_write_ids,
        content=event.content,
    )
