"""The coordinator's loop: read, decide, remember, publish, commit.

The way of an event, from a record to a task:

    step
      _poll                        up to CHUNK records
      _apply ... _apply_record     skips what was applied; an invalid record becomes a dead letter
        _decide                    as a request, an outcome or a fact:
          _of_request, _subject_of does it count: signature, first use; running task
          Subjects.handle          its subject puts and drops rows, and returns `Effects`
          _carry_out               outcomes become rows of the outbox
            Tasks.add              a command becomes a task, or is queued while one is running
      _finish
        OwnedPartitions.write      changed rows, the position last, in one fenced transaction
        _publish_unsent            the outcomes and the new tasks
        Subscription.commit        the offsets

Its invariants; comments in the code name them by number:

1. The rows of a partition are restored up to the last position before the first new event is
   decided, and the messages in its outbox and of its running tasks are published before it.
2. What was decided is remembered, then published, then its offsets are committed, as in `_finish`
   above. A crash in between repeats messages, with the same ids; it never publishes what no
   successor knows.
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
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Final

from tidegate.coordinator import holds, requests, tasks
from tidegate.coordinator.outgoing import ALWAYS_ACCEPTED_BYTES, Outgoing
from tidegate.coordinator.partitions import BrokerTime, CatchUp, OwnedPartition, OwnedPartitions
from tidegate.coordinator.requests import Requests
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.running_tasks import carried, confirm_later
from tidegate.coordinator.subject import SOURCE, Effects, Subject, Subjects
from tidegate.errors import (
    DeadLetterFlood,
    FormatError,
    MessageTooLargeError,
    StoppingError,
    StopService,
    TransientError,
)
from tidegate.events import Command, Event, Outcome, RestoreRejected, topics
from tidegate.events.cleanings import CleaningHeld, HoldRequest
from tidegate.events.refusals import refusal
from tidegate.events.signature import SIGNED
from tidegate.events.wire import Wire
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
_PARTITION = attrgetter("partition")


class CoordinatorLoop:
    """Runs the subjects, as a member of the consumer group.

    Order of calls: `step` again and again, or `run` until stopped; `close` at the end. Once `step`
    has raised, only `close` may follow.
    """

    def __init__(  # noqa: PLR0913 - settings, all by name
        self,
        subject: Subject,
        bus: Bus,
        prefix: str = topics.DEFAULT_PREFIX,
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
        self._requests = Requests(wire)
        self._subject = subject
        self._subjects = Subjects(subject, self._requests)
        consumes = self._subjects.consumes
        self._bus, self._prefix, self._retries = bus, prefix, retries
        limit = limit or DeadLetterLimit()
        self._dead_letters = DeadLetterQueue(SOURCE, bus, prefix, retries, limit)
        self._inputs = sorted({topics.topic_of(kind).name(prefix) for kind in consumes})
        own, outcomes = topics.CHANGELOG.name(prefix), topics.OUTCOME_TOPIC.name(prefix)
        count = require_copartitioned(
            bus, [*self._inputs, own, topics.TASK_TOPIC.name(prefix), outcomes]
        )
        self._authorization, self._refusals = authorization or Authorization(), RefusalLimit()
        # sets: `isinstance` of pydantic's classes takes as long as a decision
        self._request_kinds = {kind for kind in consumes if issubclass(kind, Command)}
        self._outcome_kinds = {kind for kind in consumes if issubclass(kind, Outcome)}
        signed = SIGNED if self._authorization.checks_signatures else ()
        others = set(consumes) - self._request_kinds
        self._signed_kinds = {kind for kind in others if issubclass(kind, signed)}
        self._outgoing = Outgoing(bus, prefix, wire, sign, retries)
        self._tasks = tasks.Tasks(self._outgoing)
        self._decoder = Decoder(consumes, prefix, count, retries, wire)
        self._owned = OwnedPartitions(self._subjects, bus, prefix, self._inputs, retries)
        self._clock, self._tick_seconds, self._next_tick = clock or BrokerTime(), tick_seconds, 0.0
        self._stop = threading.Event()
        self._committed: dict[Partition, int] = {}
        """The latest commit of each input partition."""
        self._subscription = bus.subscribe(f"{prefix}.{SOURCE}", self._inputs, self, watched=[own])
        first = [topic.name(prefix) for topic in (topics.REQUEST_TOPIC, topics.VACUUMS)]
        self._catch_up = CatchUp(first, outcomes, self._subscription)

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
            # objects that a step makes rarely form cycles: collect once between two steps
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
        self._owned.restore(starts, self._stop.is_set)
        owned = self._owned.values()
        running = [message for it in owned for message in self._tasks.unfinished(it.store)]
        self._publish_unsent(owned, running)  # invariant 1
        self._committed, self._next_tick = dict(starts), 0.0
        self._begin_inputs(starts)

    def _begin_inputs(self, starts: Offsets) -> None:
        """Read the numbers of dead letters back, and pause what is not read first."""
        for partition in starts:
            history = self._subscription.committed_metadata(partition)
            self._dead_letters.restore(partition, history)
        early = self._catch_up.read_first(starts)
        marks = self._retries.call(lambda: self._bus.watermarks(early))
        self._catch_up.assigned(starts, marks, self._owned.rebuilt_to())

    def revoked(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002 - always all of them
        """Finish pending work, then give up the partitions; they may be assigned again at once."""
        self._finish(wait=True)
        # so that no successor publishes again what was published
        self._owned.write({n: owned for n, owned in self._owned.items() if owned.store.has_changes})
        self._owned.release()
        self._clear_partitions()

    def lost(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002 - always all of them
        """Drop the partitions and the pending work on them."""
        self._owned.drop()
        self._clear_partitions()

    def _clear_partitions(self) -> None:
        self._dead_letters.forget()
        self._catch_up.assigned({}, {}, {})

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
            self._decide(event, record, store, self._clock.of(record))
        except Exception as error:
            store.rollback()  # invariant 4: one bad event must not hold up its partition
            if isinstance(error, StopService) or is_broker_fault(error):
                raise
            self._dead_letters.send(record, error)
        else:
            store.commit()
            self._dead_letters.limit.succeeded(where)

    def _decide(self, event: Event, record: Record, store: Store, at: datetime) -> None:
        kind = type(event)
        if kind in self._request_kinds and isinstance(event, Command):
            effects = self._of_request(event, record, store, at)
        else:
            is_outcome = kind in self._outcome_kinds
            subject = self._subject_of(event, record, store) if is_outcome else self._subjects
            if subject is None:
                return
            if kind in self._signed_kinds:
                self._authorization.require(event, record)
            effects = subject.handle(event, store, at)
        self._carry_out(effects, store, at)
        if kind in requests.ISSUE_AFTER:
            self._tasks.issue(event.table, store, at)

    def _subject_of(self, event: Event, record: Record, store: Store) -> Subject | None:
        """What applies an outcome; None if it does not count."""
        kind = type(event)
        subject: Subject = self._subjects
        if is_unproven(event):
            return None
        if kind not in requests.NEED_A_TASK or carried(event, store) is not None:
            return subject
        # its task is not running: it comes late, is a copy, or is forged
        is_end = kind in requests.ENDS and self._catch_up.is_rebuilding(record)
        if not (is_end or kind in requests.COUNT_LATE):
            # the coordinator itself ended a request that had no task, such as one that was declined
            if kind is not RestoreRejected or kind not in self._subject.consumes:
                return None
            subject = self._subject
        return subject if self._is_genuine(event, record) else None

    def _is_genuine(self, event: Event, record: Record) -> bool:
        try:
            if type(event) in self._signed_kinds:
                self._authorization.check(event, record)
        except Unauthorized:
            return False
        return True

    def _of_request(self, event: Command, record: Record, store: Store, at: datetime) -> Effects:
        """Apply a request. While a cleaning of the table is running, a hold's answer waits."""
        effects = self._of_permitted(event, record, store, at)
        if isinstance(event, HoldRequest):
            answers = [*map(self._outgoing.outcome, effects.outcomes)]
            if confirm_later(event.table, answers, store):
                effects.outcomes.clear()
        return effects

    def _of_permitted(self, event: Command, record: Record, store: Store, at: datetime) -> Effects:
        """Apply a request only if its signature permits it; otherwise the outcome is a refusal."""
        signed_by: TrustedKey | None = None
        try:
            signed_by = self._authorization.check(event, record)
            if Requests.is_used(event, store, at):
                log.info("the request %s was used before", event.event_id)
                return Effects()
        except Unauthorized as refused:
            self._refusals.require(record, f"{refused.reason}: {refused.message}")
            refused_as = refusal(event, refused.reason, refused.message, SOURCE, at)
            named = signed_by.name if signed_by else refused.signed_by
            return Effects(outcomes=[refused_as.to(event, named)])
        signer = signed_by.name if signed_by else None
        if isinstance(event, requests.ABOUT_REQUESTS):
            begun = self._catch_up.is_rebuilding(record)  # lost rows may have had a task of it
            message = self._outgoing.request(event, record, at)
            queued = tasks.Queued.of(event, message, at, signer, has_begun=begun)
            effects = self._requests.requested(event, queued, store, at)
        else:
            effects = self._subjects.handle(event, store, at)
        effects.name_asker(event, signer)
        for outcome in effects.outcomes:
            if isinstance(outcome, CleaningHeld):
                holds.store(outcome, store, at)
        return effects

    def _pass_ends(self) -> None:
        """Advance past offsets without records at the end of an input (transaction markers)."""
        for where, end in self._subscription.ends().items():
            self._owned[where.number].pass_end(where, end, self._committed.get(where, 0))

    def _decide_due(self) -> None:
        """Decide on due rows, where every event up to now was applied.

        While a backlog or a replay is read, an event that makes due work unnecessary may still
        come. A process that lost its partitions without noticing decides nothing either: its
        successor's events are on the topics, and unread here.
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
            effects = self._subjects.due(owned.store, at)
            self._carry_out(effects, owned.store, at)
            owned.store.commit()
            if self._is_due(number, at):
                self._next_tick = 0.0  # the rest at the next step

    def _is_due(self, number: int, at: datetime) -> bool:
        due = self._subjects.next_due(self._owned[number].store)
        return due is not None and due <= at.timestamp() * 1000

    def _read_to_the_end(self, numbers: Sequence[int]) -> Iterator[int]:
        """The partition numbers that are fully caught up."""
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

    def _carry_out(self, effects: Effects, store: Store, at: datetime) -> None:
        """Publish outcomes, and let tasks carry commands."""
        for task in effects.republish:
            store.publish(self._outgoing.task(task))
        for outcome in effects.outcomes:
            store.add_to_outbox(self._outgoing.outcome(outcome))
        for command in effects.commands:
            # its cause may be read again, where rows were lost
            if not Requests.is_over(command, store):
                self._tasks.add(command, store, at)

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
            owned.read_up_to = {}

    def _publish_unsent(
        self, partitions: Iterable[OwnedPartition], running: Sequence[Message] = ()
    ) -> None:
        """Publish what was decided, and running tasks again; return when the broker has it."""
        stores = [owned.store for owned in partitions]
        messages = [*chain.from_iterable(store.unsent for store in stores), *running]
        if not messages:
            return
        try:
            self._retries.call(lambda: self._bus.send(self._outgoing.signed(messages)))
        except MessageTooLargeError as error:
            raise StopService(
                f"a topic refuses messages of less than {ALWAYS_ACCEPTED_BYTES} bytes, or was"
                f" reconfigured: raise its max.message.bytes. {error}"
            ) from error
        for store in stores:
            store.published()
