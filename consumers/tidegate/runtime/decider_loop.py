"""The loop of a decider: restore first, then live; say, then remember, then done."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from tidegate.errors import ConfigError
from tidegate.events import Command, Event
from tidegate.events.topics import COMMAND_TOPIC, DEFAULT_PREFIX, changelog, topic_of
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Bus, Changelog, Partition, Record
from tidegate.runtime.dead_letters import DeadLetterLimit
from tidegate.runtime.intake import Intake
from tidegate.runtime.ledger import Ledger, ledger_for
from tidegate.runtime.patience import BRIEF, Patience
from tidegate.runtime.services import Decider

log = logging.getLogger(__name__)
S = TypeVar("S")
BATCH = 5000
POLL_SECONDS = 0.2
RESTORERS = 8
"""Changelog partitions that are read back at the same time."""


@dataclass(slots=True)
class _Held(Generic[S]):
    """What this process holds of one partition number."""

    ledger: Ledger[S]
    changelog: Changelog


class DeciderLoop(Generic[S]):
    """Runs one decider as a member of its consumer group.

    Order of calls: `step` again and again, or `run` until stopped; `close` at the end.
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
        self._held: dict[int, _Held[S]] = {}
        self._inputs = sorted({topic_of(kind).name(prefix) for kind in decider.hears})
        self._changelog_topic = changelog(decider.name).name(prefix)
        self._check_copartitioned()
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
        records = self._subscription.poll(BATCH, timeout)
        if records:
            self._work(records)
        return len(records)

    def close(self) -> None:
        """Leave the group."""
        self._subscription.close()

    def assigned(self, starts: Mapping[Partition, int]) -> None:
        """Restore first: take each partition's changelog and read it whole.

        Raises:
            OffsetGapError: events would be passed over, or were acknowledged and are remembered no
                more.
        """
        for partition in starts:
            self._intake.limit.recall(partition, self._subscription.noted(partition))
        numbers = sorted({each.number for each in starts})
        with _no_garbage(), ThreadPoolExecutor(RESTORERS) as pool:
            held = pool.map(partial(self._take_over, starts), numbers)
            self._held.update(zip(numbers, held, strict=True))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Forget: every step ends with all of its work written."""
        for number in {each.number for each in partitions}:
            if held := self._held.pop(number, None):
                held.changelog.close()

    lost = revoked

    def _take_over(self, starts: Mapping[Partition, int], number: int) -> _Held[S]:
        return self._patience.call(lambda: self._restore(starts, number))

    def _restore(self, starts: Mapping[Partition, int], number: int) -> _Held[S]:
        memory = self._bus.changelog(self._changelog_topic, number)
        ledger = ledger_for(self._decider.state_type, self._decider.initial())
        ledger.restore(memory.read())
        for topic in self._inputs:
            where = Partition(topic, number)
            ledger.check(topic, self._bus.extent(where), starts.get(where))
        tables = len(ledger)
        log.info("%s holds partition %d with %d tables", self._decider.name, number, tables)
        return _Held(ledger, memory)

    def _work(self, records: Sequence[Record]) -> None:
        commands: list[Command] = []
        for record in records:
            commands += self._apply(record)
        self._patience.call(lambda: self._say(commands))
        for number in sorted({record.partition.number for record in records}):
            self._remember(self._held[number])
        done = {each.partition: each.offset + 1 for each in records}
        notes = {partition: self._intake.limit.note(partition) for partition in done}
        self._subscription.commit(done, notes)

    def _apply(self, record: Record) -> Sequence[Command]:
        ledger = self._held[record.partition.number].ledger
        topic = record.partition.topic
        if ledger.has_applied(topic, record.offset):
            return ()
        event = self._intake.read(record)
        commands: Sequence[Command] = ()
        if event and not ledger.has_applied(topic, record.offset, event.table):
            commands = self._decide(ledger, event, record)
        ledger.advance(topic, record.offset)
        return commands

    def _decide(self, ledger: Ledger[S], event: Event, record: Record) -> Sequence[Command]:
        try:
            at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
            decision = self._decider.decide(ledger.state(event.table), event, at)
        except Exception as error:  # noqa: BLE001 - one bad event must not hold up its partition
            self._intake.set_aside(record, error)
            return ()
        self._intake.limit.worked(record.partition)
        ledger.stage(event.table, decision.state)
        return decision.commands

    def _say(self, commands: Sequence[Command]) -> None:
        topic = COMMAND_TOPIC.name(self._prefix)
        envelopes = (self._wire.seal(command, topic) for command in commands)
        self._bus.send([Message(topic, each.key, each.value, each.headers) for each in envelopes])

    def _remember(self, held: _Held[S]) -> None:
        entries = held.ledger.entries()
        self._patience.call(lambda: held.changelog.write(entries))

    def _check_copartitioned(self) -> None:
        topics = [*self._inputs, self._changelog_topic, COMMAND_TOPIC.name(self._prefix)]
        counts = {topic: self._bus.partitions(topic) for topic in topics}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{topic}: {count}" for topic, count in counts.items())
            raise ConfigError(f"these topics must have the same number of partitions: {told}")


@contextmanager
def _no_garbage() -> Generator[None]:
    """Keep the cycle collector away: a restore makes live objects only, and many of them.

    It would walk all of them again and again; measured, it took six sevenths of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
