"""A service's consumer group as the broker has it: who is in it, where it stands, put back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient  # noqa: TC002 - stands where a reader looks

from tidegate.errors import TidegateError
from tidegate.replay.plan import Move
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka_faults import told_apart
from tidegate.runtime.patience import Patience

_WAIT: Final = 30.0
_ANSWER: Final = 10.0
"""The broker's time to answer, below the time that we wait for what it said."""
_PATIENCE: Final = Patience(attempts=6, longest=2.0)
"""A broker that has just started loads its groups first."""
_IN_USE: Final = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
}


class GroupInUseError(TidegateError):
    """The service runs: its group can't be put back. The catcher stops the service first."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The consumer groups of a cluster."""

    admin: AdminClient

    def check_unused(self, group: str) -> None:
        """Refuse a group that has members; one that is not there yet has none.

        Raises:
            GroupInUseError: the service runs.
        """
        members = _PATIENCE.call(lambda: self._members(group))
        if members:
            raise GroupInUseError(
                f"group {group} is in use by {', '.join(members)}: stop the service first"
            )

    def _members(self, group: str) -> list[str]:
        try:
            [asked] = self.admin.describe_consumer_groups([group], request_timeout=_ANSWER).values()
            return [f"{m.client_id} on {m.host}" for m in asked.result(_WAIT).members]
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            with told_apart(f"group {group}"):
                raise

    def committed(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Where the group goes on; partitions without a committed offset are not in it."""
        return _PATIENCE.call(lambda: self._committed(group, partitions))

    def _committed(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*each) for each in partitions])
        with told_apart(f"group {group}"):
            [answer] = self.admin.list_consumer_group_offsets(
                [asked], request_timeout=_ANSWER
            ).values()
            found = answer.result(_WAIT).topic_partitions or []
        return {Partition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def put_back(self, group: str, moves: Sequence[Move]) -> None:
        """Commit the new offsets in the group's name.

        Raises:
            GroupInUseError: the service was started meanwhile; nothing of the group was changed.
        """
        _PATIENCE.call(lambda: self._put_back(group, moves))

    def _put_back(self, group: str, moves: Sequence[Move]) -> None:
        offsets = [TopicPartition(*move.partition, move.to_offset) for move in moves]
        asked = ConsumerGroupTopicPartitions(group, offsets)
        try:
            [answer] = self.admin.alter_consumer_group_offsets(
                [asked], request_timeout=_ANSWER
            ).values()
            done = answer.result(_WAIT).topic_partitions or []
            _check(each.error for each in done)
        except KafkaException as error:
            if error.args[0].code() in _IN_USE:
                raise GroupInUseError(
                    f"group {group} is in use by now: nothing was moved"
                ) from error
            with told_apart(f"group {group}"):
                raise


def _check(faults: Iterable[KafkaError | None]) -> None:
    for fault in faults:
        if fault is not None:
            raise KafkaException(fault)
