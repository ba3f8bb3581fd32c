"""The two kinds of service: a decider remembers, an executor touches the world; never both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from tidegate.events import Command, Event, Outcome

S = TypeVar("S")


class Decision(NamedTuple, Generic[S]):
    """What a decider answers: its table's next state, and the commands to publish."""

    state: S
    commands: Sequence[Command] = ()


class Decider(Protocol[S]):
    """A pure function from a table's state and an event to the next state and commands.

    The loop calls `decide` once for every event of the declared kinds, in the order of each
    partition. It may not block, read a clock, a table or a socket. `at` is the time at which the
    broker appended the event: the one clock that all events share.
    """

    name: ClassVar[str]
    """The consumer group and the changelog are named after it."""
    hears: ClassVar[tuple[type[Event], ...]]

    @property
    def state_type(self) -> type[S]:
        """The type of a table's state: immutable, and one that pydantic keeps as JSON."""
        ...

    def initial(self) -> S:
        """The state of a table that was never heard of. A state equal to it is not kept."""
        ...

    def decide(self, state: S, event: Event, at: datetime) -> Decision[S]:
        """Answer one event. Called again with the same arguments it answers the same.

        Where nothing changes, the answer holds the very state that was given: it is not written.
        """
        ...


class Executor(Protocol):
    """Carries out one kind of command and says what came of it.

    The loop calls `execute` once or more for each command, from several threads for different
    tables. It may block as long as it must. Outcomes are published as they are yielded; the command
    is acknowledged after the last. A refusal is an outcome.

    Raises (from `execute`):
        TransientError, OSError: the loop tries again with backoff.
        PermanentError: the loop writes the command to the dead letters.
    """

    name: ClassVar[str]
    hears: ClassVar[tuple[type[Command], ...]]
    looks_back: ClassVar[bool]
    """Whether doing a command again could do harm: the loop then calls `is_answered` before."""

    def is_answered(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether a command with these outcomes so far, oldest first, must not be done again.

        Called only where `looks_back`, for every command, before `execute`.
        """
        ...

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Plan, act, and yield the outcomes."""
        ...
