"""The declarations of all topics: events, retention, writers and readers; a table's partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from tidegate import events
from tidegate.errors import FormatError
from tidegate.events.base import Command, Event, Outcome
from tidegate.events.cleanings import (
    AbortedCleaningReleased,
    CleaningReleased,
    QuarantineRemovalRequested,
)
from tidegate.events.facts import (
    CommitCompleted,
    CommitCondemned,
    LockReleased,
    VacuumFinished,
    WritesAborted,
)
from tidegate.events.savepoints import SavepointsCheckRequested
from tidegate.events.tasks import StopRequested, TaskIssued


class Role(StrEnum):
    """A service, or a party outside. The value is its Kafka principal's name."""

    UPSTREAM_WRITERS = "upstream-writers"
    """Applications that write the tables, through the publisher."""
    BRIDGES = "bridges"
    """Processes that publish on behalf of writers which can't be changed."""
    PEOPLE = "people"
    """Persons who request savepoints and restores, read what happens, and discard dead letters."""
    OPERATORS = "operators"
    """Persons who repair a deployment: topics, replays, and dead letters that are redriven."""
    MONITORING = "monitoring"
    """Whatever follows the outcomes: dashboards, alerts, audits."""
    COORDINATOR = "coordinator"
    SAVEPOINT_WRITER = "savepoint-writer"
    RESTORER = "restorer"
    CLEANER = "cleaner"


OUTSIDERS: Final = (
    Role.UPSTREAM_WRITERS,
    Role.BRIDGES,
    Role.PEOPLE,
    Role.OPERATORS,
    Role.MONITORING,
)
"""The roles outside of the services; their consumer groups are their own."""
SERVICES: Final = tuple(role for role in Role if role not in OUTSIDERS)
_schemas = sorted(file.name.partition(".")[0] for file in files(events).joinpath("avro").iterdir())
EVENT_TYPES: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {name: getattr(events, name) for name in _schemas}
)
CARRIED: Final = (
    CleaningReleased,
    AbortedCleaningReleased,
    QuarantineRemovalRequested,
    SavepointsCheckRequested,
    StopRequested,
)
"""Commands of the coordinator that only tasks carry."""
TASKS: Final = (TaskIssued, *CARRIED)
REQUESTS: Final = tuple(
    kind for kind in EVENT_TYPES.values() if issubclass(kind, Command) and kind not in TASKS
)
OUTCOMES: Final = tuple(kind for kind in EVENT_TYPES.values() if issubclass(kind, Outcome))
_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_SHIFT: Final = 24


@lru_cache(maxsize=65_536)  # a hash takes 5 us, and every event needs one
def partition_of(table: str, partitions: int) -> int:
    """The number of the partition that a table (its identity) is on, given how many there are."""
    return partition_of_key(table.encode(), partitions)


def partition_of_key(key: bytes, partitions: int) -> int:
    """The number of the partition that a message with this key is on."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit unsigned hash of a key that Kafka's default partitioner uses."""
    mixed = _SEED ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _WORD
        word = (word ^ word >> _SHIFT) * _FACTOR & _WORD
        mixed = mixed * _FACTOR & _WORD ^ word
    if rest := data[whole:]:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * _FACTOR & _WORD
    mixed = (mixed ^ mixed >> 13) * _FACTOR & _WORD
    return mixed ^ mixed >> 15


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


def _of_facts(suffix: str, purpose: str, *events: type[Event]) -> Topic:
    """A topic on which writers report, themselves or through a bridge."""
    writers = (Role.UPSTREAM_WRITERS, Role.BRIDGES)
    readers = (Role.COORDINATOR, Role.BRIDGES, Role.PEOPLE)
    return Topic(suffix, purpose, events, timedelta(days=30), writers, readers)


COMMITS: Final = _of_facts(
    "commits",
    "commits that upstream writers completed, and those that they condemned since",
    CommitCompleted,
    CommitCondemned,
)
VACUUMS: Final = _of_facts(
    "vacuums",
    "compactions that became visible, with what was open then; writes that aborted",
    VacuumFinished,
    WritesAborted,
)
LOCKS: Final = _of_facts("locks", "locks and transactions that ended", LockReleased)
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
    written_by=(Role.SAVEPOINT_WRITER, Role.RESTORER, Role.CLEANER, Role.COORDINATOR, Role.PEOPLE),
    # bridges: what was cleaned is marked where it was queued
    read_by=(Role.MONITORING, Role.PEOPLE, Role.BRIDGES, Role.COORDINATOR),
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
TOPICS: Final = (COMMITS, VACUUMS, LOCKS, REQUEST_TOPIC, TASK_TOPIC, OUTCOME_TOPIC, DEAD_LETTERS)
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
