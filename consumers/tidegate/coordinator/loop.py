"""The coordinator's loop: read, decide, remember, publish, commit.

Its invariants, each at a comment that repeats it:

1. The rows of a partition are restored up to the last end mark before the first new event is
   decided, and what they hold as unsent is published before it.
2. What was decided is remembered before it is published: changed rows, the outgoing messages among
   them, go to the changelog, fenced, their position last; then the messages are published; then the
   offsets of the inputs are committed. A crash in between repeats messages, with the same ids; it
   never publishes what no successor knows.
3. An event is decided once, however often it is delivered: the position has the offset up to which
   each input was applied.
4. An event is one transaction: an exception rolls back this event alone. After any other fault
   nothing of the interrupted step is written, published or committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Final

from tidegate.coordinator import tasks
from tidegate.coordinator.partitions import BrokerTime, CatchUp, OwnedPartition, OwnedPartitions
from tidegate.coordinator.requests import ABOUT_REQUESTS, ENDS, Requests
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import SOURCE, Effects, Subject, Subjects
from tidegate.coordinator.tasks import COUNT_LATE, MAY_FREE, OF_TASKS, Queued, Tasks
from tidegate.errors import (
    DeadLetterFlood,
    FormatError,
    MessageTooLargeError,
    StoppingError,
    StopService,
    TransientError,
)
from tidegate.events import Command, Event, Outcome, RestoreRejected
from tidegate.events.cleanings import HoldRequest
from tidegate.events.fields import from_ms
from tidegate.events.refusals import refusal
from tidegate.events.signature import SIGNED
from tidegate.events.topics import (
    CHANGELOG,
    DEFAULT_PREFIX,
    OUTCOME_TOPIC,
    REQUEST_TOPIC,
    TASK_TOPIC,
    VACUUMS,
    topic_of,
)
from tidegate.events.wire import Wire, original_of
from tidegate.publisher import Message
from tidegate.runtime.authorization import Authorization, TrustedKey, Unauthorized, is_unproven
from tidegate.runtime.bus import Bus, Offsets, Partition, Record, Watermarks, require_copartitioned
from tidegate.runtime.gc_pause import gc_paused
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit
from tidegate.runtime.input.dead_letters import DeadLetterQueue
from tidegate.runtime.input.decoder import Decoder
from tidegate.runtime.input.uncopied import RefusalLimit
from tidegate.runtime.retry import BROKER_RETRIES, RetryPolicy, is_broker_fault
from tidegate.signatures.tokens import Sign, unsigned

log = logging.getLogger(__name__)
BATCH_SECONDS: Final = 2.0
"""While there is a backlog, the decisions of this time are remembered and published together."""
CHUNK: Final = 1000
"""Records polled at once: few enough to stay in the processor's cache."""
POLL_SECONDS: Final = 0.2
TICK_SECONDS: Final = 2.0
"""Between two checks of due rows."""
ALWAYS_ACCEPTED_BYTES: Final = 50_000
"""Messages up to this size are not compared with their topic's limit: every one accepts them."""
_OVERHEAD_BYTES: Final = 200
"""What a message has in its batch besides key, value and headers, generously."""
_TASK_BYTES: Final = 4_000
"""What a task has besides the command that it carries, generously."""
_PARTITION = attrgetter("partition")
READ_FIRST: Final = (REQUEST_TOPIC, VACUUMS)
"""After an assignment, the backlogs of these are read first: a person's hold of yesterday comes
before a release of today; and a release is not forgotten before the vacuum that waits for it.
Where rows are made again, the outcomes come before them: what was done is not done again."""


_MAY_ISSUE: Final = MAY_FREE.union(ABOUT_REQUESTS)
_OF_TASKS: Final = OF_TASKS.union(ENDS)


