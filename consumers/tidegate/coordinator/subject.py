"""A subject: what the coordinator decides about one matter, over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from tidegate.events import Answer, Command, Event, Outcome, TaskIssued
from tidegate.events.fields import to_ms
from tidegate.events.topics import Role

if TYPE_CHECKING:
    from tidegate.coordinator.rows.store import RowType, Store

SOURCE: Final = str(Role.COORDINATOR)
"""The coordinator, as its events name it."""


@dataclass(slots=True)
class Effects:
    """The messages to publish because of an event.

    Messages are remembered before they are published, and may be published again after a crash:
    their ids derive from their cause, never from a clock or a counter.
    """

    commands: list[Command] = field(default_factory=list[Command])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    republish: list[TaskIssued] = field(default_factory=list[TaskIssued])
    """Running tasks, to publish once more."""

    def add(self, others: Effects) -> None:
        """Add others, behind these."""
        self.commands += others.commands
        self.outcomes += others.outcomes
        self.republish += others.republish

    def name_asker(self, command: Command, signed_by: str | None) -> None:
        """Let the answers to a command name its requester and the verified signer."""
        self.outcomes = [
            outcome.to(command, signed_by)
            if isinstance(outcome, Answer) and outcome.caused_by == command.event_id
            else outcome
            for outcome in self.outcomes
        ]


class Subject(Protocol):
    """Decides on events of its kinds, and on the time alone.

    A decision is a function of the rows, the event and the broker's time. It may not block, read a
    clock, a table or a socket. Where `handle` raises, its changes of rows are rolled back and the
    event becomes a dead letter.
    """

    @property
    def consumes(self) -> tuple[type[Event], ...]:
        """The kinds of events that it decides on."""
        ...

    @property
    def row_types(self) -> Sequence[RowType]:
        """The rows that it keeps."""
        ...

    def restored(self, rows: Store) -> None:
        """Derive the columns that are not in the changelog, once after each restore."""
        ...

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Decide on one event, which the broker appended at this time."""
        ...

    def next_due(self, rows: Store) -> int | None:
        """When `due` has something to do, in ms of the broker's time; None: never. Cheap."""
        ...

    def due(self, rows: Store, at: datetime) -> Effects:
        """Decide on rows that are due at the broker's time, a bounded number of rows at once.

        Called only once all events that the broker appended before were applied. It must not raise:
        no event could be dead-lettered for it, so the service stops.
        """
        ...


class Subjects:
    """Several subjects as one: an event goes to every subject that consumes it."""

    def __init__(self, *subjects: Subject) -> None:
        """Take them, and those of other `Subjects` one by one; each has rows of its own."""
        parts = (it.parts if isinstance(it, Subjects) else (it,) for it in subjects)
        self.parts: tuple[Subject, ...] = tuple(chain.from_iterable(parts))
        self.consumes = tuple(dict.fromkeys(kind for s in self.parts for kind in s.consumes))
        self.row_types = tuple(it for subject in self.parts for it in subject.row_types)
        self._handlers = {
            kind: [subject.handle for subject in self.parts if kind in subject.consumes]
            for kind in self.consumes
        }

    def restored(self, rows: Store) -> None:
        """Derive what every subject derives."""
        for subject in self.parts:
            subject.restored(rows)

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Decide on one event."""
        first, *others = self._handlers[type(event)]  # most kinds have one
        effects = first(event, rows, at)
        for handle in others:
            effects.add(handle(event, rows, at))
        return effects

    def next_due(self, rows: Store) -> int | None:
        """When the first of them has something to do."""
        return min(
            (due for subject in self.parts if (due := subject.next_due(rows)) is not None),
            default=None,
        )

    def due(self, rows: Store, at: datetime) -> Effects:
        """Decide on rows that are due."""
        effects, now = Effects(), to_ms(at)
        for subject in self.parts:
            if (due := subject.next_due(rows)) is not None and due <= now:
                effects.add(subject.due(rows, at))
        return effects
