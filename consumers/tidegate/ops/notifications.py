"""Messages to people by apprise, about what needs them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.events import Event, RestoreAwaitingApproval, RestoreFailed, TaskEnd, TaskEnded
from tidegate.events.base import Alarm
from tidegate.monitoring.visible import visible
from tidegate.ops.summary import NO_WRITES, counted, sentence

if TYPE_CHECKING:
    from pydantic import SecretStr

log = logging.getLogger(__name__)
_MOST_LINES: Final = 50
"""Of a message; an address that does not answer misses what is older."""
_DEAD_LETTERS_EVERY: Final = 300.0
"""Seconds between two messages about new dead letters: a flood may last for hours."""


class Notifications:
    """Collects lines during a poll and sends them as one message to every address."""

    def __init__(
        self,
        addresses: Iterable[SecretStr],
        prefix: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take apprise's addresses and the prefix of the topics; without addresses nothing is sent.

        Raises:
            ConfigError: apprise does not understand an address.
            ModuleNotFoundError: apprise is not installed.
        """
        self._addresses = [_Address(*numbered) for numbered in enumerate(addresses, 1)]
        self._title, self._clock, self._dead_letters_due = f"Tidegate ({prefix})", clock, 0.0
        self._lines: list[str] = []
        self._dead_letters = Counter[str]()

    def take(self, event: Event, *, half_way: bool) -> None:
        """Take the next outcome; `half_way`: the table's restore failed, and it takes no writes."""
        gave_up = isinstance(event, TaskEnded) and event.end is TaskEnd.DEAD_LETTERED
        if not gave_up and not isinstance(event, Alarm | RestoreAwaitingApproval | RestoreFailed):
            return
        text = f"{event.table}: {type(event).__name__}: {sentence(event)}"
        if half_way and not isinstance(event, Alarm):
            text += f"; {NO_WRITES}"
        self._add(text, command_line("explain", event.table))

    def take_dead_letters(self, fault: str, count: int) -> None:
        """Take new dead letters; a flood of them is one message every five minutes."""
        self._dead_letters[fault] += count

    def send(self) -> None:
        """Send the collected lines, and those that an address did not take before."""
        now = self._clock()
        if self._dead_letters and now >= self._dead_letters_due:
            self._dead_letters_due = now + _DEAD_LETTERS_EVERY
            for fault, count in self._dead_letters.items():
                new = counted(count, "new dead letter")
                self._add(f"{new}, fault: {fault}", command_line("dead-letters list"))
            self._dead_letters.clear()
        for address in self._addresses:
            address.send(self._title, self._lines)
        self._lines.clear()

    def _add(self, message: str, command: str) -> None:
        ending = "" if message.endswith((".", "?")) else "."
        self._lines.append(f"{visible(message)}{ending} See: {visible(command)}")


class _Address:
    """One address, with the lines that it did not take yet."""

    def __init__(self, number: int, address: SecretStr) -> None:
        self._number, self._lines, self._is_away = number, list[str](), False
        self._apprise: Any = import_module("apprise").Apprise()
        self._log = logging.getLogger("apprise")
        self._log.disabled = True  # it would log the address, with its secret
        try:
            if not self._apprise.add(address.get_secret_value()):
                raise ConfigError(f"[monitoring] notify: entry {number} is not an apprise address")
        finally:
            self._log.disabled = False
        for service in self._apprise:  # one that refuses a long message would take none any more
            service.overflow_mode = "split"

    def send(self, title: str, lines: Sequence[str]) -> None:
        """Send these lines after those of before; where that fails they are sent with the next."""
        self._lines += lines
        if not self._lines:
            return
        if len(self._lines) > _MOST_LINES:
            more = f"more messages: see {command_line('status')}"
            self._lines = [more, *self._lines[1 - _MOST_LINES :]]
        self._log.disabled = self._is_away  # the cause is logged once
        try:
            text = "\n".join(self._lines)
            kind = "failure" if NO_WRITES in text else "warning"
            was_sent = self._apprise.notify(text, title, notify_type=kind)
        finally:
            self._log.disabled = False
        if was_sent:
            self._lines.clear()
        elif not self._is_away:
            what = "[monitoring] notify: entry %d takes no messages; they are sent when it does"
            log.warning(what, self._number)
        self._is_away = not was_sent
