"""Check whether every service would resume at its committed offset, or its records are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition
from confluent_kafka.admin._listoffsets import EarliestSpec, LatestSpec

from tidegate.errors.commands import command_line
from tidegate.ops.doctor.broker import REQUEST_TIMEOUT, RESULT_TIMEOUT, Broker
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.ops.topics import describe_topics
from tidegate.runtime.bus import Partition
from tidegate.service.catalogue import inputs_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def check_offsets(broker: Broker, service: str) -> Finding:
    """Whether the committed offsets of a service's group are still in its topics."""
    prefix = broker.topics.prefix
    topics = [found.name(prefix) for found in inputs_of(service)]
    found = describe_topics(broker.admin, topics, REQUEST_TIMEOUT)
    parts = [Partition(name, number) for name in found for number in range(found[name].partitions)]
    committed = broker.groups.committed(f"{prefix}.{service}", parts)  # before the ends
    return compare_offsets(service, prefix, committed, offset_ranges(broker.admin, topics))


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


def offset_ranges(admin: AdminClient, topics: Sequence[str]) -> dict[Partition, range]:
    """The available offsets of every partition; topics that do not exist are left out."""
    partitions = [
        TopicPartition(name, number)
        for name, found in describe_topics(admin, topics, REQUEST_TIMEOUT).items()
        for number in range(found.partitions)
    ]
    if not partitions:
        return {}
    # confluent-kafka leaves these two untyped
    first = EarliestSpec()  # type: ignore[no-untyped-call]
    end = LatestSpec()  # type: ignore[no-untyped-call]
    ends = [
        {
            Partition(part.topic, part.partition): future.result(RESULT_TIMEOUT).offset
            for part, future in admin.list_offsets(
                dict.fromkeys(partitions, spec), request_timeout=REQUEST_TIMEOUT
            ).items()
        }
        for spec in (first, end)
    ]
    return {end: range(ends[0][end], ends[1][end]) for end in ends[0]}


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
