"""The reader gate's decisions about holds of people and about quarantines. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from tidegate.cleaning.gate_commands import GATE
from tidegate.cleaning.gate_decision import Turn, milliseconds
from tidegate.cleaning.gate_holds import (
    DEFERRED,
    HOLD,
    DeferredCleaning,
    TableHold,
    deferral,
    deferred_name,
    deferred_pieces,
    due_deferred,
    dump_hold,
    hold_of,
    parse_hold,
    said_held,
    said_removed,
)
from tidegate.cleaning.gate_quarantine import (
    KEPT,
    KeptQuarantine,
    after_start,
    dump_kept,
    kept_name,
    parse_kept,
    removal_of,
)
from tidegate.cleaning.gate_state import GateState
from tidegate.cleaning.held import released_again
from tidegate.events import (
    CleaningDeferred,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningStarted,
    CleaningUndone,
    Command,
    Event,
    QuarantineRemoved,
)
from tidegate.runtime.protocols import Decision, Pieces

CONSUMED: tuple[type[Event], ...] = (
    CleaningHoldRequested,
    CleaningHoldRemovalRequested,
    CleaningDeferred,
    CleaningStarted,
    CleaningUndone,
    QuarantineRemoved,
)
_NAMES = frozenset({HOLD, DEFERRED, KEPT})
Piece = TableHold | DeferredCleaning | KeptQuarantine


def is_ours(name: str) -> bool:
    """Whether a record of this name is of a hold, of a deferred cleaning or of a quarantine."""
    return name[0] in _NAMES


def dump(piece: Piece) -> bytes:
    """The record of a piece."""
    return dump_kept(piece) if isinstance(piece, KeptQuarantine) else dump_hold(piece)


def parse(name: str, record: bytes) -> Piece:
    """The piece of a record.

    Raises:
        ValueError, TypeError, KeyError: it is not one that `dump` made.
    """
    return parse_kept(record) if name[0] == KEPT else parse_hold(name, record)


def decide(turn: Turn, event: Event) -> None:
    """Apply one of the events above."""
    match event:
        case CleaningHoldRequested():
            turn.index.is_held, turn.changed[HOLD] = True, TableHold.of(event, turn.at)
            turn.outcomes.append(said_held(event, turn.at, GATE))
        case CleaningHoldRemovalRequested():
            _remove_hold(turn, event)
        case CleaningDeferred():
            turn.changed[deferred_name(event)] = deferral(event, turn.pieces, turn.now)
        case CleaningStarted():
            name = kept_name(event.caused_by or "")
            before = turn.pieces.get(name)
            known = before if isinstance(before, KeptQuarantine) else None
            if (kept := after_start(event, known, turn.now)) is not None:
                turn.changed[name] = kept
        case CleaningUndone() | QuarantineRemoved():
            _end_quarantine(turn, event)
        case _:
            raise TypeError(f"{type(event).__name__} is decided elsewhere")


def _remove_hold(turn: Turn, event: CleaningHoldRemovalRequested) -> None:
    turn.index.is_held = False
    if hold_of(turn.pieces) is not None:
        turn.changed[HOLD] = None
    for name, piece in deferred_pieces(turn.pieces).items():
        turn.changed[name] = None
        turn.commands.append(released_again(piece.event, turn.at, GATE))
    turn.free_those_ready()
    released = len(turn.commands) + len(turn.freed)
    turn.outcomes.append(said_removed(event, released, turn.at, GATE))


def _end_quarantine(turn: Turn, event: CleaningUndone | QuarantineRemoved) -> None:
    name = kept_name(event.cleaning)
    piece = turn.pieces.get(name)
    if not isinstance(piece, KeptQuarantine):
        return
    if isinstance(event, CleaningUndone):
        turn.changed[name] = piece.after_undo()
    elif event.parts is None or event.part == event.parts:
        turn.changed[name] = None


def due_ms(name: str, pieces: Pieces) -> int | None:
    """When a piece is due, in ms of the broker's time; None: never."""
    if name == HOLD:
        return None
    match pieces.get(name):
        case KeptQuarantine() as kept:
            return kept.due_ms
        case DeferredCleaning() as piece:
            return piece.retry_ms
        case _:
            return None


def decide_due(
    state: GateState, table: str, names: Collection[str], at: datetime
) -> Decision[GateState]:
    """Ask for what is due by now, of the pieces named."""
    pieces, now = state.loaded.pieces, milliseconds(at)
    changed: dict[str, object] = {}
    commands: list[Command] = []
    is_held = hold_of(pieces) is not None
    for name in sorted(names):
        due = due_ms(name, pieces)
        if due is None or due > now:
            continue
        piece = pieces.get(name)
        if isinstance(piece, KeptQuarantine):
            changed[name] = piece.later(now) if is_held else piece.asked_for(now)
            if not is_held:
                commands.append(removal_of(table, piece, at, GATE))
        elif isinstance(piece, DeferredCleaning):
            changed[name], released = due_deferred(piece, pieces, at, GATE)
            commands += released
    return Decision(state, commands, pieces=changed)
