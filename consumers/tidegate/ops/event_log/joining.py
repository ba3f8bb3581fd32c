"""Join the parts of an outcome to one event of the log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.events.outcomes import DirectoriesOutcome
from tidegate.events.parts import PartsJoiner
from tidegate.ops.event_log.logged import LoggedEvent


class JoinedLog:
    """Joins parts of outcomes: takes events oldest first, and yields complete ones.

    A part whose predecessors are missing is yielded unchanged. Parts whose last one is missing are
    yielded when the outcome starts again, or by `rest`.
    """

    def __init__(self) -> None:
        """Start without parts."""
        self._joiner = PartsJoiner()
        self._waiting: dict[tuple[str, str | None], list[LoggedEvent]] = {}

    def add(self, logged: LoggedEvent) -> Iterator[LoggedEvent]:
        """Take the next event; yield events that are complete or can't become complete."""
        event = logged.event
        if not isinstance(event, DirectoriesOutcome) or event.part is None:
            yield logged
            return
        key = type(event).__name__, event.caused_by
        if event.part == 1:
            yield from self._waiting.pop(key, ())
        elif not self._joiner.follows(event):
            yield logged
            return
        joined = self._joiner.add(event)
        if joined is None:
            self._waiting.setdefault(key, []).append(logged)
        else:
            self._waiting.pop(key, None)
            yield replace(logged, event=joined)

    def rest(self) -> Iterator[LoggedEvent]:
        """The parts whose last one is missing."""
        for parts in self._waiting.values():
            yield from parts
        self._waiting.clear()
