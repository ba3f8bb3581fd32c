"""A key that the settings trust: whose it is, when, and for what. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from tidegate.errors import FormatError
from tidegate.events import Event
from tidegate.signatures import PublicKey
from tidegate.storage import is_below, normalise


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A person's or a service's key. A name may have several: the old one and the new one."""

    name: str
    public: PublicKey
    commands: tuple[str, ...]
    """Shell patterns of the kinds of events, such as `RestoreRequested`."""
    tables: tuple[str, ...] = ("*",)
    """Shell patterns of the tables."""
    locations: tuple[str, ...] = ()
    """Normalised directories: the locations of the tables are one of them, or below; empty: any."""
    not_before: datetime | None = None
    not_after: datetime | None = None

    def refuses(self, command: Event, at: datetime) -> str | None:
        """Why this key may not sign such an event at `at`; None: it may."""
        kind = type(command).__name__
        if self.not_before is not None and at < self.not_before:
            return f"the key {self._named} is trusted from {self.not_before:%Y-%m-%dT%H:%MZ} on"
        if self.not_after is not None and at > self.not_after:
            return f"the key {self._named} was trusted until {self.not_after:%Y-%m-%dT%H:%MZ}"
        if not any(fnmatchcase(kind, command) for command in self.commands):
            return f"the key {self._named} may not sign a {kind}"
        if not any(fnmatchcase(command.table, table.lower()) for table in self.tables):
            return f"the key {self._named} may not sign for the table {command.table}"
        if self.locations and not self._covers(command.location):
            return f"the key {self._named} may not sign for a table in {command.location}"
        return None

    def _covers(self, location: str) -> bool:
        try:
            found = normalise(location)
        except FormatError:
            return False
        return any(found == place or is_below(found, place) for place in self.locations)

    @property
    def _named(self) -> str:
        return f"{self.public.key_id[:8]} of {self.name}"
