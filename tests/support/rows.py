"""A subject with its rows as the coordinator's loop handles them, and the deaths of its process."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.requests import Requests
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Effects, Subject
from tidegate.coordinator.vacuums import WaitingVacuum, waiting_vacuums
from tidegate.events import Command, Event, Outcome
from tidegate.runtime.bus import ChangelogRecord

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Rows:
    """Decides on events; where it `restarts`, another process reads the changelog after each."""

    def __init__(self, subject: Subject | None = None, *, restarts: bool = True) -> None:
        self.subject, self.restarts = subject or ReaderGate(), restarts
        self.store = Store((*self.subject.row_types, *Requests.row_types))
        self.log: list[ChangelogRecord] = []
        self.outcomes: list[Outcome] = []

    def handle(self, *events: Event, at: datetime = NOON) -> list[Command]:
        """Decide on events; return the commands."""
        commands: list[Command] = []
        for event in events:
            self.store.begin()
            try:
                effects = self.subject.handle(event, self.store, at)
            except BaseException:
                self.store.rollback()
                raise
            commands += self._took(effects)
        return commands

    def tick(self, at: datetime) -> list[Command]:
        """Decide on what is due; return the commands."""
        due = self.subject.next_due(self.store)
        if due is None or due > at.timestamp() * 1000:
            return []
        self.store.begin()
        return self._took(self.subject.due(self.store, at))

    def _took(self, effects: Effects) -> list[Command]:
        self.store.commit()
        self.outcomes += effects.outcomes
        if self.restarts:
            self.restart()
        return effects.commands

    def write(self) -> list[ChangelogRecord]:
        """Append what changed to the changelog; return it."""
        written = self.store.batch()
        self.log += written
        return written

    def restart(self) -> None:
        """Let another process read the changelog."""
        self.write()
        self.store = restored(self.subject, self.log)

    def live(self) -> dict[bytes, bytes]:
        """What compaction leaves of the changelog."""
        self.write()
        return {key: value for key, value in dict(self.log).items() if value is not None}

    def waiting(self) -> list[WaitingVacuum]:
        """The vacuums that wait."""
        return list(waiting_vacuums(self.store))


def restored(subject: Subject, log: list[ChangelogRecord]) -> Store:
    """The rows of a changelog."""
    store = Store((*subject.row_types, *Requests.row_types))
    store.restore(log)
    subject.restored(store)
    return store
