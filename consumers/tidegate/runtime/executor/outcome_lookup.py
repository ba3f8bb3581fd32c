"""Looks up the outcomes that a command already has on the outcomes topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import Command, Event, Outcome
from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Bus, Partition, Record

CLOCK_MARGIN_MS: Final = 24 * 60 * 60 * 1000
"""How far the clocks of brokers and requesters may differ: a day is much more than they do."""


def outcomes_of(
    command: Command, appended_ms: int, bus: Bus, wire: Wire, prefix: str
) -> list[Outcome]:
    """Every outcome of a command; those of one partition oldest first.

    Nothing older than the command is read: an outcome follows its command. A command may have been
    written twice, by a retry or by a redriven dead letter, and its outcome before the second time.
    So the reading begins where the broker appended the command or where its event was made,
    whichever is earlier, less a margin for clocks that differ.

    All partitions are read, because a producer with another partitioner may have written an
    outcome to any of them.

    Args:
        command: The command.
        appended_ms: When the broker appended it, in milliseconds since the epoch.
        bus: The broker.
        wire: How events are encoded.
        prefix: Of the topics' names.
    """
    made_ms = int(command.occurred_at.timestamp() * 1000)
    since_ms = max(1, min(appended_ms, made_ms) - CLOCK_MARGIN_MS)
    candidates = _candidates(command.event_id.encode(), since_ms, bus, prefix)
    found = (_outcome(record, wire) for record in candidates)
    return [
        each for each in found if isinstance(each, Outcome) and each.caused_by == command.event_id
    ]


def _candidates(command_id: bytes, since_ms: int, bus: Bus, prefix: str) -> Iterator[Record]:
    """The records whose bytes contain the id: only these are worth decoding."""
    topic = OUTCOME_TOPIC.name(prefix)
    for number in range(bus.partitions(topic)):
        for record in bus.log(Partition(topic, number), since_ms):
            if command_id in (record.value or b""):
                yield record


def _outcome(record: Record, wire: Wire) -> Event | None:
    try:
        return wire.deserialize(record.key, record.value, record.headers)
    except FormatError:  # not written by us, so not an outcome of the command
        return None
