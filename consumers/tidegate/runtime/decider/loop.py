"""The loop of a decider.

Its invariants, each kept where a comment repeats it:

1. The state of a partition is restored whole before the first new event of it is applied.
2. Commands and outcomes reach the broker before the state that follows from them is written to the
   changelog, and that before the input offsets are committed. A crash in between repeats messages
   (with the same ids); it never loses one.
3. An event is applied once, however often it is delivered: the state records up to which offset of
   each input it has been applied.
4. After a fault nothing of the interrupted step is published, written or committed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Generic, TypeVar

from tidegate.errors import (
    DeadLetterFlood,
    FormatError,
    MessageTooLargeError,
    StoppingError,
    StopService,
    TransientError,
)
from tidegate.events import Answer, Command, Event
from tidegate.events.refusals import refusal
from tidegate.events.topics import COMMAND_TOPIC, DEFAULT_PREFIX, OUTCOME_TOPIC, changelog, topic_of
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.authorization import AclAlone, Authorization, SignedBy, Unauthorized
from tidegate.runtime.bus import Bus, Offsets, Partition, Record, require_copartitioned
from tidegate.runtime.decider.catch_up import CatchUp
from tidegate.runtime.decider.owned_partitions import (
    OwnedPartition,
    OwnedPartitions,
    PendingWork,
)
from tidegate.runtime.decider.piece_ticks import TICK_SECONDS, PieceTicks
from tidegate.runtime.decider.pieces import TIMED_BYTES, require_small
from tidegate.runtime.decider.ticks import BrokerTime, Ticks
from tidegate.runtime.gc_pause import gc_paused
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit
from tidegate.runtime.input.dead_letters import DeadLetterQueue
from tidegate.runtime.input.decoder import Decoder
from tidegate.runtime.input.uncopied import RefusalLimit
from tidegate.runtime.protocols import Decider, Decision, PiecewiseTimedDecider
from tidegate.runtime.retry import BROKER_RETRIES, RetryPolicy, is_broker_fault

S = TypeVar("S")
BATCH_SECONDS = 2.0
"""While there is a backlog, the decisions of this time are published and committed together."""
CHUNK = 1000
"""Records polled at once: few enough to stay in the processor's cache."""
POLL_SECONDS = 0.2
ALWAYS_ACCEPTED_BYTES = 50_000
"""Messages up to this size are published together: no topic of a deployment refuses one."""
_PARTITION = attrgetter("partition")
Sign = Callable[[Event, Message], Message]


