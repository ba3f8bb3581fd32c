"""Skip one offset that a service can't get past, with an audit event; the service must be stopped.

The dead letter copies the record, or only its location where that can't be read. An audit event
with the person and the reason resolves it at once. A repetition after a crash writes both with the
same ids.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tidegate.errors import ConfigError, PermanentError, TidegateError, TransientError
from tidegate.events.signature import Proof
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC
from tidegate.ops.dead_letters.dead_letter import SKIPPED, audit_event, read_dead_letter
from tidegate.ops.event_log import EventLog, LoggedEvent
from tidegate.ops.groups import Groups, changed_position, input_topics
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit
from tidegate.runtime.input.dead_letters import DeadLetterQueue, dead_letter
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.retry import ELECTION_RETRIES
from tidegate.service.catalogue import COORDINATOR
from tidegate.service.settings import Settings


def plan_skip(
    settings: Settings, service: str, topic: str, number: int, offset: int
) -> LoggedEvent:
    """Check that a service would read this offset next, and return the record there.

    Raises:
        ConfigError: there is no such service, or it does not consume that topic.
        TidegateError: the service is running.
        TidegateError: the service would resume at another offset.
    """
    prefix = settings.topics.prefix
    [name] = input_topics(service, topic, prefix)
    partition = Partition(name, number)
    groups = Groups(settings.connection())
    group = f"{prefix}.{service}"
    groups.check_unused(group)
    bus = KafkaBus(settings.connection())
    try:
        if number >= bus.partitions(partition.topic):
            raise ConfigError(f"{partition.topic} has no partition {number}")
        available = bus.watermarks([partition])[partition]
        following = groups.committed(group, [partition]).get(partition, available.first)
        if offset != following:
            raise TidegateError(
                f"{service} reads offset {following} of {partition.topic}[{number}] next, and only"
                " that one can be skipped"
            )
        if offset >= available.end:
            raise TidegateError(f"{partition.topic}[{number}] has no record at offset {offset} yet")
        record = _read(bus, partition, offset)
    finally:
        bus.close()
    return EventLog.of(settings).logged(record) or LoggedEvent(record, None)


def _read(bus: KafkaBus, partition: Partition, offset: int) -> Record:
    """The record at an offset; without content if the client can't get past it either."""
    problem = "no record is there"
    try:
        for record in bus.read({partition: range(offset, offset + 1)}):
            return record
    except TransientError as error:
        problem = str(error)
    return Record(partition, offset, None, None, (), 0, problem)


def carry_out_skip(  # noqa: PLR0913 - a decision, by name
    settings: Settings, service: str, skipped: Record, *, by: str, reason: str, at: datetime
) -> str:
    """Publish the dead letter and the audit event, then move the service past the offset.

    Args:
        settings: The deployment.
        service: The service.
        skipped: The record, with or without its content.
        by: The person who decides.
        reason: Why.
        at: When.

    Returns:
        The id of the dead letter.

    Raises:
        TidegateError: the service was started meanwhile; its offset was not moved.
        StopService: likewise.
    """
    prefix, wire = settings.topics.prefix, wire_for(settings.registry)
    group, outcomes, where = f"{prefix}.{service}", OUTCOME_TOPIC.name(prefix), skipped.partition
    error = PermanentError(f"{SKIPPED}{Proof().named(by)}: {reason}")
    message = dead_letter(skipped, service, error, DEAD_LETTERS.name(prefix))
    written = read_dead_letter(skipped._replace(headers=message.headers, unreadable=""), wire)
    audit = audit_event(replace(written, error="skipped"), by, at, wire, discarded=reason)
    bus = KafkaBus(settings.connection())
    groups = Groups(settings.connection())
    try:
        groups.check_unused(group)
        queue = DeadLetterQueue(service, bus, prefix, ELECTION_RETRIES, DeadLetterLimit())
        queue.send_copy(skipped, error)
        bus.send([wire.serialize(audit, outcomes)])
        if service == COORDINATOR:
            # before its group's offset: behind it, the coordinator refuses to start
            with changed_position(bus, prefix, where.number) as position:
                applied = position.offsets.get(where.topic, 0)
                position.offsets[where.topic] = max(applied, skipped.offset + 1)
        groups.set_offsets(group, {where: skipped.offset + 1})
    finally:
        bus.close()
    return written.dead_letter_id
