"""Outcomes in parts as one event of the log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.events.outcomes import DirectoriesOutcome
from tidegate.events.parts import PartsJoiner
from tidegate.ops.event_log.logged import LoggedEvent


class JoinedLog:
    """Takes what was logged, oldest first, and gives an outcome in parts once, with its last part.

    A part without those before it is given as it is: it says which one it is. Parts whose last one
    is missing are given when they begin again, or by `rest`.
    """

    def __init__(self) -> None:
        """Begin without any part."""
        self._joiner = PartsJoiner()
        self._waiting: dict[tuple[str, str | None], list[LoggedEvent]] = {}

    def add(self, logged: LoggedEvent) -> Iterator[LoggedEvent]:
        """Take the next event; give what is whole, or will never be."""
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
        whole = self._joiner.add(event)
        if whole is None:
            self._waiting.setdefault(key, []).append(logged)
        else:
            self._waiting.pop(key, None)
            yield replace(logged, event=whole)

    def rest(self) -> Iterator[LoggedEvent]:
        """The parts that have no last one."""
        for parts in self._waiting.values():
            yield from parts
        self._waiting.clear()