class DeciderLoop(Generic[S]):
    """Runs one decider as a member of its consumer group.

    Order of calls: `step` again and again, or `run` until stopped; `close` at the end. Once `step`
    has raised, only `close` may follow.
    """

    def __init__(  # noqa: PLR0913 - settings, all by name
        self,
        decider: Decider[S],
        bus: Bus,
        prefix: str = DEFAULT_PREFIX,
        *,
        retries: RetryPolicy = BROKER_RETRIES,
        limit: DeadLetterLimit | None = None,
        wire: Wire | None = None,
        sign: Sign | None = None,
        clock: BrokerTime | None = None,
        tick_seconds: float = TICK_SECONDS,
        authorization: Authorization | None = None,
    ) -> None:
        """Join the group. `sign` signs the commands; by default they are not signed.

        `clock` is for a decider's ticks; which pieces are due is looked for every `tick_seconds`.
        `authorization` says whose commands are applied; by default whoever can publish them.

        Raises:
            ConfigError: a topic does not exist, or the topics differ in their number of
                partitions: a table's events and its state would be on different partitions.
        """
        self._decider, self._bus, self._prefix = decider, bus, prefix
        self._retries, self._wire, self._sign = retries, wire or Wire(), sign or _unsigned
        limit = limit or DeadLetterLimit()
        self._dead_letters = DeadLetterQueue(decider.name, bus, prefix, retries, limit)
        self._inputs = sorted({topic_of(kind).name(prefix) for kind in decider.consumes})
        self._command_topic, self._outcome_topic = (
            each.name(prefix) for each in (COMMAND_TOPIC, OUTCOME_TOPIC)
        )
        outputs = (changelog(decider.name).name(prefix), self._command_topic, self._outcome_topic)
        topics = [*self._inputs, *outputs]
        count = require_copartitioned(bus, topics)
        # by type: to ask for a subclass of pydantic's takes as long as to look up a state
        self._commands = {kind for kind in decider.consumes if issubclass(kind, Command)}
        self._decoder = Decoder(decider.consumes, prefix, count, retries, self._wire)
        self._owned = OwnedPartitions(decider, bus, prefix, self._inputs, retries)
        self._ticks = Ticks(decider, clock)
        self._authorization, self._refusals = authorization or AclAlone(), RefusalLimit()
        self._stop = threading.Event()
        self._committed: dict[Partition, int] = {}
        """The latest commit of each input partition."""
        self._catch_up = CatchUp(topic_of(decider.consumes[0]).name(prefix))
        self._timed = decider if isinstance(decider, PiecewiseTimedDecider) else None
        self._piece_ticks = PieceTicks(
            bus, self._inputs, self._owned, self._catch_up, self._ticks.clock, tick_seconds
        )
        group = f"{prefix}.{decider.name}"
        self._subscription = bus.subscribe(
            group, self._inputs, self, watched=[changelog(decider.name).name(prefix)]
        )

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
                self._tick()
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
        """Acquire each partition's changelog and restore its state, unless kept (invariant 1).

        Raises:
            OffsetGapError: events would be skipped, or the changelog has lost the state that
                followed from events whose offsets are committed.
        """
        for partition in starts:
            history = self._subscription.committed_metadata(partition)
            self._dead_letters.restore(partition, history)
        self._owned.restore(starts, self._stop.is_set)
        self._ticks.assigned(self._owned.stores())
        self._committed = dict(starts)
        first = [start for start in starts if start.topic == self._catch_up.first]
        self._catch_up.assigned(starts, self._retries.call(lambda: self._bus.watermarks(first)))

    def revoked(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002 - always all of them
        """Finish pending work, then give up the partitions; they may be assigned again at once."""
        self._finish(wait=True)
        self._owned.release()
        self._forget()

    def lost(self, partitions: Sequence[Partition]) -> None:  # noqa: ARG002 - always all of them
        """Drop the partitions and the pending work on them."""
        self._owned.drop()
        self._forget()

    def _forget(self) -> None:
        self._dead_letters.forget()
        self._ticks.assigned({})
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
        self._catch_up.before_poll(self._subscription)
        records = self._subscription.poll(CHUNK, timeout)
        self._catch_up.polled(records, self._subscription)
        if records:
            self._ticks.saw(records[-1].timestamp_ms)
        return records

    def _apply(self, records: Sequence[Record]) -> None:
        try:
            for where, run in groupby(records, _PARTITION):
                self._apply_run(self._owned[where.number], where, run)
        except DeadLetterFlood:
            self._finish()  # the records before the flood, dead letters included, are done
            raise

    def _apply_run(self, owned: OwnedPartition[S], where: Partition, run: Iterable[Record]) -> None:
        store, topic, pending = owned.store, where.topic, owned.pending
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
                pending.read_up_to[where] = done + 1

    def _apply_record(self, owned: OwnedPartition[S], record: Record) -> None:
        try:
            event = self._decoder.decode(record)
        except FormatError as error:
            self._dead_letters.send(record, error)
            return
        if event is None:
            return
        where, store, table = record.partition, owned.store, event.table
        state = store.state(table)
        # hardly ever is any table ahead of its partition: this runs for every event
        if store.ahead and store.has_applied_to(table, where.topic, record.offset):
            return
        at = _moment(record.timestamp_ms)
        try:
            if type(event) in self._commands and isinstance(event, Command):
                decision = self._authorized(owned, event, record, at)
            else:
                decision = self._decider.decide(state, event, at)
                self._accept(owned, table, decision)
        except Exception as error:
            if isinstance(error, StopService) or is_broker_fault(error):
                raise
            # one bad event must not hold up its partition; nothing of it was applied
            store.reopen(table)
            self._dead_letters.send(record, error)
        else:
            if self._ticks.decider is not None:
                self._ticks.changed(where.number, table, decision.state)
            self._dead_letters.limit.succeeded(where)

    def _pass_ends(self) -> None:
        """Go past what holds no record before the end of an input."""
        for where, end in self._subscription.ends().items():
            self._owned[where.number].pass_end(where, end, self._committed.get(where, 0))

    def _tick(self) -> None:
        """Let the tables that are due decide on the time alone."""
        decider = self._ticks.decider
        if decider is None:
            return
        for number, table, at in self._ticks.due_tables():
            owned = self._owned[number]
            decision = decider.tick(table, owned.store.state(table), at)
            self._add(owned.pending, self._messages(decision))
            owned.store.put(table, decision.state)
            owned.pending.has_ticked = True
            self._ticks.ticked(number, table, decision.state, at)

    def _authorized(
        self, owned: OwnedPartition[S], event: Command, record: Record, at: datetime
    ) -> Decision[S]:
        """Apply a command only if it may be asked for; else the decision is a refusal."""
        try:
            signed_by = self._authorization.check(event, record)
        except Unauthorized as refused:
            self._refusals.require(record, f"{refused.reason}: {refused.message}")
            reason, name = refused.reason, self._decider.name
            refusal_of_it = refusal(event, reason, refused.message, name, at).to(event)
            decision = Decision(owned.store.state(event.table), outcomes=(refusal_of_it,))
            self._accept(owned, event.table, decision)
            return decision
        return self._decide_command(owned, event, at, signed_by)

    def _decide_command(
        self, owned: OwnedPartition[S], event: Command, at: datetime, signed_by: SignedBy | None
    ) -> Decision[S]:
        """Apply a command; who asked, it says itself."""
        decision = self._decider.decide(owned.store.state(event.table), event, at)
        answers = [
            outcome.to(event, signed_by.name if signed_by else None)
            if isinstance(outcome, Answer) and outcome.caused_by == event.event_id
            else outcome
            for outcome in decision.outcomes
        ]
        decision = decision._replace(outcomes=answers)
        self._accept(owned, event.table, decision)
        return decision

    def _decide_due(self) -> None:
        """Let pieces that are due be decided on the time alone."""
        if self._timed is None:
            return
        for owned, table, names, at in self._piece_ticks.due():
            decision = self._timed.decide_due(owned.store.state(table), table, names, at)
            self._accept(owned, table, decision, TIMED_BYTES)
            owned.pending.has_ticked = True

    def _accept(
        self, owned: OwnedPartition[S], table: str, decision: Decision[S], more: int = 0
    ) -> None:
        """Keep a decision. What can be refused is tried first: a refused event changes nothing."""
        store = owned.store
        if decision.pieces and store.piecewise is not None:
            require_small(store.piecewise, decision.pieces, more)
        if decision.commands or decision.outcomes:
            self._add(owned.pending, self._messages(decision))
        store.put(table, decision.state, decision.pieces)

    def _messages(self, decision: Decision[S]) -> list[Message]:
        try:
            return self._serialized(decision)
        except TransientError:  # only then are retries prepared: this runs for every decision
            return self._retries.call(lambda: self._serialized(decision))

    def _serialized(self, decision: Decision[S]) -> list[Message]:
        serialize, sign = self._wire.serialize, self._sign
        commands, outcomes = self._command_topic, self._outcome_topic
        messages = [sign(command, serialize(command, commands)) for command in decision.commands]
        if decision.outcomes:  # few decisions have any
            messages += [serialize(outcome, outcomes) for outcome in decision.outcomes]
        return messages

    def _add(self, pending: PendingWork, messages: list[Message]) -> None:
        """Keep a decision's messages for the end of the step, unless a topic may refuse one.

        Those are sent at once, after what was decided before: a refusal concerns their event alone.

        Raises:
            MessageTooLargeError: one exceeds its topic's limit.
        """
        if all(len(message.value or b"") <= ALWAYS_ACCEPTED_BYTES for message in messages):
            pending.messages += messages
            return
        self._publish(pending.messages)
        pending.messages = []
        self._retries.call(lambda: self._bus.send(messages))

    def _finish(self, *, wait: bool = False) -> None:
        """Publish, write the state, commit: in this order (invariant 2)."""
        for where in self._dead_letters.write_recorded(all_of_them=wait):
            self._owned[where.number].commit_again(where)
        begun = self._owned.with_pending_work()
        if not begun:
            return
        pending = [each.pending for each in begun.values()]
        self._publish([message for each in pending for message in each.messages])
        self._owned.write(begun)
        offsets = {where: at for each in pending for where, at in each.read_up_to.items()}
        metadata = {where: self._dead_letters.history(where) for where in offsets}
        if offsets:
            self._subscription.commit(offsets, metadata, wait=wait)
            self._committed |= offsets
        for each in pending:
            each.clear()

    def _publish(self, messages: Sequence[Message]) -> None:
        """Send commands and outcomes; return when the broker has them."""
        try:
            self._retries.call(lambda: self._bus.send(messages))
        except MessageTooLargeError as error:
            raise StopService(
                f"a topic refuses messages of less than {ALWAYS_ACCEPTED_BYTES} bytes: raise its"
                f" max.message.bytes. {error}"
            ) from error


def _unsigned(_: Event, message: Message) -> Message:
    return message


@lru_cache(maxsize=100)  # all messages of a batch have the broker's time of that batch
def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
