"""What was said before of a command: the audit trail, read before something is done again."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.errors import FormatError
from tidegate.events import Event, Outcome
from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Bus, Partition, Record


def outcomes_of(command_id: str, bus: Bus, wire: Wire, prefix: str) -> list[Outcome]:
    """Every outcome that the broker has of a command, those of a partition oldest first.

    All partitions are read: the command may not lie on its table's, if another partitioner chose.
    """
    found = (_outcome(record, wire) for record in _mentions(command_id.encode(), bus, prefix))
    return [each for each in found if isinstance(each, Outcome) and each.caused_by == command_id]


def _mentions(text: bytes, bus: Bus, prefix: str) -> Iterator[Record]:
    """The outcomes in whose bytes an id stands: only they are worth decoding."""
    topic = OUTCOME_TOPIC.name(prefix)
    for number in range(bus.partitions(topic)):
        for record in bus.log(Partition(topic, number)):
            if text in (record.value or b""):
                yield record


def _outcome(record: Record, wire: Wire) -> Event | None:
    try:
        return wire.unseal(record.key, record.value, record.headers)
    except FormatError:  # somebody else's bytes answer nothing
        return None
