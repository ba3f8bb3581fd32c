"""A member of a consumer group on Kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as Received

from tidegate.errors import OffsetGapError, StopService
from tidegate.runtime.bus import NO_NOTES, Listener, Notes, Offsets, Partition, Record
from tidegate.runtime.kafka_faults import passes, told_apart
from tidegate.runtime.kafka_records import Config, as_record
from tidegate.runtime.patience import BRIEF

log = logging.getLogger(__name__)
CONSUMER: Final[Config] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    # Range gives partition n of every input topic to one member: a table's events stay together.
    "partition.assignment.strategy": "range",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
    "max.poll.interval.ms": 300_000,
    "log_level": 0,
}
_WAIT: Final = 30.0
_ANSWER: Final = 10.0
_LOOK_AGAIN: Final = 0.5
_TELL_AGAIN: Final = 1.0


class KafkaSubscription:
    """A member of a consumer group on Kafka."""

    def __init__(
        self, config: Config, group: str, topics: Sequence[str], listener: Listener
    ) -> None:
        """Join the group; partitions arrive with the first polls."""
        self._settings = {**CONSUMER, **config, "group.id": group}
        self._consumer = Consumer({**self._settings, "on_commit": self._answered})
        self._group = group
        self._listener = listener
        self._leaving = False
        self._tenure = 0
        self._told: dict[Partition, TopicPartition] = {}
        self._unheard: set[Partition] = set()
        self._tell_at = 0.0
        self._consumer.subscribe(
            list(topics), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Wait for a first record, then take what has arrived with it."""
        self._tell_again()
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        tenure = self._tenure
        rest = self._consumer.consume(limit - 1, 0) if limit > 1 else []
        # after a rebalance in between, the first may be another's by now
        taken = rest if self._tenure != tenure else (first, *rest)
        return [as_record(each) for each in taken if each.error() is None or self._tell(each)]

    def commit(self, at: Offsets, notes: Notes = NO_NOTES, *, wait: bool = False) -> None:
        """Commit; a failed commit only means that records are read again, unless it is repeated."""
        told = {p: TopicPartition(*p, at[p], metadata=notes.get(p, "")) for p in at}
        self._told |= told
        self._commit(list(told.values()), wait=wait)

    def noted(self, partition: Partition) -> str:
        """Give what the group's offset has with it."""
        told = self._told.get(partition)
        return (told and told.metadata) or ""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Pause."""
        self._consumer.pause([TopicPartition(*each) for each in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Resume."""
        self._consumer.resume([TopicPartition(*each) for each in partitions])

    def close(self) -> None:
        """Leave the group."""
        self._leaving = True
        self._consumer.close()

    def _assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        if self._leaving:  # the group's answer to joining came after we had decided to go
            return
        starts = BRIEF.call(lambda: self._starts(assigned))
        self._told = {Partition(each.topic, each.partition): each for each in starts}
        self._listener.assigned({part: each.offset for part, each in self._told.items()})
        consumer.assign(starts)
        consumer.resume(starts)  # a pause outlives the assignment in which it was made
        # From here on a gap is seen, also by a process that finds events gone before its first.
        self._commit(starts)

    def _starts(self, assigned: list[TopicPartition]) -> list[TopicPartition]:
        # A client of its own: the member may ask nothing from inside its callback, or a second
        # rebalance in the same poll ends the process in C. What it knows of topics is fresh, too.
        asking = Consumer(self._settings)
        try:
            with told_apart(f"{self._group}: where to read on"):
                found = asking.committed(assigned, timeout=_ANSWER)
                return [self._start(asking, each) for each in found]
        finally:
            asking.close()

    def _start(self, asking: Consumer, committed: TopicPartition) -> TopicPartition:
        """Where to read on: never a jump. Only a group without an offset begins at the start."""
        if committed.error is not None:
            raise KafkaException(committed.error)
        low, high = asking.get_watermark_offsets(committed, timeout=_ANSWER)
        if committed.offset == OFFSET_INVALID:
            return TopicPartition(committed.topic, committed.partition, low)
        if not low <= committed.offset <= high:
            raise OffsetGapError(
                f"{self._group} is to go on at offset {committed.offset} of {committed.topic}"
                f"[{committed.partition}], which holds {low} to {high}: events would be skipped."
                " Find out what is missing; to go on with what the topic holds now:"
                " tidegate replay group <service> --to-earliest --execute"
            )
        return committed

    def _commit(self, offsets: list[TopicPartition], *, wait: bool = False) -> None:
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not wait)  # type: ignore[call-overload]
        except KafkaException as error:
            if error.args[0].fatal():
                raise StopService(error.args[0].str()) from error
            self._answered(error.args[0], offsets)

    def _answered(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Note which offsets the broker did not take: a quiet partition has no later commit."""
        lost = [each for each in offsets if error or each.error]
        if lost:
            log.warning("%s: offsets not committed: %s", self._group, error or lost[0].error)
        self._unheard |= {Partition(each.topic, each.partition) for each in lost}

    def _tell_again(self) -> None:
        """Commit once more, at the place where we stand by now; what is another's is forgotten."""
        if not self._unheard or time.monotonic() < self._tell_at:
            return
        self._tell_at = time.monotonic() + _TELL_AGAIN
        again = [self._told[each] for each in self._unheard if each in self._told]
        self._unheard.clear()
        self._commit(again)

    def _revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._tenure += 1
        self._listener.revoked([Partition(each.topic, each.partition) for each in revoked])
        self._told = {}
        consumer.unassign()

    def _lose(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        self._tenure += 1
        self._listener.lost([Partition(each.topic, each.partition) for each in lost])
        self._told = {}
        consumer.unassign()

    def _tell(self, news: Received) -> bool:
        """Whether a message is a record after all; if it is news that can't be borne, stop.

        Raises:
            OffsetGapError: an offset is no longer in its topic.
            StopService: the broker refuses us for good.
        """
        error = news.error()
        if error is None:
            return True
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise OffsetGapError(f"{self._group}: {error.str()}")
        if passes(error) or self._is_news_to_one_broker(error, str(news.topic())):
            return False
        raise StopService(f"{self._group}: {error.str()}")

    def _is_news_to_one_broker(self, error: KafkaError, topic: str) -> bool:
        """Whether a topic that one broker does not know is known to the cluster after all."""
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            return False
        for _ in range(10):
            with told_apart(f"topic {topic}"):
                if self._consumer.list_topics(topic, timeout=_WAIT).topics[topic].error is None:
                    return True
            time.sleep(_LOOK_AGAIN)
        return False
