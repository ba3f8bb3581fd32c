"""A member of a consumer group on Kafka."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import OffsetGapError, StopService, TransientError
from tidegate.runtime.bus import (
    NO_METADATA,
    CommitMetadata,
    Offsets,
    Partition,
    RebalanceListener,
    Record,
    Watermarks,
)
from tidegate.runtime.kafka.errors import is_transient, is_unreadable, translate_kafka_errors
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import pass_over
from tidegate.runtime.kafka.read_to_end import REPORTS_ENDS, is_end, read_up_to
from tidegate.runtime.kafka.records import MAX_RECEIVED, Config, as_record
from tidegate.runtime.kafka.topic_guard import TopicGuard

log = logging.getLogger(__name__)
CONSUMER: Final[Config] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "isolation.level": "read_committed",
    **REPORTS_ENDS,
    # Range gives partition n of every input topic to one member: a table's events stay together.
    "partition.assignment.strategy": "range",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
    "max.poll.interval.ms": 300_000,
    "receive.message.max.bytes": MAX_RECEIVED,
    "log_level": 0,
}
INSTANCE_ID: Final = "group.instance.id"
"""Makes a process a static member: Kafka keeps its partitions for it while it restarts."""
_METADATA_SECONDS: Final = 30.0
_UNKNOWN_TOPIC_ATTEMPTS: Final = 10
_UNKNOWN_TOPIC_PAUSE: Final = 0.5
_COMMIT_RETRY_SECONDS: Final = 1.0
ASSIGN_SECONDS: Final = 200.0
"""How long an assignment waits for a broker that is away; less than max.poll.interval.ms."""
_ASSIGN_PAUSE: Final = 1.0


class KafkaSubscription:
    """A member of a consumer group on Kafka."""

    def __init__(  # noqa: PLR0913 - the bus alone calls it
        self,
        config: Config,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        metadata: KafkaMetadata,
        *,
        watched: Sequence[str] = (),
    ) -> None:
        """Join the group; partitions arrive with the first polls."""
        # what brokers' logs, quotas and kafka-consumer-groups show
        named = {"client.id": f"{group}-{socket.gethostname()}-{os.getpid()}"}
        settings = {**named, **CONSUMER, **config, "group.id": group}
        self._instance_id = str(config.get(INSTANCE_ID, ""))
        self._consumer = Consumer({**settings, "on_commit": self._on_commit})
        self._group, self._listener, self._metadata = group, listener, metadata
        self._guard = TopicGuard(group, topics, watched, metadata)
        self._leaving = False
        self._rebalances = 0
        self._ends: dict[Partition, int] = {}
        """By assigned partition the last end that was reached."""
        self._committed: dict[Partition, TopicPartition] = {}
        """The latest commit of each assigned partition, confirmed or not."""
        self._starts_at: dict[Partition, int] = {}
        """Where the reading of each assigned partition began, or began again."""
        self._waiting: dict[Partition, TopicPartition] = {}
        """Offsets to commit once a check of the topics that begins after their reading passes."""
        self._checking: dict[Partition, TopicPartition] | None = None
        """Those for which a check is under way."""
        self._unreadable: dict[Partition, Received] = {}
        """Errors of this poll that stand for a message that the client can't read."""
        self._unconfirmed: set[Partition] = set()
        self._retry_at = 0.0
        self._consumer.subscribe(
            list(topics), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Wait for a first record, then return what has arrived with it."""
        self._retry_commits()
        self._commit_checked()
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        rebalances = self._rebalances
        rest = self._consumer.consume(limit - 1, 0) if limit > 1 else []
        # after a rebalance in between, the first may belong to another member by now
        received = rest if self._rebalances != rebalances else (first, *rest)
        records = [
            as_record(each) for each in received if each.error() is None or self._is_record(each)
        ]
        return [*records, *self._pass_over()] if self._unreadable else records

    def ends(self) -> Offsets:
        """The ends that were reached; see `read_to_end`."""
        return self._ends

    def commit(
        self, at: Offsets, metadata: CommitMetadata = NO_METADATA, *, wait: bool = False
    ) -> None:
        """Commit, as soon as the topics are known to be the same; retried while polling.

        After a failure records are at worst read again.
        """
        if self._guard.has_failed:  # that was raised before: the service is stopping
            return
        offsets = {
            p: TopicPartition(
                *p, at[p], metadata=self._guard.with_ids(p.topic, metadata.get(p, ""))
            )
            for p in at
        }
        self._committed |= offsets
        self._waiting |= offsets
        if wait:
            self._commit_now()
        else:
            self._commit_checked()

    def committed_metadata(self, partition: Partition) -> str:
        """The metadata beside the group's offset."""
        committed = self._committed.get(partition)
        return self._guard.text_of(partition.topic, committed.metadata) if committed else ""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Pause."""
        self._consumer.pause([TopicPartition(*partition) for partition in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Resume."""
        self._consumer.resume([TopicPartition(*partition) for partition in partitions])

    def close(self) -> None:
        """Leave the group."""
        self._leaving = True
        self._consumer.close()

    def _assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        if self._leaving:  # the group's answer to joining came after we had decided to leave
            return
        partitions = [Partition(each.topic, each.partition) for each in assigned]
        starts = self._await_starts(partitions)
        self._committed = {Partition(start.topic, start.partition): start for start in starts}
        self._starts_at = {part: each.offset for part, each in self._committed.items()}
        self._ends = {}
        self._listener.assigned(dict(self._starts_at))
        consumer.assign(starts)
        consumer.resume(starts)  # a pause outlives the assignment in which it was made
        # From here on a gap is seen, also by a process that finds events gone before its first.
        self._commit(starts)

    def _await_starts(self, partitions: Sequence[Partition]) -> list[TopicPartition]:
        """Ask where to start until the broker answers: an outage in a rebalance ends no service.

        It ends before the group would expel a member that does not poll.

        Raises:
            TransientError: the broker has not answered for ASSIGN_SECONDS.
        """
        until, is_logged = time.monotonic() + ASSIGN_SECONDS, False
        while True:
            try:
                return self._starts(partitions)
            except TransientError as error:
                if time.monotonic() > until:
                    raise
                if not is_logged:
                    log.warning("%s: the assignment waits for the broker: %s", self._group, error)
                is_logged = True
                time.sleep(_ASSIGN_PAUSE)

    def _starts(self, partitions: Sequence[Partition]) -> list[TopicPartition]:
        # Not asked through the member's own client: a request from inside its callback may let a
        # second rebalance in, which ends the process in C.
        self._guard.join()
        committed = self._metadata.committed(self._group, partitions)
        watermarks = self._metadata.watermarks(partitions)
        return [
            self._start(partition, committed.get(partition), watermarks[partition])
            for partition in partitions
        ]

    def _start(
        self, partition: Partition, committed: TopicPartition | None, marks: Watermarks
    ) -> TopicPartition:
        """Where to start reading, without ever skipping: only a new group starts at the first."""
        topic, with_ids = partition.topic, self._guard.with_ids
        if committed is None:
            return TopicPartition(*partition, marks.first, metadata=with_ids(topic, ""))
        if not marks.first <= committed.offset <= marks.end:
            raise OffsetGapError(
                f"{self._group} is to continue at offset {committed.offset} of {partition.topic}"
                f"[{partition.number}], which has {marks.first} to {marks.end}: events would be"
                " skipped. Find out what is missing; to continue with what the topic has now:"
                f" tidegate replay group {self._group.rpartition('.')[2]} --to-earliest --execute"
            )
        metadata = with_ids(topic, self._guard.text_of(topic, committed.metadata))
        return TopicPartition(*partition, committed.offset, metadata=metadata)

    def _commit_checked(self) -> None:
        """Commit what a finished check covers; begin the next one where it is time."""
        if self._checking is not None:
            if not self._guard.is_finished:
                return
            covered, self._checking = self._checking, None
            if self._guard.passed():
                self._commit(list(covered.values()))
                later = {p: each for p, each in self._waiting.items() if covered.get(p) is not each}
                self._waiting = later
        if self._guard.is_due(urgent=bool(self._waiting)):
            self._guard.begin()
            self._checking = dict(self._waiting)

    def _commit_now(self) -> None:
        """Check the topics, commit all that waits for it, and wait for the broker."""
        if not self._waiting or self._guard.has_failed:
            return
        self._checking = None
        self._guard.begin()
        if self._guard.passed():
            offsets, self._waiting = list(self._waiting.values()), {}
            self._commit(offsets, wait=True)

    def _commit(self, offsets: list[TopicPartition], *, wait: bool = False) -> None:
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not wait)  # type: ignore[call-overload]
        except KafkaException as error:
            if error.args[0].fatal():
                raise StopService(error.args[0].str()) from error
            self._on_commit(error.args[0], offsets)

    def _on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Remember which offsets the broker did not take: a quiet partition has no later commit."""
        failed = [offset for offset in offsets if error or offset.error]
        if failed:
            log.warning("%s: offsets not committed: %s", self._group, error or failed[0].error)
        self._unconfirmed |= {Partition(each.topic, each.partition) for each in failed}

    def _retry_commits(self) -> None:
        """Commit the latest offsets of what failed; partitions no longer assigned are dropped."""
        if not self._unconfirmed or time.monotonic() < self._retry_at:
            return
        self._retry_at = time.monotonic() + _COMMIT_RETRY_SECONDS
        for key in self._unconfirmed & self._committed.keys():
            self._waiting[key] = self._committed[key]
        self._unconfirmed.clear()

    def _revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._listener.revoked([Partition(each.topic, each.partition) for each in revoked])
        self._commit_now()
        self._forget()
        consumer.unassign()

    def _lose(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._listener.lost([Partition(each.topic, each.partition) for each in lost])
        self._forget()
        consumer.unassign()

    def _forget(self) -> None:
        self._committed, self._waiting, self._checking = {}, {}, None
        self._starts_at, self._ends = {}, {}

    def _is_record(self, message: Received) -> bool:
        """Whether a message is a record; if it is an error, whether that one can be passed over.

        Raises:
            OffsetGapError: an offset is no longer in its topic.
            StopService: the broker refuses us permanently.
        """
        error = message.error()
        if error is None:
            return True
        if is_end(error):
            where = Partition(message.topic() or "", message.partition() or 0)
            if where in self._starts_at:
                self._ends[where] = read_up_to(message) or 0
            return False
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._guard.begin()  # a topic that was created again is named as that, with its way out
            self._guard.passed()
            raise OffsetGapError(
                f"{self._group}: {error.str()}: events would be skipped. Find out what is missing;"
                f" to continue with what {message.topic()} has now: tidegate replay group"
                f" {self._group.rpartition('.')[2]} --to-earliest --execute"
            )
        if is_unreadable(error):
            self._unreadable[Partition(message.topic() or "", message.partition() or 0)] = message
            return False
        if is_transient(error) or self._is_known_elsewhere(error, str(message.topic())):
            return False
        if self._instance_id and INSTANCE_ID in error.str():  # the code says only "fatal"
            raise StopService(
                f"{self._group}: another process has joined as {self._instance_id}, and Kafka has"
                " expelled this one. Each process of a service needs an id of its own: set"
                " [services] instance_id, or stop one of the two"
            )
        raise StopService(f"{self._group}: {error.str()}")

    def _pass_over(self) -> list[Record]:
        """Records that stand for what the client can't read; it goes on after each of them."""
        failed, self._unreadable = self._unreadable, {}
        passed = [
            pass_over(self._consumer, failed[key], self._starts_at[key])
            for key in failed.keys() & self._starts_at.keys()
        ]
        self._starts_at |= {each.partition: each.offset + 1 for each in passed}
        return passed

    def _is_known_elsewhere(self, error: KafkaError, topic: str) -> bool:
        """Whether a topic that one broker does not know is known to the cluster after all."""
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            return False
        for _ in range(_UNKNOWN_TOPIC_ATTEMPTS):
            with translate_kafka_errors(f"topic {topic}"):
                listed = self._consumer.list_topics(topic, timeout=_METADATA_SECONDS).topics
            if topic in listed and listed[topic].error is None:
                return True
            time.sleep(_UNKNOWN_TOPIC_PAUSE)
        return False
