"""The topics, each declared once: what travels on it, for how long, who writes and who reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.catalogue import COMMANDS, OUTCOMES
from tidegate.events.facts import CommitCompleted, LockReleased, VacuumFinished

DEFAULT_PREFIX: Final = "tidegate"
DEFAULT_PARTITIONS: Final = 6
PARTITIONER: Final = "murmur2_random"
"""librdkafka's name for the Java client's partitioner: JVM and Python writers then agree."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's declaration. `retention` None means compacted and kept for ever.

    Every topic is keyed by the table's identity and has the same number of partitions, so that
    all that concerns a table has the same partition number everywhere.
    """

    suffix: str
    purpose: str
    events: tuple[type[Event], ...]
    retention: timedelta | None
    written_by: str
    read_by: str
    max_bytes: int | None = None
    """The largest batch of messages, in bytes as compressed; None: what the broker allows."""

    def name(self, prefix: str = DEFAULT_PREFIX) -> str:
        """The topic's full name."""
        return f"{prefix}.{self.suffix}"

    def settings(self) -> Mapping[str, str]:
        """The broker's settings for this topic.

        Append time, because a decider's only clock is the broker's.
        """
        common = {"message.timestamp.type": "LogAppendTime"}
        if self.max_bytes is not None:
            common["max.message.bytes"] = str(self.max_bytes)
        if self.retention is None:
            return common | {"cleanup.policy": "compact", "segment.ms": "3600000"}
        milliseconds = int(self.retention.total_seconds() * 1000)
        return common | {"cleanup.policy": "delete", "retention.ms": str(milliseconds)}


COMMITS: Final = Topic(
    suffix="commits",
    purpose="commits that upstream writers completed",
    events=(CommitCompleted,),
    retention=timedelta(days=30),
    written_by="upstream writers, bridges",
    read_by="savepoint-policy",
)
VACUUMS: Final = Topic(
    suffix="vacuums",
    purpose="compactions that became visible, with the holds of that moment",
    events=(VacuumFinished,),
    retention=timedelta(days=30),
    written_by="upstream writers, bridges",
    read_by="reader-gate",
)
LOCKS: Final = Topic(
    suffix="locks",
    purpose="locks and transactions that ended",
    events=(LockReleased,),
    retention=timedelta(days=30),
    written_by="upstream writers, bridges",
    read_by="reader-gate",
)
COMMAND_TOPIC: Final = Topic(
    suffix="commands",
    purpose="what people and deciders ask the executors to do",
    events=COMMANDS,
    retention=timedelta(days=30),
    written_by="people, savepoint-policy, reader-gate",
    read_by="savepoint-writer, restorer, cleaner",
)
OUTCOME_TOPIC: Final = Topic(
    suffix="outcomes",
    purpose="what was done, or refused, and why: the audit trail",
    events=OUTCOMES,
    retention=timedelta(days=365),
    written_by="savepoint-writer, restorer, cleaner, people (what became of dead letters)",
    read_by="monitoring, people, restorer",
)
DEAD_LETTERS: Final = Topic(
    suffix="dead-letters",
    purpose="messages that could not be worked off, as they came, with the reason in the headers",
    events=(),
    retention=timedelta(days=365),
    written_by="every service",
    read_by="people",
    max_bytes=2 * 2**20,  # a message of the broker's own limit, and the reasons around it
)

TOPICS: Final = (COMMITS, VACUUMS, LOCKS, COMMAND_TOPIC, OUTCOME_TOPIC, DEAD_LETTERS)


def changelog(decider: str) -> Topic:
    """The compacted topic that holds a decider's state, one record a table."""
    return Topic(
        suffix=f"{decider}.changelog",
        purpose=f"the state of {decider}, a record a table",
        events=(),
        retention=None,
        written_by=decider,
        read_by=decider,
        max_bytes=16 * 2**20,  # a table on which hundreds of vacuums wait for one reader
    )


def topic_of(kind: type[Event]) -> Topic:
    """The one topic that a kind of event travels on.

    Raises:
        FormatError: no topic carries it.
    """
    for topic in TOPICS:
        if kind in topic.events:
            return topic
    raise FormatError(f"no topic carries {kind.__name__}")
