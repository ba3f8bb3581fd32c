"""Skip one offset that a service can't get past, with an audit event; the service must be stopped.

A record that can't be read can't be copied, so the dead letter names its location only. An audit
event with the person and the reason resolves it at once. A repetition after a crash writes both
with the same ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegate.errors import ConfigError, TidegateError
from tidegate.events import DeadLetterDiscarded, derived_id
from tidegate.events.audit import UNKNOWN_TABLE
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC
from tidegate.ops.dead_letters.dead_letter import SOURCE
from tidegate.ops.groups import Groups, changed_position, input_topics
from tidegate.publisher import Message
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition
from tidegate.runtime.input.dead_letters import ID_HEADER, VALUE_LEFT_OUT
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.catalogue import COORDINATOR
from tidegate.service.settings import Settings

_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Skip:
    """One offset of a service's input that is to be skipped."""

    service: str
    partition: Partition
    offset: int

    @property
    def dead_letter_id(self) -> str:
        """The id of the dead letter; repeated skips of the offset have the same id."""
        where = self.partition
        return derived_id("skipped", self.service, where.topic, str(where.number), str(self.offset))


def plan_skip(settings: Settings, service: str, topic: str, number: int, offset: int) -> Skip:
    """Check that a service would read this offset next.

    Raises:
        ConfigError: there is no such service, or it does not consume that topic.
        GroupInUseError: the service is running.
        TidegateError: the service would resume at another offset.
    """
    prefix = settings.topics.prefix
    [name] = input_topics(service, topic, prefix)
    partition = Partition(name, number)
    groups = Groups.of(settings.connection())
    group = f"{prefix}.{service}"
    groups.check_unused(group)
    bus = KafkaBus(settings.connection())
    try:
        if number >= bus.partitions(partition.topic):
            raise ConfigError(f"{partition.topic} has no partition {number}")
        available = bus.watermarks([partition])[partition]
    finally:
        bus.close()
    following = groups.committed(group, [partition]).get(partition, available.first)
    if offset != following:
        raise TidegateError(
            f"{service} reads offset {following} of {partition.topic}[{number}] next, and only"
            " that one can be skipped"
        )
    if offset >= available.end:
        raise TidegateError(f"{partition.topic}[{number}] has no record at offset {offset} yet")
    return Skip(service, partition, offset)


def carry_out_skip(settings: Settings, skip: Skip, by: str, because: str, at: datetime) -> None:
    """Publish the dead letter and the audit event, then move the service past the offset.

    Raises:
        GroupInUseError: the service was started meanwhile; its offset was not moved.
        FencedError: likewise.
    """
    prefix = settings.topics.prefix
    bus = KafkaBus(settings.connection())
    groups = Groups.of(settings.connection())
    try:
        groups.check_unused(f"{prefix}.{skip.service}")
        outcomes = OUTCOME_TOPIC.name(prefix)
        audit = wire_for(settings.registry).serialize(_audit_event(skip, by, because, at), outcomes)
        bus.send([_dead_letter(skip, because, DEAD_LETTERS.name(prefix)), audit])
        if skip.service == COORDINATOR:
            # before its group's offset: behind it, the coordinator refuses to start
            with changed_position(bus, prefix, skip.partition.number) as position:
                applied = position.offsets.get(skip.partition.topic, 0)
                position.offsets[skip.partition.topic] = max(applied, skip.offset + 1)
        groups.set_offsets(f"{prefix}.{skip.service}", {skip.partition: skip.offset + 1})
    finally:
        bus.close()


def _dead_letter(skip: Skip, because: str, topic: str) -> Message:
    where, offset = skip.partition, str(skip.offset)
    reason = f"skipped by a person: {because}"
    headers = {
        ID_HEADER: skip.dead_letter_id,
        "__connect.errors.topic": where.topic,
        "__connect.errors.partition": str(where.number),
        "__connect.errors.offset": offset,
        "__connect.errors.connector.name": skip.service,
        "__connect.errors.exception.message": reason,
        "x-original-topic": where.topic,
        "x-original-partition": str(where.number),
        "x-original-offset": offset,
        "x-exception-message": reason,
        VALUE_LEFT_OUT: _UNKNOWN,
    }
    added = tuple((name, text.encode()) for name, text in headers.items())
    return Message(topic, None, None, added, where.number)


def _audit_event(skip: Skip, by: str, because: str, at: datetime) -> DeadLetterDiscarded:
    return DeadLetterDiscarded(
        table=UNKNOWN_TABLE,
        location=_UNKNOWN,
        occurred_at=at,
        source=SOURCE,
        caused_by=skip.dead_letter_id,
        service=skip.service,
        origin_topic=skip.partition.topic,
        origin_partition=skip.partition.number,
        origin_offset=skip.offset,
        error="skipped without being processed",
        requested_by=by,
        reason=because,
    )
