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
from tidegate.errors.commands import command_line
from tidegate.runtime.bus import (
    NO_METADATA,
    CommitMetadata,
    Offsets,
    Partition,
    RebalanceListener,
    Record,
    TopicIdentity,
    Watermarks,
    require_same_topic,
)
from tidegate.runtime.kafka.errors import is_transient, is_unreadable, translate_kafka_errors
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import (
    MAX_RECEIVED,
    REPORTS_ENDS,
    Config,
    as_record,
    is_end,
    pass_over,
    read_up_to,
)

log = logging.getLogger(__name__)
_SECONDS_BETWEEN: Final = 0.25
"""A check takes 0.7 ms of CPU time: a third of a percent at this rate."""
_SECONDS_IDLE: Final = 2.0
_END_OF_IDS: Final = "|"
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
"""Makes a process a static member: Kafka reserves its partitions while it restarts."""
_METADATA_SECONDS: Final = 30.0
_UNKNOWN_TOPIC_ATTEMPTS: Final = 10
_UNKNOWN_TOPIC_PAUSE: Final = 0.5
_COMMIT_RETRY_SECONDS: Final = 1.0
ASSIGN_SECONDS: Final = 200.0
"""How long an assignment waits for a broker that is away; less than max.poll.interval.ms."""
_ASSIGN_PAUSE: Final = 1.0


class _TopicGuard:
    """Compares the topics of one member with their identities at its first assignment.

    Call `join` at every assignment, then `passed` when it `is_due`, and before offsets are
    committed: if it is true, the records that were read before it may be acknowledged.
    """

    def __init__(
        self, group: str, topics: Sequence[str], watched: Sequence[str], metadata: KafkaMetadata
    ) -> None:
        """Take the topics that the member reads, and others that it relies on."""
        self._group, self._metadata = group, metadata
        self._watched = tuple(watched)
        self._names = sorted({*topics, *watched})
        self._joined: dict[str, TopicIdentity] = {}
        self._last = 0.0
        self._silent_since: float | None = None
        """When the broker first did not answer; None while it answers."""
        self.has_failed = False
        """Whether a topic has changed: from then on nothing may be acknowledged."""

    def join(self) -> None:
        """Record the topics' identities the first time; compare them later.

        Raises:
            OffsetGapError: a topic was created again since the first assignment.
            StopService: a topic has another number of partitions.
            TransientError: the broker did not answer.
        """
        self._compare(self._metadata.identities(self._names))

    def is_due(self, *, urgent: bool) -> bool:
        """Whether to check: every 0.25 s if offsets wait for it, else every 2 s."""
        pause = _SECONDS_BETWEEN if urgent and self._silent_since is None else _SECONDS_IDLE
        return bool(self._joined) and time.monotonic() >= self._last + pause

    def passed(self) -> bool:
        """Ask whether the topics are the same. False without an answer.

        Raises:
            OffsetGapError: a topic was created again.
            StopService: a topic has another number of partitions.
        """
        try:
            self._compare(self._metadata.identities(self._names))
        except TransientError as error:
            if self._silent_since is None:
                self._silent_since = time.monotonic()
                log.warning(
                    "%s: the broker does not answer, and no offsets are committed for now: %s",
                    self._group,
                    error,
                )
            return False
        finally:
            self._last = time.monotonic()
        if self._silent_since is not None:
            seconds = time.monotonic() - self._silent_since
            self._silent_since = None
            log.warning("%s: offsets are committed again after %.0f s", self._group, seconds)
        return True

    def with_ids(self, topic: str, text: str) -> str:
        """Commit metadata: the ids of the topic and of the watched topics, then the text."""
        names = (topic, *self._watched)
        ids = [self._joined[name].topic_id for name in names if name in self._joined]
        return f"{','.join(ids)}{_END_OF_IDS}{text}"

    def text_of(self, topic: str, metadata: str | None) -> str:
        """The text of commit metadata that was committed with the same topics.

        Raises:
            OffsetGapError: the offset belongs to another topic of the same name.
        """
        ids, text = split_metadata(metadata)
        if not ids:  # committed by an earlier version or another tool
            return text
        for name, topic_id in zip(
            (topic, *self._watched), ids.removesuffix(_END_OF_IDS).split(","), strict=False
        ):
            now = self._joined[name]
            require_same_topic(self._group, name, TopicIdentity(topic_id, now.partitions), now)
        return text

    def _compare(self, found: dict[str, TopicIdentity]) -> None:
        try:
            for name, now in found.items():
                require_same_topic(self._group, name, self._joined.setdefault(name, now), now)
        except StopService:
            self.has_failed = True
            raise


