"""Would every service go on where it stopped, or have its events left the topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin._listoffsets import EarliestSpec, LatestSpec

from tidegate.doctor.broker import PATIENCE, SECONDS, Broker
from tidegate.doctor.finding import Finding, State
from tidegate.events.topics import topic_of
from tidegate.runtime.bus import Partition
from tidegate.services.assembly import HEARD
from tidegate.topics import look

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def offsets_kept(broker: Broker, service: str) -> Finding:
    """Whether the offsets of a service's group still lie in its topics."""
    prefix = broker.topics.prefix
    topics = sorted({topic_of(kind).name(prefix) for kind in HEARD[service]})
    committed = committed_by(broker.admin, f"{prefix}.{service}", topics)
    return gaps(service, prefix, committed, held(broker.admin, topics))


def gaps(
    service: str, prefix: str, committed: Mapping[Partition, int], held: Mapping[Partition, range]
) -> Finding:
    """Compare where a group goes on with what its partitions hold. Pure."""
    check = f"offsets {service}"
    if not committed:
        return Finding(check, State.OK, "it has not begun: it will read its topics from the start")
    lost = {p: at for p, at in committed.items() if not _is_in(at, held.get(p))}
    if not lost:
        behind = sum(held[p].stop - at for p, at in committed.items())
        return Finding(check, State.OK, f"within its topics, {behind} records behind")
    told = (
        f"goes on at {at} of {_named(p)}, which {_holds(held.get(p))}" for p, at in lost.items()
    )
    advice = " ; ".join(_reset(service, p.topic.removeprefix(f"{prefix}."), p.number) for p in lost)
    return Finding(
        check, State.FAIL, "; ".join(told), f"events were lost; stop it, then go on with: {advice}"
    )


def held(admin: AdminClient, topics: Sequence[str]) -> dict[Partition, range]:
    """The offsets that every partition of those topics holds that are there."""
    partitions = [
        TopicPartition(name, number)
        for name, found in look(admin, topics, SECONDS).items()
        for number in range(found.partitions)
    ]
    if not partitions:
        return {}
    # confluent-kafka leaves these two untyped
    first = EarliestSpec()  # type: ignore[no-untyped-call]
    end = LatestSpec()  # type: ignore[no-untyped-call]
    ends = [
        {
            Partition(each.topic, each.partition): future.result(PATIENCE).offset
            for each, future in admin.list_offsets(
                dict.fromkeys(partitions, spec), request_timeout=SECONDS
            ).items()
        }
        for spec in (first, end)
    ]
    return {each: range(ends[0][each], ends[1][each]) for each in ends[0]}


def committed_by(admin: AdminClient, group: str, topics: Sequence[str]) -> dict[Partition, int]:
    """Where a group goes on, by partition of those topics."""
    asked = ConsumerGroupTopicPartitions(group)
    [answer] = admin.list_consumer_group_offsets([asked], request_timeout=SECONDS).values()
    found = answer.result(PATIENCE).topic_partitions or []
    return {
        Partition(each.topic, each.partition): each.offset
        for each in found
        if each.topic in topics and each.offset >= 0
    }


def _is_in(at: int, held: range | None) -> bool:
    return held is not None and held.start <= at <= held.stop


def _named(partition: Partition) -> str:
    return f"{partition.topic}[{partition.number}]"


def _holds(held: range | None) -> str:
    return "is gone" if held is None else f"holds {held.start} to {held.stop}"


def _reset(service: str, topic: str, number: int) -> str:
    where = f"--topic {topic} --partition {number}"
    return f"tidegate replay group {service} {where} --to-earliest --execute"
