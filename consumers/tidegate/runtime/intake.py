"""From record to event: what a service hears, and what it sets aside."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from tidegate.errors import FormatError, MessageTooLargeError, TransientError
from tidegate.events import Event
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.events.topics import DEAD_LETTERS, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Bus, Record
from tidegate.runtime.dead_letters import DeadLetterLimit, dead_letter, without_value
from tidegate.runtime.patience import Patience

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Intake:
    """Decodes records for one service. What it can't decode goes to the dead letters."""

    service: str
    hears: tuple[type[Event], ...]
    bus: Bus
    prefix: str
    patience: Patience = field(default_factory=Patience)
    limit: DeadLetterLimit = field(default_factory=DeadLetterLimit)
    wire: Wire = field(default_factory=Wire)
    _topics: dict[type[Event], str] = field(init=False)

    def __post_init__(self) -> None:
        """Look every kind's topic up once: `read` runs for every record."""
        kinds = EVENT_TYPES.values()
        self._topics = {kind: topic_of(kind).name(self.prefix) for kind in kinds}

    def read(self, record: Record) -> Event | None:
        """Decode a record, or give None: it is for other services, or was set aside.

        Raises:
            TransientError: a schema registry stayed away; nothing was set aside.
        """
        try:
            try:
                return self._decode(record)
            except TransientError:  # only then are retries prepared: this runs for every record
                return self.patience.call(lambda: self._decode(record))
        except FormatError as error:
            self.set_aside(record, error)
            return None

    def set_aside(self, record: Record, error: BaseException) -> None:
        """Write a record to the dead letters; returns when the broker has it.

        Raises:
            DeadLetterFlood: too many; nothing was written.
        """
        self.limit.failed(record.partition, self.service)
        where = f"{record.partition.topic}[{record.partition.number}]@{record.offset}"
        log.warning("%s sets aside %s: %.1000s", self.service, where, error)
        letter = dead_letter(record, self.service, error, DEAD_LETTERS.name(self.prefix))
        try:
            self.patience.call(lambda: self.bus.send([letter]))
        except MessageTooLargeError:
            small = without_value(letter)
            self.patience.call(lambda: self.bus.send([small]))

    def _decode(self, record: Record) -> Event | None:
        contents = self.wire.contents(record.value, record.headers)
        kind = contents.kind
        expected = self._topics.get(kind)
        if record.partition.topic != expected:
            raise FormatError(f"{kind.__name__} belongs on {expected}")
        if kind not in self.hears:
            return None
        return self.wire.read(record.key, record.value, contents)
