"""Sends what needs a person to Slack, PagerDuty, a webhook and the like, by apprise."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.events import (
    CommitFlagged,
    Event,
    RestoreAwaitingApproval,
    RestoreFailed,
    UnknownTableReleased,
    VacuumFlagged,
    VacuumOverdue,
)
from tidegate.monitoring.visible import visible
from tidegate.ops.event_log.summary import sentence

if TYPE_CHECKING:
    from pydantic import SecretStr

log = logging.getLogger(__name__)
_NOTIFIED: Final = (
    *(CommitFlagged, RestoreAwaitingApproval, RestoreFailed),
    *(UnknownTableReleased, VacuumFlagged, VacuumOverdue),
)


class Notifications:
    """Collects messages during a poll and sends them together. A failed one is only logged."""

    def __init__(self, addresses: Iterable[SecretStr]) -> None:
        """Take apprise's addresses; without any nothing is sent.

        Raises:
            ConfigError: apprise does not understand an address.
            ModuleNotFoundError: apprise is not installed.
        """
        self._lines: list[str] = []
        self._dead_letters = Counter[str]()
        listed = list(addresses)
        self._apprise = import_module("apprise").Apprise() if listed else None
        for number, address in enumerate(listed, 1):
            if self._apprise is not None and not self._apprise.add(address.get_secret_value()):
                raise ConfigError(f"[monitoring] notify: entry {number} is not an apprise address")

    def take(self, event: Event) -> None:
        """Take the next outcome."""
        if isinstance(event, _NOTIFIED):
            self._add(
                f"{event.table}: {type(event).__name__} {sentence(event)}",
                command_line("explain", event.table),
            )

    def take_dead_letters(self, fault: str, count: int) -> None:
        """Take new dead letters; a flood of them is one message."""
        self._dead_letters[fault] += count

    def send(self) -> None:
        """Send the collected messages."""
        for fault, count in self._dead_letters.items():
            self._add(
                f"{count} new dead letters, fault: {fault}", command_line("dead-letters list")
            )
        lines, self._lines = self._lines, []
        self._dead_letters.clear()
        if lines and self._apprise is not None:
            title = "Tidegate" if len(lines) == 1 else f"Tidegate: {len(lines)} messages"
            if not self._apprise.notify(title=title, body="\n".join(lines)):
                log.warning("a notification was not sent: %s", "; ".join(lines))

    def _add(self, message: str, command: str) -> None:
        if self._apprise is not None:
            self._lines.append(f"{visible(message)}. See: {visible(command)}")
