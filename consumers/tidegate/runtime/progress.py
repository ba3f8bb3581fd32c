"""Which records of a partition are done, when they may be done out of order."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """Records taken from one partition, and up to where all of them are done."""

    _open: dict[int, bool] = field(default_factory=dict[int, bool])
    _position: int | None = None
    _told: int | None = None

    def take(self, offset: int) -> None:
        """A record was read; offsets grow from call to call."""
        self._open[offset] = False

    def finish(self, offset: int) -> None:
        """A record was worked off, or set aside."""
        self._open[offset] = True
        for each in tuple(self._open):
            if not self._open[each]:
                return
            del self._open[each]
            self._position = each + 1

    def moved(self) -> int | None:
        """The offset to commit (every record before it is done), or None if it is as before."""
        if self._position == self._told:
            return None
        self._told = self._position
        return self._told

    @property
    def backlog(self) -> int:
        """How many records were taken and not yet passed."""
        return len(self._open)
