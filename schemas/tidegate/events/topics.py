"""The declarations of all topics: events, retention, writers and readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tidegate.errors import FormatError
from tidegate.events.aborted import WritesAborted
from tidegate.events.base import Event
from tidegate.events.catalogue import OUTCOMES, REQUESTS, TASKS
from tidegate.events.facts import CommitCompleted, CommitCondemned, LockReleased, VacuumFinished
from tidegate.events.roles import SERVICES, Role

DEFAULT_PREFIX: Final = "tidegate"
DEFAULT_PARTITIONS: Final = 24
PARTITIONER: Final = "murmur2_random"
"""librdkafka's name for the Java client's default, so that JVM and Python writers agree."""
UNCLEAN: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's declaration. `retention` None means compacted and kept forever.

    Every topic is keyed by table and has the same number of partitions, so that everything about a
    table is on the same partition number of every topic.
    """

    suffix: str
    purpose: str
    events: tuple[type[Event], ...]
    retention: timedelta | None
    written_by: tuple[Role, ...] = ()
    read_by: tuple[Role, ...] = ()
    max_bytes: int | None = None
    """The largest record batch in bytes, compressed; None: the broker's default."""

    def name(self, prefix: str = DEFAULT_PREFIX) -> str:
        """The topic's full name."""
        return f"{prefix}.{self.suffix}"

    def settings(self) -> Mapping[str, str]:
        """The topic's settings on the broker.

        Timestamps are the broker's append time, because that is the coordinator's only clock. A
        replica that misses confirmed records may never lead: the loss of a changelog's last records
        could not be noticed.
        """
        common = {"message.timestamp.type": "LogAppendTime", UNCLEAN: "false"}
        if self.max_bytes is not None:
            common["max.message.bytes"] = str(self.max_bytes)
        if self.retention is None:
            return common | {"cleanup.policy": "compact", "segment.ms": "3600000"}
        milliseconds = int(self.retention.total_seconds() * 1000)
        return common | {"cleanup.policy": "delete", "retention.ms": str(milliseconds)}


COMMITS: Final = Topic(
    suffix="commits",
    purpose="commits that upstream writers completed, and those that they condemned since",
    events=(CommitCompleted, CommitCondemned),
    retention=timedelta(days=30),
    written_by=(Role.UPSTREAM_WRITERS, Role.BRIDGES),
    read_by=(Role.COORDINATOR, Role.BRIDGES, Role.PEOPLE),
)
VACUUMS: Final = Topic(
    suffix="vacuums",
    purpose="compactions that became visible, with what was open then; writes that aborted",
    events=(VacuumFinished, WritesAborted),
    retention=timedelta(days=30),
    written_by=(Role.UPSTREAM_WRITERS, Role.BRIDGES),
    read_by=(Role.COORDINATOR, Role.BRIDGES, Role.PEOPLE),
)
LOCKS: Final = Topic(
    suffix="locks",
    purpose="locks and transactions that ended",
    events=(LockReleased,),
    retention=timedelta(days=30),
    written_by=(Role.UPSTREAM_WRITERS, Role.BRIDGES),
    read_by=(Role.COORDINATOR, Role.BRIDGES, Role.PEOPLE),
)
REQUEST_TOPIC: Final = Topic(
    suffix="requests",
    purpose="what people ask for",
    events=REQUESTS,
    retention=timedelta(days=30),
    written_by=(Role.PEOPLE,),
    read_by=(Role.COORDINATOR, Role.PEOPLE),
)
TASK_TOPIC: Final = Topic(
    suffix="tasks",
    purpose="what the workers are to do, one task at a time for a table",
    events=TASKS,
    retention=timedelta(days=30),
    written_by=(Role.COORDINATOR,),
    read_by=(Role.SAVEPOINT_WRITER, Role.RESTORER, Role.CLEANER, Role.PEOPLE),
)
OUTCOME_TOPIC: Final = Topic(
    suffix="outcomes",
    purpose="what was done or refused, and why: the audit trail",
    events=OUTCOMES,
    retention=timedelta(days=365),
    # people: what they decided about dead letters; the coordinator: refusals and alarms
    written_by=(
        Role.SAVEPOINT_WRITER,
        Role.RESTORER,
        Role.CLEANER,
        Role.COORDINATOR,
        Role.PEOPLE,
    ),
    # bridges: what was cleaned is marked where it was queued
    read_by=(
        Role.MONITORING,
        Role.PEOPLE,
        Role.BRIDGES,
        Role.COORDINATOR,
    ),
)
DEAD_LETTERS: Final = Topic(
    suffix="dead-letters",
    purpose="messages that could not be processed, unchanged, with the reason in headers",
    events=(),
    retention=timedelta(days=365),
    written_by=SERVICES,
    read_by=(Role.PEOPLE, Role.MONITORING),
    max_bytes=2 * 2**20,  # a message of the broker's default limit, and headers with the reason
)

CHANGELOG: Final = Topic(
    suffix="coordinator.changelog",
    purpose="the coordinator's rows",
    events=(),
    retention=None,
    written_by=(Role.COORDINATOR,),
    # people: what waits, and why, is read from the rows
    read_by=(Role.COORDINATOR, Role.PEOPLE, Role.MONITORING),
    max_bytes=2 * 2**20,  # a record has 1 MB at most; more makes its event a dead letter
)

TOPICS: Final = (
    COMMITS,
    VACUUMS,
    LOCKS,
    REQUEST_TOPIC,
    TASK_TOPIC,
    OUTCOME_TOPIC,
    DEAD_LETTERS,
)
"""The topics of messages."""
ALL_TOPICS: Final = (*TOPICS, CHANGELOG)


def topic_of(kind: type[Event]) -> Topic:
    """The topic that carries a kind of event.

    Raises:
        FormatError: no topic carries it.
    """
    for topic in TOPICS:
        if kind in topic.events:
            return topic
    raise FormatError(f"no topic carries {kind.__name__}")