def split_metadata(metadata: str | None) -> tuple[str, str]:
    """Split commit metadata into the topics' ids and the text after them.

    The ids are empty if an earlier version or another tool committed it. To replace the text only,
    write the new text after the same ids: the guard compares those.
    """
    ids, is_ours, text = (metadata or "").partition(_END_OF_IDS)
    return (ids + _END_OF_IDS, text) if is_ours else ("", ids)


def watched_ids(metadata: str | None) -> list[str]:
    """The ids of the watched topics in commit metadata; empty if there are none."""
    return split_metadata(metadata)[0].removesuffix(_END_OF_IDS).split(",")[1:]


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
        # brokers' logs, quotas and kafka-consumer-groups show this name
        named = {"client.id": f"{group}-{socket.gethostname()}-{os.getpid()}"}
        settings = {**named, **CONSUMER, **config, "group.id": group}
        self._instance_id = str(config.get(INSTANCE_ID, ""))
        self._consumer = Consumer({**settings, "on_commit": self._on_commit})
        self._group, self._listener, self._metadata = group, listener, metadata
        self._guard = _TopicGuard(group, topics, watched, metadata)
        self._leaving = False
        self._rebalances = 0
        self._ends: dict[Partition, int] = {}
        """By assigned partition, the last end that was reached."""
        self._committed: dict[Partition, TopicPartition] = {}
        """The latest commit of each assigned partition, confirmed or not."""
        self._starts_at: dict[Partition, int] = {}
        """By assigned partition, the offset at which reading began or was resumed."""
        self._waiting: dict[Partition, TopicPartition] = {}
        """Offsets to commit once the topics have passed a check."""
        self._unreadable: dict[Partition, Received] = {}
        """Errors of this poll that stand for messages that the client can't read."""
        self._unconfirmed: set[Partition] = set()
        self._retry_at = 0.0
        self._to_pause: list[TopicPartition] | None = None
        """Partitions to pause as soon as they are assigned; None: no assignment is under way."""
        self._consumer.subscribe(
            list(topics), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Wait for a first record; return it with all others that have arrived."""
        self._retry_commits()
        self._commit_waiting()
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        rebalances = self._rebalances
        rest = self._consumer.consume(limit - 1, 0) if limit > 1 else []
        # after a rebalance in between, the first may belong to another member by now
        received = rest if self._rebalances != rebalances else (first, *rest)
        records = [
            as_record(message)
            for message in received
            if message.error() is None or self._is_record(message)
        ]
        return [*records, *self._pass_over()] if self._unreadable else records

    def ends(self) -> Offsets:
        """By partition, the end that was reached; see `records`."""
        return self._ends

    def commit(
        self, at: Offsets, metadata: CommitMetadata = NO_METADATA, *, wait: bool = False
    ) -> None:
        """Commit once a check has shown that the topics are the same; `poll` retries a failure.

        At worst, records are read again after a failure.
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
        self._commit_waiting(now=wait)

    def committed_metadata(self, partition: Partition) -> str:
        """The metadata that was committed with the group's offset."""
        committed = self._committed.get(partition)
        return self._guard.text_of(partition.topic, committed.metadata) if committed else ""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Pause; during an assignment, before the first record of it is returned."""
        paused = [TopicPartition(*partition) for partition in partitions]
        if self._to_pause is None:
            self._consumer.pause(paused)
        else:
            self._to_pause += paused

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
        partitions = [Partition(part.topic, part.partition) for part in assigned]
        starts = self._await_starts(partitions)
        self._committed = {Partition(start.topic, start.partition): start for start in starts}
        self._starts_at = {part: start.offset for part, start in self._committed.items()}
        self._ends, self._to_pause = {}, []
        try:
            self._listener.assigned(dict(self._starts_at))
            consumer.assign(starts)
            consumer.resume(starts)  # a pause outlives the assignment in which it was made
            consumer.pause(self._to_pause)
        finally:
            self._to_pause = None
        # From here on a gap is noticed, even if events are deleted before the first one is read.
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
        # Another client asks: a request of the member's own client from inside its callback may
        # start a second rebalance, which crashes the process in C code.
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
        """Where to start reading without a gap: only a new group starts at the first offset."""
        topic, with_ids = partition.topic, self._guard.with_ids
        if committed is None:
            return TopicPartition(*partition, marks.first, metadata=with_ids(topic, ""))
        if not marks.first <= committed.offset <= marks.end:
            raise OffsetGapError(
                f"{self._group} must continue at offset {committed.offset} of {partition.topic}"
                f"[{partition.number}], which has {marks.first} to {marks.end}: events would be"
                " skipped. Find out what is missing; to continue with what the topic has now:"
                f" {self._go_on()}"
            )
        metadata = with_ids(topic, self._guard.text_of(topic, committed.metadata))
        return TopicPartition(*partition, committed.offset, metadata=metadata)

    def _go_on(self) -> str:
        service = self._group.rpartition(".")[2]
        return command_line("replay group", service, to_earliest=True, execute=True)

    def _commit_waiting(self, *, now: bool = False) -> None:
        """Check the topics when that is due, or `now`; then commit all waiting offsets.

        With `now`, wait for the broker's answer.
        """
        wants_check = self._waiting if now else self._guard.is_due(urgent=bool(self._waiting))
        if wants_check and not self._guard.has_failed and self._guard.passed():
            offsets, self._waiting = list(self._waiting.values()), {}
            self._commit(offsets, wait=now)

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
        """Record the offsets that the broker refused: an idle partition has no later commit."""
        failed = [offset for offset in offsets if error or offset.error]
        if failed:
            log.warning("%s: offsets not committed: %s", self._group, error or failed[0].error)
        self._unconfirmed |= {Partition(offset.topic, offset.partition) for offset in failed}

    def _retry_commits(self) -> None:
        """Commit again what failed, with the latest offsets; drop unassigned partitions."""
        if not self._unconfirmed or time.monotonic() < self._retry_at:
            return
        self._retry_at = time.monotonic() + _COMMIT_RETRY_SECONDS
        for key in self._unconfirmed & self._committed.keys():
            self._waiting[key] = self._committed[key]
        self._unconfirmed.clear()

    def _revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._listener.revoked([Partition(part.topic, part.partition) for part in revoked])
        self._commit_waiting(now=True)
        self._forget()
        consumer.unassign()

    def _lose(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._listener.lost([Partition(part.topic, part.partition) for part in lost])
        self._forget()
        consumer.unassign()

    def _forget(self) -> None:
        self._committed, self._waiting = {}, {}
        self._starts_at, self._ends = {}, {}

    def _is_record(self, message: Received) -> bool:
        """Whether a message is a record. An error that needs no action returns False.

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
            self._guard.passed()  # a topic that was created again has an error of its own
            raise OffsetGapError(
                f"{self._group}: {error.str()}: events would be skipped. Find out what is missing;"
                f" to continue with what {message.topic()} has now: {self._go_on()}"
            )
        if is_unreadable(error):
            self._unreadable[Partition(message.topic() or "", message.partition() or 0)] = message
            return False
        if is_transient(error) or self._is_known_elsewhere(error, str(message.topic())):
            return False
        if self._instance_id and INSTANCE_ID in error.str():  # the code is just "fatal"
            raise StopService(
                f"{self._group}: another process has joined as {self._instance_id}, and Kafka has"
                " expelled this one. Each process of a service needs an id of its own: set"
                " [services] instance_id, or stop one of the two"
            )
        raise StopService(f"{self._group}: {error.str()}")

    def _pass_over(self) -> list[Record]:
        """Move past the messages that the client can't read; return records with their location."""
        failed, self._unreadable = self._unreadable, {}
        passed = [
            pass_over(self._consumer, failed[key], self._starts_at[key])
            for key in failed.keys() & self._starts_at.keys()
        ]
        self._starts_at |= {record.partition: record.offset + 1 for record in passed}
        return passed

    def _is_known_elsewhere(self, error: KafkaError, topic: str) -> bool:
        """Whether the cluster knows a topic that one of its brokers does not know."""
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            return False
        for _ in range(_UNKNOWN_TOPIC_ATTEMPTS):
            with translate_kafka_errors(f"topic {topic}"):
                listed = self._consumer.list_topics(topic, timeout=_METADATA_SECONDS).topics
            if topic in listed and listed[topic].error is None:
                return True
            time.sleep(_UNKNOWN_TOPIC_PAUSE)
        return False
