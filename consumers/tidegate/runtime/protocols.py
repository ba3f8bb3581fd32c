"""The two kinds of service: a decider keeps state, an executor changes tables, none does both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from tidegate.events import Command, Event, Outcome

S = TypeVar("S")
NO_PIECES: Final[Mapping[str, object]] = MappingProxyType({})


class Decision(NamedTuple, Generic[S]):
    """What follows from one event: the table's next state, and what to publish.

    Commands and outcomes are published before the state is written, so after a crash they may be
    published again: their ids must derive from their cause, never from a clock or a counter.
    """

    state: S
    commands: Sequence[Command] = ()
    outcomes: Sequence[Outcome] = ()
    """What people should know of the decision: the audit trail."""
    pieces: Mapping[str, object] = NO_PIECES
    """What changes among a piecewise decider's further records: by name the piece, or None."""


class Decider(Protocol[S]):
    """A pure function from a table's state and an event to the next state and commands.

    The loop calls `decide` once for every event of the declared kinds, in the order of each
    partition. It may not block, read a clock, a table or a socket. `at` is the time at which the
    broker appended the event: the one clock that all events share.
    """

    name: ClassVar[str]
    """Names the consumer group and the changelog."""
    consumes: ClassVar[tuple[type[Event], ...]]
    """After a start, the backlog of the first kind's topic is read before those of the others."""

    @property
    def state_type(self) -> type[S]:
        """The type of a table's state: immutable, and one that pydantic can convert to JSON."""
        ...

    def initial(self) -> S:
        """The state of a table of which no event was seen. A state equal to it is not stored."""
        ...

    def decide(self, state: S, event: Event, at: datetime) -> Decision[S]:
        """Decide on one event; equal arguments give equal decisions.

        Where nothing changes, the decision holds the same state object that was passed in: the
        loop then writes nothing.
        """
        ...


class Pieces(Protocol):
    """The records of one table beside its main one, by name. A read-only and live view."""

    def names(self) -> Iterable[str]:
        """Every name, in no particular order."""
        ...

    def get(self, name: str) -> object | None:
        """The piece of this name, parsed; None where there is none."""
        ...


@runtime_checkable
class TimedDecider(Decider[S], Protocol[S]):
    """A decider that also decides when time alone has passed.

    Time is the broker's (`runtime/decider/ticks.py`). Ticks are not in any topic: a replay has
    others. So a tick may only do what an event at that time would do as well, and the ids of its
    commands derive from what is in the state, never from the time.
    """

    def due(self, table: str, state: S) -> datetime | None:
        """From when on `tick` has something to do, if no event comes before; None: never.

        Called for every table at an assignment, and for a table after each of its decisions.
        """
        ...

    def tick(self, table: str, state: S, at: datetime) -> Decision[S]:
        """Decide on the time alone, as `decide` does on an event; no pieces."""
        ...


@runtime_checkable
class PiecewiseDecider(Decider[S], Protocol[S]):
    """A decider whose state of one table can be large: it is stored as a main record and pieces.

    The state is the main record; pieces are records of their own, loaded when they are asked for.
    Of an event that changes several, they are written in this order: new and changed pieces,
    removed ones, the main record, which says up to where the table was applied. After a crash in
    between, the events of that write are decided again on what had been written. A piecewise
    decider has to come to the same end then: that holds where pieces are put whole, never added to
    or changed in place, and a removed piece is known from the commands that it gave rise to.
    """

    def prepare(self, state: S, pieces: Pieces) -> S:
        """Prepare a loaded table: attach to the state what is derived from its pieces.

        What is attached may be changed in place by `decide`. Where `decide` raises, the table is
        opened again.
        """
        ...

    def parse_piece(self, name: str, record: bytes) -> object:
        """Read a piece.

        Raises:
            ValueError, TypeError, KeyError: the record can't be read.
        """
        ...

    def dump_piece(self, piece: object) -> bytes:
        """Serialize a piece. An event that needs a record above a megabyte is refused."""
        ...

    def most_bytes(self, piece: object) -> int:
        """A bound of the size of a piece's record, in bytes; cheap, because it is asked for each.

        Above a megabyte, the piece is serialized to know its size.
        """
        ...


@runtime_checkable
class PiecewiseTimedDecider(PiecewiseDecider[S], Protocol[S]):
    """A piecewise decider that also decides when time alone has passed: its pieces can fall due.

    Unlike a TimedDecider's, its tables need not be loaded to find due pieces: there may be very
    many pieces. Time is the broker's (`runtime/decider/ticks.py`).

    When a piece is due follows from the piece; it is stored nowhere else. What was decided once has
    to show in the piece, so that it is not decided again after a restart.
    """

    def due_ms(self, table: str, name: str, pieces: Pieces) -> int | None:
        """When a piece is due, in ms of the broker's time since the epoch; None: never.

        Asked for every piece that is written or was read back, so a piece that can never be due
        should be recognised by its name, without loading it.
        """
        ...

    def decide_due(self, state: S, table: str, names: Collection[str], at: datetime) -> Decision[S]:
        """Decide on pieces that were due when they were written; look at each, for it may be gone.

        Called once all events that the broker appended before `at`, the broker's time, were
        applied. It must not raise: no event could be dead-lettered for it, so the service stops.
        """
        ...


class Executor(Protocol):
    """Executes commands of some kinds and yields their outcomes.

    The loop calls `execute` once or more for each command, from several threads for different
    tables. It may block for as long as it takes. Outcomes are published as they are yielded; the
    command is acknowledged after the last one. A refusal is an outcome, not an error.

    Raises (from `execute`):
        TransientError, OSError: the loop retries with backoff.
        PermanentError: the loop writes the command to the dead letters.
    """

    name: ClassVar[str]
    consumes: ClassVar[tuple[type[Command], ...]]
    checks_past_outcomes: ClassVar[bool]
    """Whether running a command twice could do harm: the loop then calls `is_answered` first."""

    def is_answered(self, command: Command, outcomes: Sequence[Outcome]) -> bool:
        """Whether a command that has these outcomes, oldest first, must not be run again.

        All name the command as their cause. Every writer of outcomes can claim that, so an outcome
        counts only if it is about the command's own table and subject.

        Called before `execute`, for every command, and only where `checks_past_outcomes` is set.
        """
        ...

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Plan, act, and yield the outcomes."""
        ...
