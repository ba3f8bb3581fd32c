"""Reads topics outside of any group, so that no committed offset moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.kafka.partition_reader import read_spans
from tidegate.runtime.kafka.records import Config


class TopicReader:
    """Reads the records that topics hold at the moment of the call; it waits for no later ones."""

    def __init__(self, config: Config, bus: Bus) -> None:
        """Take librdkafka's settings, and the bus for watermarks."""
        self._config, self._bus = config, bus

    def spans(self, topic: str) -> dict[Partition, range]:
        """The offsets that each partition of a topic holds.

        Raises:
            ConfigError: the topic does not exist.
        """
        return self._readable(self._bus.spans(topic))

    def offsets_at(self, topic: str, moment: datetime) -> dict[Partition, int]:
        """By partition, the first offset that the broker appended at `moment` or later.

        If there is no such record, it is the partition's end.
        """
        spans = self._bus.spans(topic, max(1, int(moment.timestamp() * 1000)))
        return {part: span.start for part, span in self._readable(spans).items()}

    def _readable(self, spans: Mapping[Partition, range]) -> dict[Partition, range]:
        """Cut off what an open transaction hides: an operator does not wait for its end."""
        ends = {part: marks.end for part, marks in self._bus.watermarks(list(spans)).items()}
        return {
            part: range(min(span.start, ends[part]), min(span.stop, ends[part]))
            for part, span in spans.items()
        }

    def read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        """The records at these offsets; those of a partition are in order.

        Raises:
            TransientError: not all of them could be read now.
            StopService: the broker refuses access, or an offset was deleted meanwhile.
        """
        return read_spans(self._config, spans)
