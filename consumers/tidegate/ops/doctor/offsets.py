"""Whether committed offsets are still in the topics, and for how long they are retained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.errors.commands import command_line
from tidegate.ops.doctor.broker import REQUEST_TIMEOUT, RESULT_TIMEOUT, Broker
from tidegate.ops.doctor.finding import DENIED, Finding, Status
from tidegate.runtime.bus import Partition
from tidegate.service.catalogue import inputs_of
from tidegate.service.topics import describe_topics

_RETENTION: Final = "offset retention"
_SETTING: Final = "offsets.retention.minutes"
_FOREVER: Final = 2**31 - 1
_MINUTE: Final = 60_000


def check_offsets(broker: Broker, service: str) -> Finding:
    """Whether the committed offsets of a service's group are still in its topics."""
    prefix = broker.topics.prefix
    topics = [found.name(prefix) for found in inputs_of(service)]
    parts = list(broker.spans(topics))
    committed = broker.groups.committed(f"{prefix}.{service}", parts)  # before the ends
    return compare_offsets(service, prefix, committed, broker.spans(topics))


def compare_offsets(
    service: str,
    prefix: str,
    committed: Mapping[Partition, int],
    available: Mapping[Partition, range],
) -> Finding:
    """Compare committed offsets with the available offsets. Pure."""
    check = f"offsets {service}"
    if not committed:
        return Finding(check, Status.OK, "not started yet: it will read from the beginning")
    lost = {p: at for p, at in committed.items() if not _is_in(at, available.get(p))}
    if not lost:
        behind = sum(available[p].stop - at for p, at in committed.items())
        return Finding(check, Status.OK, f"in range, {behind} records behind")
    seen = (
        f"committed offset {at} of {p.topic}[{p.number}], {_range_of(available.get(p))}"
        for p, at in lost.items()
    )
    advice = " && ".join(
        _reset(service, p.topic.removeprefix(f"{prefix}."), p.number) for p in lost
    )
    return Finding(
        check, Status.FAIL, "; ".join(seen), f"events were lost; stop it, then run: {advice}"
    )


def _is_in(at: int, available: range | None) -> bool:
    return available is not None and available.start <= at <= available.stop


def _range_of(available: range | None) -> str:
    if available is None:
        return "which no longer exists"
    return f"which holds {available.start} to {available.stop}"


def _reset(service: str, topic: str, number: int) -> str:
    return command_line(
        "replay group", service, topic=topic, partition=number, to_earliest=True, execute=True
    )


def check_retention(broker: Broker, executors: Sequence[str]) -> Finding:
    """Whether the offsets of these executors are retained for as long as their tasks.

    The coordinator needs no check: its changelog has positions, so it skips applied events.
    """
    prefix = broker.topics.prefix
    names = sorted({topic.name(prefix) for name in executors for topic in inputs_of(name)})
    kept: dict[str, int] = {}
    for name, found in describe_topics(broker.admin, names, REQUEST_TIMEOUT).items():
        if found.settings is not None:
            kept[name] = int(found.settings["retention.ms"])
    try:
        return compare_retention(_shortest(broker), kept)
    except KafkaException as error:
        if error.args[0].code() not in DENIED:
            raise
        seen = "unknown: this principal may not see the brokers' settings"
        return Finding(_RETENTION, Status.SKIPPED, seen)


def compare_retention(minutes: int, topics: Mapping[str, int]) -> Finding:
    """Compare the retention of offsets with the retention of topics. Pure.

    Args:
        minutes: How long the brokers retain the offsets of a group without members.
        topics: `retention.ms` of each topic; negative: forever.
    """
    if not topics:
        return Finding(
            _RETENTION, Status.SKIPPED, "unknown: this principal may not see the topic of tasks"
        )
    needed = {name: _minutes(kept) for name, kept in topics.items()}
    longest = max(needed, key=lambda name: needed[name])
    if minutes >= needed[longest]:
        return Finding(
            _RETENTION, Status.OK, f"the brokers keep committed offsets for {_days(minutes)}"
        )
    seen = (
        f"offsets expire after {_days(minutes)}, but {longest} keeps tasks for"
        f" {_days(needed[longest])}: a worker stopped for longer would read all of them again."
        " Tasks that are done are recognised, but one that was dead-lettered or skipped may run"
    )
    return Finding(
        _RETENTION, Status.WARN, seen, f"set {_SETTING}={needed[longest]} on the brokers"
    )


def _shortest(broker: Broker) -> int:
    cluster = broker.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT).result(RESULT_TIMEOUT)
    nodes = [ConfigResource(ResourceType.BROKER, str(node.id)) for node in cluster.nodes]
    futures = broker.admin.describe_configs(nodes, request_timeout=REQUEST_TIMEOUT)
    return min(
        int(str(future.result(RESULT_TIMEOUT)[_SETTING].value)) for future in futures.values()
    )


def _minutes(milliseconds: int) -> int:
    return _FOREVER if milliseconds < 0 else min(_FOREVER, -(-milliseconds // _MINUTE))


def _days(minutes: int) -> str:
    return (
        "ever"
        if minutes == _FOREVER
        else f"{timedelta(minutes=minutes) / timedelta(days=1):g} days"
    )
