"""Which dead letters are meant. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.deadletters.letter import DeadLetter


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Conditions; every one that is given must hold."""

    letter_ids: tuple[str, ...] = ()
    """An id may be cut short, as git's may."""
    service: str | None = None
    topic: str | None = None
    """The topic it came from, by its full name or the part after the prefix."""
    table: str | None = None
    reason: str | None = None
    """Text in the reason, in any case."""
    from_time: datetime | None = None
    to_time: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no condition is given: everything is meant."""
        return self == LetterFilter()

    def covers(self, letter: DeadLetter) -> bool:
        """Whether a letter is meant."""
        topic = letter.origin.topic
        ids = self.letter_ids
        return (
            (not ids or any(letter.letter_id.startswith(each) for each in ids))
            and self.service in (None, letter.service)
            and (self.topic in (None, topic) or topic.endswith(f".{self.topic}"))
            and self.table in (None, letter.table)
            and (self.reason is None or self.reason.lower() in letter.error.lower())
            and (self.from_time is None or letter.at >= self.from_time)
            and (self.to_time is None or letter.at < self.to_time)
        )