class CoordinatorLoop:
    """Runs the subjects, as a member of the consumer group.

    Order of calls: `step` again and again, or `run` until stopped; `close` at the end. Once `step`
    has raised, only `close` may follow.
    """

    def __init__(  # noqa: PLR0913 - settings, all by name
        self,
        subject: Subject,
        bus: Bus,
        prefix: str = DEFAULT_PREFIX,
        *,
        retries: RetryPolicy = BROKER_RETRIES,
        limit: DeadLetterLimit | None = None,
        wire: Wire | None = None,
        sign: Sign = unsigned,
        clock: BrokerTime | None = None,
        tick_seconds: float = TICK_SECONDS,
        authorization: Authorization | None = None,
    ) -> None:
        """Join the group. `sign` signs its messages; by default they are not signed.

        `clock` is the broker's time; due rows are decided every `tick_seconds`. `authorization`
        decides whose events are applied; by default all that the topic's access rights permit.

        Raises:
            ConfigError: a topic does not exist, or the topics differ in their number of
                partitions: a table's events and its rows would be on different partitions.
        """
        wire = wire or Wire()
        self._people = Requests(wire)
        self._given, subject = subject, Subjects(subject, self._people)
        self._subject, self._bus, self._prefix = subject, bus, prefix
        self._retries, self._wire, self._sign = retries, wire, sign
        limit = limit or DeadLetterLimit()
        self._dead_letters = DeadLetterQueue(SOURCE, bus, prefix, retries, limit)
        self._inputs = sorted({topic_of(kind).name(prefix) for kind in subject.consumes})
        self._outcome_topic, own = OUTCOME_TOPIC.name(prefix), CHANGELOG.name(prefix)
        self._task_topic = TASK_TOPIC.name(prefix)
        outputs = (self._task_topic, self._outcome_topic)
        topics = [*self._inputs, own, *outputs]
        count = require_copartitioned(bus, topics)
        # by type: to ask for a subclass of pydantic's takes as long as a decision
        self._authorization, self._refusals = authorization or Authorization(), RefusalLimit()
        self._requests = {kind for kind in subject.consumes if issubclass(kind, Command)}
        self._outcomes = {kind for kind in subject.consumes if issubclass(kind, Outcome)}
        signed = SIGNED if self._authorization.checks_signatures else ()
        others = set(subject.consumes) - self._requests
        self._signed_kinds = {kind for kind in others if issubclass(kind, signed)}
        self._tasks = Tasks(self._wire.serialize, self._sign, prefix)
        self._decoder = Decoder(subject.consumes, prefix, count, retries, self._wire)
        self._owned = OwnedPartitions(subject, bus, prefix, self._inputs, retries)
        self._clock, self._tick_seconds, self._next_tick = clock or BrokerTime(), tick_seconds, 0.0
        self._stop = threading.Event()
        self._committed: dict[Partition, int] = {}
        """The latest commit of each input partition."""
        self._subscription = bus.subscribe(f"{prefix}.{SOURCE}", self._inputs, self, watched=[own])
        first = [topic.name(prefix) for topic in READ_FIRST]
        self._catch_up = CatchUp(first, self._subscription, known=self._outcome_topic)

    def run(self, stop: threading.Event) -> None:
        """Process events until `stop` is set.

        Raises:
            StopService: this process must not go on; no offset of unfinished work was committed.
        """
        self._stop = stop
        with suppress(StoppingError):
            while not stop.is_set():
                self.step(POLL_SECONDS)

    def step(self, timeout: float) -> int:
        """Process what has arrived, waiting up to `timeout` seconds for it; return the count."""
        try:
            # no collection after each chunk: what a step makes has hardly any cycles, and all of
            # it would be visited two or three times; between two steps there is one
            with gc_paused():
                records = self._poll(timeout)
                count = self._apply_backlog(records)
                self._pass_ends()
                self._decide_due()
                self._finish()
        except BaseException:
            self._owned.drop()  # invariant 4: `close` must find nothing left to finish
            self._dead_letters.forget()
            raise
        return count

    def close(self) -> None:
        """Leave the group."""
        self._subscription.close()
        self._owned.drop()

    def assigned(self, starts: Offsets) -> None:
        """Acquire each partition's changelog, restore its rows, publish what is unsent.

        Raises:
            OffsetGapError: events would be skipped, or the changelog has lost the rows that
                followed from events whose offsets are committed.
        """
        for partition in starts:
            history = self._subscription.committed_metadata(partition)
            self._dead_letters.restore(partition, history)
        self._owned.restore(starts, self._stop.is_set)
        owned = self._owned.values()
        under_way = [m for it in owned for m in tasks.unended(it.store)]
        self._publish_unsent(owned, under_way)  # invariant 1
        self._committed, self._next_tick = dict(starts), 0.0
        first = self._catch_up.first(starts)
        self._catch_up.assigned(starts, self._retries.call(lambda: self._bus.watermarks(first)))

    def revoked(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002 - always all of them
        """Finish pending work, then give up the partitions; they may be assigned again at once."""
        self._finish(wait=True)
        # what was published is not to be published again by a successor
        self._owned.write({n: owned for n, owned in self._owned.items() if owned.store.has_changes})
        self._owned.release()
        self._forget()

    def lost(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002 - always all of them
        """Drop the partitions and the pending work on them."""
        self._owned.drop()
        self._forget()

    def _forget(self) -> None:
        self._dead_letters.forget()
        self._catch_up.assigned({}, {})

    def _apply_backlog(self, records: Sequence[Record]) -> int:
        """Apply what has arrived, chunk by chunk, for at most BATCH_SECONDS; return the count."""
        count = 0
        until = time.monotonic() + BATCH_SECONDS
        while records:
            self._apply(records)
            count += len(records)
            if len(records) < CHUNK or time.monotonic() > until:
                break
            records = self._poll(0)
        return count

    def _poll(self, timeout: float) -> Sequence[Record]:
        records = self._subscription.poll(CHUNK, timeout)
        self._catch_up.polled(records)
        if records:
            self._clock.saw(records[-1].timestamp_ms)
        return records

    def _apply(self, records: Sequence[Record]) -> None:
        try:
            for where, run in groupby(records, _PARTITION):
                self._apply_run(self._owned[where.number], where, run)
        except DeadLetterFlood:
            self._finish()  # the records before the flood, dead letters included, are done
            raise

    def _apply_run(self, owned: OwnedPartition, where: Partition, run: Iterable[Record]) -> None:
        store, topic = owned.store, where.topic
        begin_at, done = store.applied_to(topic), -1
        try:
            for record in run:
                if record.offset >= begin_at:  # invariant 3
                    self._apply_record(owned, record)
                done = record.offset
        finally:  # of a flood of dead letters, what came before it is done
            if done >= begin_at:
                store.advance(topic, done)
            if done >= 0:
                owned.read_up_to[where] = done + 1

    def _apply_record(self, owned: OwnedPartition, record: Record) -> None:
        try:
            event = self._decoder.decode(record)
        except FormatError as error:
            self._dead_letters.send(record, error)
            return
        store, where = owned.store, record.partition
        if event is None:
            return
        store.begin()
        try:
            at = from_ms(record.timestamp_ms)
            store.send(self._decided(owned, event, record, at))
        except Exception as error:
            store.rollback()  # invariant 4: one bad event must not hold up its partition
            if isinstance(error, StopService) or is_broker_fault(error):
                raise
            self._dead_letters.send(record, error)
        else:
            store.commit()
            self._dead_letters.limit.succeeded(where)

    def _decided(
        self, owned: OwnedPartition, event: Event, record: Record, at: datetime
    ) -> list[Message]:
        """Decide on an event; return the messages to publish."""
        kind, store = type(event), owned.store
        if kind in self._outcomes and is_unproven(event):
            return []
        # its task is not under way: it comes late, is a copy, or is forged
        is_late = kind in _OF_TASKS and tasks.carried(event, store) is None
        counts = kind in COUNT_LATE or (kind in ENDS and self._catch_up.is_known(record))
        # the coordinator itself ended a request that had no task, such as one that was declined
        is_own = kind is RestoreRejected and kind in self._given.consumes
        if is_late and not ((counts or is_own) and self._is_genuine(event, record)):
            return []
        if kind in self._signed_kinds:
            self._authorization.require(event, record)
        if kind in self._requests and isinstance(event, Command):
            effects = self._authorized(owned, event, record, at)
        else:
            subject = self._given if is_late and not counts else self._subject
            effects = subject.handle(event, store, at)
        messages = self._messages(effects, store, at)
        if isinstance(event, HoldRequest) and tasks.confirm_later(event.table, messages, store):
            messages = []
        if effects.commands or kind in _MAY_ISSUE:
            messages += self._tasks.issue(event.table, store, at)
        return messages

    def _is_genuine(self, event: Event, record: Record) -> bool:
        try:
            if type(event) in self._signed_kinds:
                self._authorization.check(event, record)
        except Unauthorized:
            return False
        return True

    def _authorized(
        self, owned: OwnedPartition, event: Command, record: Record, at: datetime
    ) -> Effects:
        """Apply a request only if its signature permits it; otherwise the outcome is a refusal."""
        signed_by: TrustedKey | None = None
        try:
            signed_by = self._authorization.check(event, record)
            if Requests.is_used(event, owned.store, at):
                log.info("the request %s was used before", event.event_id)
                return Effects()
        except Unauthorized as refused:
            self._refusals.require(record, f"{refused.reason}: {refused.message}")
            refused_as = refusal(event, refused.reason, refused.message, SOURCE, at)
            named = signed_by.name if signed_by else refused.signed_by
            return Effects(outcomes=[refused_as.to(event, named)])
        signer = signed_by.name if signed_by else None
        if isinstance(event, ABOUT_REQUESTS):
            message = Message(record.partition.topic, record.key, record.value, record.headers)
            # a task may carry two: a restore and its approval
            more = _TASK_BYTES + _size(message)
            self._require_accepted(message._replace(topic=self._task_topic), more)
            begun = self._catch_up.is_known(record)  # lost rows may have had a task of it
            queued = Queued.of(event, original_of(message, at), signer, has_begun=begun)
            effects = self._people.requested(event, queued, owned.store, at)
        else:
            effects = self._subject.handle(event, owned.store, at)
        effects.name_asker(event, signer)
        return effects

    def _pass_ends(self) -> None:
        """Go past what holds no record before the end of an input."""
        for where, end in self._subscription.ends().items():
            self._owned[where.number].pass_end(where, end, self._committed.get(where, 0))

    def _decide_due(self) -> None:
        """Decide on due rows, where every event up to now was applied.

        While a backlog is read, or a replay, the event that settles a matter may be still to come.
        A process that has lost its partitions without noticing does not decide either: what its
        successor has applied is on the topics, and unread here.
        """
        if time.monotonic() < self._next_tick:
            return
        self._next_tick = time.monotonic() + self._tick_seconds
        if (appended_ms := self._owned.appended_ms()) is not None:
            self._clock.saw(appended_ms)
        if (at := self._clock.now()) is None:
            return
        due = [number for number in self._owned if self._is_due(number, at)]
        for number in self._read_to_the_end(due):
            owned = self._owned[number]
            owned.store.begin()
            effects = self._subject.due(owned.store, at)
            messages = self._messages(effects, owned.store, at)
            for table in {command.table for command in effects.commands}:
                messages += self._tasks.issue(table, owned.store, at)
            owned.store.send(messages)
            owned.store.commit()
            owned.is_changed = True
            if self._is_due(number, at):
                self._next_tick = 0.0  # the rest at the next step

    def _is_due(self, number: int, at: datetime) -> bool:
        due = self._subject.next_due(self._owned[number].store)
        return due is not None and due <= at.timestamp() * 1000

    def _read_to_the_end(self, numbers: Sequence[int]) -> Iterator[int]:
        """Those of which every event up to now was applied."""
        inputs = [Partition(topic, number) for number in numbers for topic in self._inputs]
        marks: Mapping[Partition, Watermarks] = {}
        if inputs:
            try:
                marks = self._bus.watermarks(inputs)
            except TransientError:  # the next check asks again; the loop meets the same broker
                return
        for number in numbers:
            store = self._owned[number].store
            ends = ((topic, marks[Partition(topic, number)]) for topic in self._inputs)
            if not self._catch_up.is_reading(number) and all(
                max(store.applied_to(topic), mark.first) >= mark.end for topic, mark in ends
            ):
                yield number

    def _messages(self, effects: Effects, store: Store, at: datetime) -> list[Message]:
        """Serialize before anything is remembered: what no topic takes is refused with its event.

        Commands are queued: tasks carry them.

        Raises:
            MessageTooLargeError: a message exceeds the topic's limit.
        """
        if not effects.commands and not effects.outcomes:  # most events have none
            return effects.repeated
        try:
            messages = self._serialized(effects)
        except TransientError:  # only then are retries prepared: this runs for every decision
            messages = self._retries.call(lambda: self._serialized(effects))
        count = len(effects.commands)
        for message in messages[:count]:
            self._require_accepted(message, _TASK_BYTES)
        for message in messages[count:]:
            self._require_accepted(message)
        made = max(at, datetime.now(UTC))  # as the signature says
        for command, message in zip(effects.commands, messages, strict=False):
            if not Requests.is_over(command, store):
                tasks.queue(command, Queued.of(command, original_of(message, made)), store)
        return effects.repeated + messages[count:]

    def _require_accepted(self, message: Message, more: int = 0) -> None:
        size = _size(message) + more
        if size <= ALWAYS_ACCEPTED_BYTES:  # most are
            return
        limit = self._retries.call(lambda: self._bus.max_message_bytes(message.topic))
        if size > limit:
            raise MessageTooLargeError(
                f"Message size too large: {size} bytes for {message.topic}, which accepts {limit}"
            )

    def _serialized(self, effects: Effects) -> list[Message]:
        """The messages of the commands, signed for tasks, then those of the outcomes."""
        serialize, topic = self._wire.serialize, self._task_topic
        messages = [serialize(it, topic) for it in effects.commands]
        if self._sign is not unsigned:
            messages = list(map(self._sign, effects.commands, messages))
        return messages + [serialize(it, self._outcome_topic) for it in effects.outcomes]

    def _signed(self, message: Message) -> Message:
        """Sign at each publication: a message may have waited for longer than a signature lasts."""
        if self._sign is unsigned:
            return message
        event = self._wire.deserialize(message.key, message.value, message.headers)
        return self._sign(event, message)

    def _finish(self, *, wait: bool = False) -> None:
        """Remember, publish, commit: in this order (invariant 2)."""
        for where in self._dead_letters.write_recorded(all_of_them=wait):
            self._owned[where.number].commit_again(where)
        pending = self._owned.pending()
        if not pending:
            return
        self._owned.write(pending)
        self._publish_unsent(pending.values())
        offsets = {
            where: at for owned in pending.values() for where, at in owned.read_up_to.items()
        }
        metadata = {where: self._dead_letters.history(where) for where in offsets}
        if offsets:
            self._subscription.commit(offsets, metadata, wait=wait)
            self._committed |= offsets
        for owned in pending.values():
            owned.finished()

    def _publish_unsent(
        self, partitions: Iterable[OwnedPartition], repeated: Sequence[Message] = ()
    ) -> None:
        """Publish the messages in the outboxes, and others; return when the broker has them."""
        stores = [owned.store for owned in partitions]
        messages = [*(message for store in stores for message in store.unsent()), *repeated]
        if not messages:
            return
        try:
            self._retries.call(lambda: self._bus.send([*map(self._signed, messages)]))
        except MessageTooLargeError as error:
            raise StopService(
                f"a topic refuses messages of less than {ALWAYS_ACCEPTED_BYTES} bytes, or was"
                f" reconfigured: raise its max.message.bytes. {error}"
            ) from error
        for store in stores:
            store.sent()


def _size(message: Message) -> int:
    """About how many bytes of a batch a message takes, generously."""
    headers = sum([len(name) + len(value or b"") for name, value in message.headers])
    return len(message.key or b"") + len(message.value or b"") + headers + _OVERHEAD_BYTES
