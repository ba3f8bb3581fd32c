"""Select dead letters. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.ops.dead_letters.dead_letter import DeadLetter


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Conditions; all that are set must hold."""

    ids: tuple[str, ...] = ()
    """Ids or their first characters; any of them. Empty: all."""
    service: str | None = None
    topic: str | None = None
    """The original's topic, by its full name or the part after the prefix."""
    table: str | None = None
    reason: str | None = None
    """Text in the reason, ignoring case."""
    from_time: datetime | None = None
    to_time: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no condition is set, so that everything matches."""
        return self == DeadLetterFilter()

    def matches(self, dead_letter: DeadLetter) -> bool:
        """Whether a dead letter is selected."""
        topic = dead_letter.origin.topic
        ids = self.ids
        return (
            (not ids or any(dead_letter.dead_letter_id.startswith(id_) for id_ in ids))
            and self.service in (None, dead_letter.service)
            and (self.topic in (None, topic) or topic.endswith(f".{self.topic}"))
            and self.table in (None, dead_letter.table)
            and (self.reason is None or self.reason.lower() in dead_letter.error.lower())
            and (self.from_time is None or dead_letter.at >= self.from_time)
            and (self.to_time is None or dead_letter.at < self.to_time)
        )
