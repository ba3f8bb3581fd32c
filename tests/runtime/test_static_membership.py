"""Static members: a restart takes its partitions back, and no other member is interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from support.kafka import create_topic
from support.waiting import wait_for
from tidegate.errors import StopService
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.subscription import KafkaSubscription

pytestmark = pytest.mark.kafka
SESSION = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 200}
"""Longer than the tests take: nothing here may depend on its end."""


class Owned:
    """A listener that knows what its member owns, and how often that changed."""

    def __init__(self) -> None:
        self.now: set[Partition] = set()
        self.changes = 0

    def assigned(self, starts: Mapping[Partition, int]) -> None:
        self.changes += 1
        self.now = set(starts)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.changes += 1
        self.now -= set(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self.revoked(partitions)


class Group:
    """A group whose members join by instance id; all of them are polled together."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers, self.topic = servers, topic
        self.members: list[KafkaSubscription] = []
        self._buses: list[KafkaBus] = []

    def join(self, instance: str) -> tuple[KafkaSubscription, Owned]:
        ids = {f"{self.topic}.group": f"{self.topic}.group.{instance}"}
        bus = KafkaBus({"bootstrap.servers": self.servers}, SESSION, ids)
        owned = Owned()
        member = bus.subscribe(f"{self.topic}.group", [self.topic], owned)
        self._buses.append(bus)
        self.members.append(member)
        return member, owned

    def leave(self, member: KafkaSubscription) -> None:
        self.members.remove(member)
        member.close()

    def poll(self) -> bool:
        for member in self.members:
            member.poll(10, 0.05)
        return True

    def close(self) -> None:
        for member in self.members:
            member.close()
        for bus in self._buses:
            bus.close()


@pytest.fixture
def group(bootstrap_servers: str, topic_prefix: str) -> Iterator[Group]:
    create_topic(bootstrap_servers, topic_prefix, partitions=4)
    group = Group(bootstrap_servers, topic_prefix)
    yield group
    group.close()


def test_a_static_member_that_stops_and_starts_takes_its_partitions_back_undisturbed(
    group: Group,
) -> None:
    first, first_owns = group.join("a")
    _, other_owns = group.join("b")
    wait_for(
        "two partitions each",
        lambda: group.poll() and len(first_owns.now) == len(other_owns.now) == 2,
    )
    before, changes = set(first_owns.now), other_owns.changes
    group.leave(first)  # in order, as at SIGTERM: the group is not left
    _, again_owns = group.join("a")
    wait_for("the same partitions", lambda: group.poll() and again_owns.now == before)

    assert other_owns.changes == changes
    assert again_owns.changes == 1


def test_two_processes_of_one_instance_id_the_earlier_one_stops_with_the_way_out(
    group: Group,
) -> None:
    first, first_owns = group.join("a")
    wait_for("all partitions", lambda: group.poll() and len(first_owns.now) == 4)
    group.members.remove(first)
    _, second_owns = group.join("a")
    wait_for("the second's partitions", lambda: group.poll() and len(second_owns.now) == 4)

    with pytest.raises(StopService, match=r"has joined as .*\.group\.a.*\[services\] instance_id"):
        wait_for("the first to be expelled", lambda: bool(first.poll(1, 0.1)) and None)
    first.close()
