"""What an executor is: it carries out commands, changes tables, and keeps no state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final, Protocol

from tidegate.events import Command, Outcome
from tidegate.events.fields import compared
from tidegate.events.signature import Proof
from tidegate.runtime.authorization import TrustedKey
from tidegate.tables.claim import Claim, Task
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

PROGRESS_EVERY: Final = timedelta(seconds=20)
"""Between two outcomes that report the progress of one task."""


@dataclass(frozen=True, slots=True)
class Published:
    """A command that was published, with the broker's time and the verified signer."""

    command: Command
    at: datetime
    signed_by: TrustedKey | None = None

    @property
    def signer(self) -> str | None:
        """The verified name; None: no signature was verified."""
        return self.signed_by.name if self.signed_by else None

    @property
    def named(self) -> str:
        """The sender for people."""
        return Proof(self.signer).named(self.command.asked_by)

    @property
    def names(self) -> frozenset[str]:
        """Every possible name of the sender, normalised for comparison."""
        signed = [self.signer] if self.signer else []
        return frozenset(map(compared, [self.command.asked_by, *signed]))


class Executor(Protocol):
    """Executes commands of some kinds and yields their outcomes.

    The loop calls `execute` once or more for each command, from several threads for different
    tables. It may block for as long as it takes. Outcomes that say how far it is are published as
    they are yielded, the last ones once they are recorded on the table; then the task is
    acknowledged. A refusal is an outcome, not an error.

    Raises (from `execute`):
        TransientError, OSError: the loop retries with backoff.
        PermanentError: the loop writes the command to the dead letters.
    """

    name: ClassVar[str]
    consumes: ClassVar[tuple[type[Command], ...]]

    def claim(self, command: Command, task: Task) -> Claim:
        """Claim the location that a task's command changes.

        Raises:
            Overtaken, AlreadyDone, NumberTaken, Refused: nothing is to be done, see `Claim.take`.
        """
        ...

    def execute(
        self, command: Command, claim: AnyClaim = NO_CLAIM, grounds: Sequence[Published] = ()
    ) -> Iterator[Outcome]:
        """Plan, act, and yield the outcomes.

        `grounds` are the messages that the task rests on: the command, and its approval if any.
        Calls `claim.check` right before each irreversible step, and raises what it raises.
        """
        ...
