"""How long a service may stand still before the broker forgets where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.doctor.broker import PATIENCE, SECONDS, Broker
from tidegate.doctor.finding import DENIED, Finding, State
from tidegate.events.topics import topic_of
from tidegate.services.assembly import EXECUTORS, HEARD
from tidegate.topics import look

CHECK: Final = "offset retention"
_SETTING: Final = "offsets.retention.minutes"
_FOR_EVER: Final = 2**31 - 1
_MINUTE: Final = 60_000


def offsets_outlive_topics(broker: Broker) -> Finding:
    """Whether an executor's offsets are kept for as long as the commands that it would read.

    A decider has its memory besides: it passes over what it applied, wherever its group begins.
    """
    prefix = broker.topics.prefix
    names = sorted({topic_of(kind).name(prefix) for each in EXECUTORS for kind in HEARD[each]})
    kept: dict[str, int] = {}
    for name, found in look(broker.admin, names, SECONDS).items():
        if found.settings is not None:
            kept[name] = int(found.settings["retention.ms"])
    try:
        return compared(_shortest(broker), kept)
    except KafkaException as error:
        if error.args[0].code() not in DENIED:
            raise
        seen = "unknown: this principal may not see the brokers' settings"
        return Finding(CHECK, State.SKIPPED, seen)


def compared(minutes: int, topics: Mapping[str, int]) -> Finding:
    """Compare how long offsets are kept with how long topics are. Pure.

    Args:
        minutes: How long the brokers keep the offsets of a group without a member.
        topics: `retention.ms` of each topic; negative: for ever.
    """
    if not topics:
        return Finding(CHECK, State.SKIPPED, "unknown: no topic of commands can be seen")
    needed = {name: _minutes(kept) for name, kept in topics.items()}
    longest = max(needed, key=lambda name: needed[name])
    if minutes >= needed[longest]:
        return Finding(CHECK, State.OK, f"the brokers keep a group's for {_days(minutes)}")
    seen = (
        f"an executor that stands still for {_days(minutes)} is forgotten, {longest} is not for"
        f" {_days(needed[longest])}: it would read all of it again. What has an outcome is not done"
        " again, but what was set aside or discarded would be"
    )
    return Finding(CHECK, State.WARN, seen, f"set {_SETTING}={needed[longest]} on the brokers")


def _shortest(broker: Broker) -> int:
    told = broker.admin.describe_cluster(request_timeout=SECONDS).result(PATIENCE)
    nodes = [ConfigResource(ResourceType.BROKER, str(node.id)) for node in told.nodes]
    asked = broker.admin.describe_configs(nodes, request_timeout=SECONDS)
    return min(int(str(each.result(PATIENCE)[_SETTING].value)) for each in asked.values())


def _minutes(milliseconds: int) -> int:
    return _FOR_EVER if milliseconds < 0 else min(_FOR_EVER, -(-milliseconds // _MINUTE))


def _days(minutes: int) -> str:
    return (
        "ever"
        if minutes == _FOR_EVER
        else f"{timedelta(minutes=minutes) / timedelta(days=1):g} days"
    )
