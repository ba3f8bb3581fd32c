"""The dead letters of a deployment: read from the side, sent back, discarded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from tidegate.deadletters.letter import DeadLetter, read_letter
from tidegate.deadletters.selection import LetterFilter
from tidegate.deadletters.settling import redriven, told_discarded, told_redriven
from tidegate.errors import FormatError
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven, Event
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, TOPICS
from tidegate.events.wire import Wire
from tidegate.registry import wire_for
from tidegate.runtime.dead_letters import VALUE_LEFT_OUT
from tidegate.runtime.kafka import KafkaBus
from tidegate.runtime.topic_log import TopicLog
from tidegate.settings import Settings

_SETTLED: Final = (DeadLetterRedriven, DeadLetterDiscarded)


@dataclass(frozen=True, slots=True)
class Listed:
    """A dead letter, and what became of it: waiting, redriven or discarded."""

    letter: DeadLetter
    state: str


class DeadLetterBox:
    """What `tidegate dead-letters` does. Nothing is ever removed from the topic."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the cluster of the settings."""
        connection = settings.connection()
        self._prefix = settings.topics.prefix
        self._bus = KafkaBus(connection)
        self._log = TopicLog(connection, self._bus)
        self.wire: Wire = wire_for(settings.registry)

    def __enter__(self) -> Self:
        """Enter a block at whose end the connection is closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._bus.close()

    def list(self, wanted: LetterFilter, *, settled: bool = False) -> list[Listed]:
        """Give the letters that are meant, oldest first; with `settled` the dealt with, too.

        A letter that was written twice, after a crash, is one.
        """
        states = self._states()
        letters: dict[str, DeadLetter] = {}
        for record in self._log.read(self._log.spans(DEAD_LETTERS.name(self._prefix))):
            letter = read_letter(record)
            if wanted.covers(letter):
                letters.setdefault(letter.letter_id, letter)
        ordered = sorted(letters.values(), key=lambda each: (each.at, each.letter_id))
        listed = (Listed(each, states.get(each.letter_id, "waiting")) for each in ordered)
        return [each for each in listed if settled or each.state == "waiting"]

    def can_redrive(self, letter: DeadLetter) -> bool:
        """Whether a letter came from a topic of this deployment, and is whole."""
        whole = VALUE_LEFT_OUT not in dict(letter.record.headers)
        return whole and letter.origin.topic in {topic.name(self._prefix) for topic in TOPICS}

    def redrive(self, letters: Sequence[DeadLetter], by: str, at: datetime) -> None:
        """Send letters back to where they came from, then tell it.

        A crash in between leaves them listed: sent back again, they have the ids they had.
        """
        self._bus.send(redriven(letters))
        self._tell([told_redriven(each, by, at, self.wire) for each in letters])

    def discard(self, letters: Sequence[DeadLetter], by: str, at: datetime, reason: str) -> None:
        """Tell that letters are not needed."""
        self._tell([told_discarded(each, by, at, self.wire, reason) for each in letters])

    def _tell(self, events: Sequence[Event]) -> None:
        topic = OUTCOME_TOPIC.name(self._prefix)
        self._bus.send([self.wire.seal(event, topic) for event in events])

    def _states(self) -> dict[str, str]:
        """What became of dead letters, by their ids; the last word counts."""
        found: list[tuple[int, str, str]] = []
        for record in self._log.read(self._log.spans(OUTCOME_TOPIC.name(self._prefix))):
            if self.wire.kind(record.value, record.headers) not in _SETTLED:
                continue
            try:
                event = self.wire.unseal(record.key, record.value, record.headers)
            except FormatError:
                continue
            state = "redriven" if isinstance(event, DeadLetterRedriven) else "discarded"
            found.append((record.timestamp_ms, event.caused_by or "", state))
        return {letter: state for _, letter, state in sorted(found)}
