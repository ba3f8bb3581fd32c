"""What an executor is: it carries out commands, changes tables, and keeps no state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

from tidegate.events import Command, Outcome
from tidegate.tables.claim import Claim, Task
from tidegate.tables.task_numbers import NO_CLAIM, Unclaimed


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

    def claim(self, command: Command, task: Task) -> Claim:
        """Claim the location that a task's command changes.

        Raises:
            Overtaken, AlreadyDone, NumberTaken, Refused: nothing is to be done, see `Claim.take`.
        """
        ...

    def execute(self, command: Command, claim: Unclaimed = NO_CLAIM) -> Iterator[Outcome]:
        """Plan, act, and yield the outcomes.

        Calls `claim.check` right before each irreversible step, and raises what it raises.
        """
        ...
