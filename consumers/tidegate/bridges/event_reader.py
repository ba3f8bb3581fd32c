"""Reads published events back from their topics: all of them once, then what is new."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import Event
from tidegate.events.signature import SIGNED
from tidegate.events.wire import Wire
from tidegate.runtime.authorization import Authorization, Unauthorized
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import Config, read_spans

log = logging.getLogger(__name__)
_BATCH: Final = 10_000


class EventReader:
    """Reads every partition of some topics, outside of any group, from their beginning on."""

    def __init__(
        self,
        config: Config,
        topics: Mapping[str, timedelta | None],
        group: str,
        wire: Wire | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        """Describe what is read; nothing is read yet.

        Args:
            config: librdkafka's settings.
            topics: The topics in the order of cause and effect, each with how far back it is read
                at first; None: from its beginning.
            group: The group whose access rights allow to read; nothing is committed in its name.
            wire: How the values are encoded.
            authorization: Whose events count; by default those of every publisher.
        """
        self._config, self._topics, self._group = config, dict(topics), group
        self._wire, self._authorization = wire or Wire(), authorization or Authorization()
        self._metadata = KafkaMetadata(config)
        self._next: dict[Partition, int] = {}

    def read(self) -> Iterator[list[Event]]:
        """What the topics hold since the last time, in batches; the topics in their order.

        Where an effect is read, its cause was read before it: the ends of the topics are asked for
        in the opposite order.

        Raises:
            TransientError: not all of it could be read now; the next call begins where this began.
            StopService: the broker refuses access.
        """
        spans = {topic: self._spans(topic) for topic in reversed(self._topics)}
        for topic in self._topics:
            yield from self._read(spans[topic])

    def _spans(self, topic: str) -> dict[Partition, range]:
        back = self._topics[topic]
        since = 0 if back is None else round(1000 * (time.time() - back.total_seconds()))
        spans = self._metadata.spans(topic, max(0, since))
        return {
            part: range(max(span.start, self._next.get(part, 0)), span.stop)
            for part, span in spans.items()
        }

    def _read(self, spans: Mapping[Partition, range]) -> Iterator[list[Event]]:
        batch: list[Event] = []
        for record in read_spans(self._config, spans, group=self._group):
            event = self._decoded(record)
            if event is not None:
                batch.append(event)
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        self._next |= {part: span.stop for part, span in spans.items()}
        if batch:
            yield batch

    def _decoded(self, record: Record) -> Event | None:
        try:
            event = self._wire.deserialize(record.key, record.value, record.headers)
            if self._authorization.checks_signatures and isinstance(event, SIGNED):
                self._authorization.check(event, record)
        except (FormatError, Unauthorized) as error:  # the service that consumes it refuses it
            log.debug("%s at %d is passed over: %s", record.partition, record.offset, error)
            return None
        return event
