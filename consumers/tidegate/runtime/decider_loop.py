"""The loop of a decider: restore first, then live; say, then remember, then done."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Generic, TypeVar

from tidegate.errors import DeadLetterFlood
from tidegate.events import Command
from tidegate.events.topics import COMMAND_TOPIC, DEFAULT_PREFIX, changelog, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Bus, Offsets, Partition, Record, copartitioned
from tidegate.runtime.dead_letters import DeadLetterLimit
from tidegate.runtime.garbage import no_garbage
from tidegate.runtime.holdings import Holding, Holdings
from tidegate.runtime.intake import Intake
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.patience import BRIEF, Patience
from tidegate.runtime.services import Decider

S = TypeVar("S")
TOGETHER_SECONDS = 2.0
"""Of a backlog, what is decided in this time is said, remembered and acknowledged together."""
CHUNK = 1000
"""Events that are taken together: few enough to lie in the processor's cache."""
POLL_SECONDS = 0.2
_PARTITION = attrgetter("partition")


class DeciderLoop(Generic[S]):
    """Runs one decider as a member of its consumer group.

    Order of calls: `step` again and again, or `run` until stopped; `close` at the end. After a
    fault of `step` only `close` is left.
    """

    def __init__(  # noqa: PLR0913 - settings, all by name
        self,
        decider: Decider[S],
        bus: Bus,
        prefix: str = DEFAULT_PREFIX,
        *,
        patience: Patience = BRIEF,
        limit: DeadLetterLimit | None = None,
        wire: Wire | None = None,
    ) -> None:
        """Join the group.

        Raises:
            ConfigError: the topics are not there, or differ in their number of partitions: a
                table's events and its state would then lie apart.
        """
        self._decider, self._bus, self._prefix = decider, bus, prefix
        self._patience, self._wire = patience, wire or Wire()
        limit = limit or DeadLetterLimit()
        self._intake = Intake(decider.name, decider.hears, bus, prefix, patience, limit, self._wire)
        self._inputs = sorted({topic_of(kind).name(prefix) for kind in decider.hears})
        copartitioned(
            bus, [*self._inputs, changelog(decider.name).name(prefix), COMMAND_TOPIC.name(prefix)]
        )
        self._held = Holdings(decider, bus, prefix, self._inputs, patience)
        group = f"{prefix}.{decider.name}"
        self._subscription = bus.subscribe(group, self._inputs, self)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set.

        Raises:
            StopService: this process must not go on; nothing unfinished was acknowledged.
        """
        while not stop.is_set():
            self.step(POLL_SECONDS)

    def step(self, timeout: float) -> int:
        """Work off what has arrived; wait up to `timeout` seconds for it. Gives the count."""
        try:
            count = self._take(timeout)
            self._finish()
        except BaseException:
            self._held.forget()  # nothing of it may be said or remembered any more
            raise
        return count

    def close(self) -> None:
        """Leave the group."""
        self._subscription.close()
        self._held.close()

    def assigned(self, starts: Offsets) -> None:
        """Restore first: take each partition's changelog and read it whole.

        Raises:
            OffsetGapError: events would be passed over, or were acknowledged and are remembered no
                more.
        """
        for partition in starts:
            self._intake.limit.recall(partition, self._subscription.noted(partition))
        self._held.restore(starts)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Finish what was begun, then forget."""
        self._finish(wait=True)
        self.lost(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Forget, and what was begun with it."""
        self._held.forget({each.number for each in partitions})

    def _take(self, timeout: float) -> int:
        """Decide on what has arrived, chunk by chunk: of a backlog, as much as a second takes."""
        taken, records = 0, self._subscription.poll(CHUNK, timeout)
        until = time.monotonic() + TOGETHER_SECONDS
        while records:
            self._apply(records)
            taken += len(records)
            if len(records) < CHUNK or time.monotonic() > until:
                break
            records = self._subscription.poll(CHUNK, 0)
        return taken

    def _apply(self, records: Sequence[Record]) -> None:
        try:
            with no_garbage():
                for where, run in groupby(records, _PARTITION):
                    self._apply_run(self._held[where.number], where, run)
        except DeadLetterFlood:
            self._finish()  # what came before it, its dead letters too, is done
            raise

    def _apply_run(self, held: Holding[S], where: Partition, run: Iterable[Record]) -> None:
        ledger, topic, commands = held.ledger, where.topic, held.commands
        begin_at = ledger.applied_to(topic)
        for record in run:
            if record.offset >= begin_at:
                commands += self._decide(ledger, record)
                ledger.advance(topic, record.offset)
            held.positions[where] = record.offset + 1

    def _decide(self, ledger: Ledger[S], record: Record) -> Sequence[Command]:
        event = self._intake.read(record)
        if event is None:
            return ()
        if ledger.has_applied_to(event.table, record.partition.topic, record.offset):
            return ()
        try:
            at = _moment(record.timestamp_ms)
            decision = self._decider.decide(ledger.state(event.table), event, at)
        except Exception as error:  # noqa: BLE001 - one bad event must not hold up its partition
            self._intake.set_aside(record, error)
            return ()
        self._intake.limit.worked(record.partition)
        ledger.stage(event.table, decision.state)
        return decision.commands

    def _finish(self, *, wait: bool = False) -> None:
        """Say, then remember, then done."""
        begun = self._held.begun()
        if not begun:
            return
        commands = [command for held in begun for command in held.commands]
        self._patience.call(lambda: self._say(commands))
        self._held.remember(begun)
        done = {where: at for held in begun for where, at in held.positions.items()}
        notes = {where: self._intake.limit.note(where) for where in done}
        self._subscription.commit(done, notes, wait=wait)
        for held in begun:
            held.commands, held.positions = [], {}

    def _say(self, commands: Sequence[Command]) -> None:
        topic = COMMAND_TOPIC.name(self._prefix)
        self._bus.send([self._wire.seal(command, topic) for command in commands])


@lru_cache(maxsize=100)  # the broker gives all messages of a batch one time
def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
