"""Skip one offset that a service can't get past, with an audit event; the service must be stopped.

A record that can't be read can't be copied, so the dead letter names its location only. An audit
event with the person and the reason resolves it at once. A repetition after a crash writes both
with the same ids.
"""

from __future__ import annotations

from datetime import datetime

from tidegate.errors import ConfigError, PermanentError, TidegateError
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC
from tidegate.ops.dead_letters.dead_letter import audit_event, read_dead_letter
from tidegate.ops.groups import Groups, changed_position, input_topics
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.catalogue import COORDINATOR
from tidegate.service.settings import Settings


def plan_skip(settings: Settings, service: str, topic: str, number: int, offset: int) -> Partition:
    """Check that a service would read this offset next, and return its partition.

    Raises:
        ConfigError: there is no such service, or it does not consume that topic.
        TidegateError: the service is running.
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
    return partition


def carry_out_skip(  # noqa: PLR0913 - a decision, all by name
    settings: Settings,
    *,
    service: str,
    where: Partition,
    offset: int,
    by: str,
    reason: str,
    at: datetime,
) -> str:
    """Publish the dead letter and the audit event, then move the service past the offset.

    Args:
        settings: The deployment.
        service: The service.
        where: The partition.
        offset: The offset of the record, whose content is not needed.
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
    skipped = Record(where, offset, None, None, (), 0, "it was not read")
    group, outcomes = f"{prefix}.{service}", OUTCOME_TOPIC.name(prefix)
    error = PermanentError(f"skipped by a person: {reason}")
    message = dead_letter(skipped, service, error, DEAD_LETTERS.name(prefix))
    written = read_dead_letter(skipped._replace(headers=message.headers, unreadable=""))
    audit = audit_event(written, by, at, wire, discarded=reason)
    bus = KafkaBus(settings.connection())
    groups = Groups.of(settings.connection())
    try:
        groups.check_unused(group)
        bus.send([message, wire.serialize(audit, outcomes)])
        if service == COORDINATOR:
            # before its group's offset: behind it, the coordinator refuses to start
            with changed_position(bus, prefix, where.number) as position:
                applied = position.offsets.get(where.topic, 0)
                position.offsets[where.topic] = max(applied, offset + 1)
        groups.set_offsets(group, {where: offset + 1})
    finally:
        bus.close()
    return written.dead_letter_id
