"""The Metastore bridge: poll, compare with the outstanding holds, publish the difference."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from tidegate.errors import FormatError, MessageTooLargeError, MetastoreRefusedError, TransientError
from tidegate.errors.validation import validation_message
from tidegate.events import (
    Event,
    LockHold,
    LockReleased,
    ReleaseReason,
    VacuumFinished,
    VacuumFlag,
    VacuumFlagged,
)
from tidegate.hive_bridge.aborted_sweep import AbortedSweep
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.compactions import Cleanings, Compactions
from tidegate.hive_bridge.describing import describe
from tidegate.hive_bridge.endings import Endings
from tidegate.hive_bridge.marking import Marking, settle
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_bridge.products import VacuumFields
from tidegate.hive_bridge.settings import SOURCE, BridgeSettings, milliseconds
from tidegate.hive_bridge.waiting import Ended, WaitingHolds
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import (
    HeldTables,
    Lock,
    QueueEntry,
    Snapshot,
    holds_of,
    lock_hold,
)
from tidegate.storage import Storage, normalise

log = logging.getLogger(__name__)
NO_LOCK: Final = 0
"""The id that the bridge publishes for a compaction's own lock. That lock ended with the
compaction's transaction, before the result became visible. Real ids begin at 1."""
_BATCH: Final = 1_000
_MOST_EXPIRED: Final = 10
"""The most expired locks, and the most expired transactions, that a vacuum lists."""
Known = VacuumFinished | LockReleased | VacuumFlagged
"""The events on the topics that determine which holds are outstanding."""
_FORGOTTEN: Final = {VacuumFlag.RELEASE_MAY_BE_FORGOTTEN}
_TIMEOUT_SETTINGS: Final = ("metastore.txn.timeout", "hive.txn.timeout")
_USUAL_TIMEOUT_MS: Final = 300_000


class MetastoreBridge:
    """Watches one Metastore.

    In a loop, from one thread: call `take` with the new events of the topics, then `look`. The
    bridge applies its own events when it publishes them; reading them back changes nothing.
    """

    def __init__(  # noqa: PLR0913 - two of them by name
        self,
        settings: BridgeSettings,
        publish: Callable[[Sequence[Event]], object],
        storage: Storage,
        baseline: Baseline,
        *,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer = UNOBSERVED,
    ) -> None:
        """Create a bridge, without a call to the Metastore.

        Args:
            settings: The Metastore, and how to watch it.
            publish: Publishes events. It returns once the broker has all of them, else it raises.
            storage: Reads the tables' directories.
            baseline: The stored baseline of the previous run.
            clock: A monotonic clock, in seconds.
            observer: Receives the measurements.
        """
        self.baseline = baseline
        self._settings, self._publish, self._storage = settings, publish, storage
        self._clock = clock
        self._observer = observer
        self._client = MetastoreClient(settings, observer.called)
        self._queue_client = MetastoreClient(settings, observer.called)
        self._queue_thread = ThreadPoolExecutor(1, thread_name_prefix="show-compact")
        self._asked: Future[tuple[QueueEntry, ...]] | None = None
        self._queue: tuple[QueueEntry, ...] = ()
        self._queue_is_away = False
        self._compactions = Compactions(
            settings.catalog, self._described, settings.threads, clock, observer
        )
        self._cleanings = Cleanings(settings.catalog)
        self._marking = Marking(settings.catalog, self._settled, settings.threads, clock)
        self._aborted = AbortedSweep(settings, storage, clock, observer)
        self._waiting = WaitingHolds(settings.catalog)
        self._is_prepared = False
        self._endings = Endings(_USUAL_TIMEOUT_MS / 1000)
        self._own: set[str] = set()
        """Ids of the vacuums that this bridge has published and not read back yet."""
        self._refused: dict[str, str] = {}

    def take(self, events: Iterable[Event]) -> None:
        """Apply the events of one read from the topics: first vacuums, then the ends of holds.

        A cleaning's outcome must come after its vacuum, in the same read or in a later one.
        """
        known: list[Known] = []
        for event in events:
            if not self._is_of_another(event):
                self._cleanings.take(event)
            if event.event_id in self._own:  # applied when it was published
                self._own.discard(event.event_id)
            elif isinstance(event, Known):
                known.append(event)
        self._apply(known)

    def _apply(self, known: Sequence[Known]) -> None:
        for event in known:
            if isinstance(event, VacuumFinished):
                self._waiting.vacuum(event)
                if not self._is_of_another(event):
                    self._compactions.published(event)
        for event in known:
            if isinstance(event, LockReleased):
                self._waiting.release(event)
        for event in known:
            if isinstance(event, VacuumFlagged) and event.flag in _FORGOTTEN:
                self._waiting.forgotten(event)

    def _is_of_another(self, event: Event) -> bool:
        """Whether a vacuum is of another Metastore, or of a state before one was restored.

        Its ids are given out again: a compaction with one of them is not yet published.
        """
        if not isinstance(event, VacuumFinished) or not self.baseline.metastore:
            return False
        return event.metastore not in {None, self.baseline.name}

    def look(self) -> int:
        """Poll the Metastore once, and publish the resulting events; returns their number.

        Raises:
            TransientError: the Metastore did not answer completely. Nothing was concluded.
            MetastoreReplacedError: it is not the same Metastore. Nothing was concluded.
            DeliveryError: the broker did not confirm; the next poll publishes the events again.
        """
        began = self._clock()
        if not self._is_prepared:
            self._prepare()
        # before the locks: the results of the queue's compactions are visible by then
        queue = self._compactions.completed(self._asked_queue())
        number = self._waiting.begin()
        snapshot = Snapshot(
            self._client.uuid(), queue, self._client.locks(), self._client.transactions()
        )
        self.baseline = self.baseline.checked(snapshot)
        held, now = HeldTables(snapshot.locks), self._clock()
        ended = self._in_place(self._waiting.ended(number, held, snapshot.transactions))
        releases = self._releases(ended, snapshot, now)
        for start in range(0, len(releases), _BATCH):
            batch = releases[start : start + _BATCH]
            self._publish_valid(batch)
            self._apply(batch)
        # after the releases: one that was not confirmed keeps its reason
        self._endings.look(snapshot, began, now)
        published = len(releases) + self._publish_vacuums(snapshot, held)
        published += self._publish_aborted(snapshot)
        self._observer.marked(self._marking.look(self._cleanings.cleaned(queue)))
        self._observer.looked(self._clock() - began, len(self._waiting), len(self._cleanings))
        return published

    def close(self) -> None:
        """Close the connections."""
        self._compactions.close()
        self._marking.close()
        self._aborted.close()
        self._queue_thread.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _prepare(self) -> None:
        """Read what the Metastore's own settings decide."""
        free = self._settings.readers_lock_at_once
        if free and self._client.reads_without_locks():
            free = False
            log.warning(
                "readers_lock_at_once is ignored: the Metastore's settings allow readers without"
                " locks. Vacuums wait for the end of every transaction"
            )
        self._endings = Endings(_timeout_ms(self._client) / 1000)
        self._waiting.free_elsewhere = free
        self._is_prepared = True

    def _asked_queue(self) -> tuple[QueueEntry, ...]:
        """The queue of compactions. It has a connection of its own, because it may be slow."""
        if self._asked is None:
            self._cleanings.begin()
            self._endings.asked()
            self._asked = self._queue_thread.submit(self._queue_client.compactions)
        try:
            self._queue = self._asked.result(self._settings.interval_ms / 4000)
        except TimeoutError:
            return self._queue  # visible results stay visible; a later poll takes the answer
        except TransientError as error:
            log.log(
                logging.DEBUG if self._queue_is_away else logging.WARNING,
                "the Metastore did not return its queue of compactions, trying again: %s",
                error,
            )
            self._queue_is_away = True
        else:
            self._queue_is_away = False
            self._endings.answered({entry.compaction_id for entry in self._queue})
            self._cleanings.forget(self._compactions.completed(self._queue))
        self._asked = None
        return self._queue

    def _described(self, compaction: QueueEntry) -> VacuumFields:
        with MetastoreClient(self._settings, self._observer.called) as client:
            return describe(compaction, client, self._storage)

    def _settled(self, compaction: QueueEntry, vacuum: VacuumFields) -> bool:
        with MetastoreClient(self._settings, self._observer.called) as client:
            return settle(compaction, vacuum, client, self._storage)

    def _in_place(self, ended: Sequence[Ended]) -> list[Ended]:
        """Leave out transactions that only seem to read other tables: a rename moves their locks.

        Call this after the locks were requested, so that no rename before that goes unseen.
        """
        tables = {(hold.table, hold.location) for hold in ended if hold.elsewhere}
        renamed = {place for place in tables if not self._is_at(*place)}
        return [
            hold
            for hold in ended
            if not hold.elsewhere or (hold.table, hold.location) not in renamed
        ]

    def _is_at(self, table: str, location: str) -> bool:
        _, database, name = table.split(".")
        try:
            return normalise(self._client.table(database, name).location) == location
        except (MetastoreRefusedError, FormatError):
            return False

    def _releases(
        self, ended: Iterable[Ended], snapshot: Snapshot, now: float
    ) -> list[LockReleased]:
        """The events for these ended holds. An invalid event is logged and skipped."""
        made: list[LockReleased] = []
        for hold in ended:
            try:
                made.append(self._release(hold, snapshot, now))
            except ValidationError as error:
                self._refuse(hold.table, validation_message(error))
        return made

    def _publish_valid(self, events: Sequence[Event]) -> None:
        """Publish the events together. If one is refused, publish each of the others alone."""
        try:
            self._publish(events)
        except (FormatError, MessageTooLargeError):
            for event in events:
                try:
                    self._publish([event])
                except (FormatError, MessageTooLargeError) as error:
                    self._refuse(event.table, str(error))

    def _refuse(self, table: str, why: str) -> None:
        if self._refused.get(table) != why:
            log.warning("an event of %s is not published: %s", table, why)
            self._observer.refused()
        self._refused[table] = why

    def _release(self, ended: Ended, snapshot: Snapshot, now: float) -> LockReleased:
        aborted = snapshot.transactions.aborted
        fields = ended._asdict()
        known = fields.pop("known_transaction")
        if fields.pop("elsewhere"):
            reason = ReleaseReason.UNLOCKED
        elif ended.lock_id is not None:
            reason = self._endings.of_lock(ended.lock_id, ended.transaction_id, aborted, now, known)
        else:
            reason = self._endings.of_transaction(ended.transaction_id or 0, aborted, now)
        seen = self._endings.has_seen(ended.lock_id, ended.transaction_id)
        made = {"occurred_at": datetime.now(UTC), "source": SOURCE, "reason": reason}
        return LockReleased.model_validate(fields | made | {"reconciled": not seen})

    def _publish_vacuums(self, snapshot: Snapshot, held: HeldTables) -> int:
        count = 0
        for compaction, description in list(self._compactions.described(snapshot.compactions)):
            if not description.directories:
                self._compactions.nothing_to_clean(compaction)
                self._cleanings.nothing_to_clean(compaction, description)
                continue
            try:
                events = self._vacuum(compaction, description, snapshot, held)
                self._publish(events)
            except ValidationError as error:  # for example too many holds, which become fewer
                self._compactions.postpone(compaction, validation_message(error))
            except (FormatError, MessageTooLargeError) as error:
                self._compactions.refuse(compaction, str(error))
            else:
                vacuum = events[-1]
                self._own.add(vacuum.event_id)
                self._apply(events)
                self._cleanings.take(vacuum)
                count += len(events)
        return count

    def _publish_aborted(self, snapshot: Snapshot) -> int:
        found = self._aborted.look(snapshot.transactions.aborted)
        self._publish_valid(found)
        for event in found:
            self._aborted.published(event)
        return len(found)

    def _vacuum(
        self,
        compaction: QueueEntry,
        description: VacuumFields,
        snapshot: Snapshot,
        held: HeldTables,
    ) -> list[LockReleased | VacuumFinished]:
        """The vacuum with the holds of this poll, after the releases of its holds that have ended.

        Those are the compaction's own lock, and the holds that expired since the compaction began.
        The vacuum lists expired holds, because their readers may still be reading.
        """
        last = compaction.next_transaction_id
        holding, opened = holds_of(held, snapshot.transactions, compaction.place, last)
        common = {
            "table": f"{self._settings.catalog}.{compaction.database}.{compaction.table}",
            "location": description.location,
            "occurred_at": datetime.now(UTC),
            "source": SOURCE,
            "partition": compaction.partition,
            "metastore": self.baseline.name,
        }
        locks, transactions = self._expired(compaction, held)
        own = LockHold(lock_id=NO_LOCK, partition=compaction.partition, owner="the compaction")
        vacuum = VacuumFinished.model_validate(
            common
            | asdict(description)
            | {
                "own_lock_id": NO_LOCK,
                "own_transaction_id": compaction.transaction_id,
                "locks": (own, *holding, *locks),
                "open_transactions": (*opened, *transactions),
            }
        )
        ended = LockReleased.model_validate(
            common
            | {
                "lock_id": NO_LOCK,
                "transaction_id": compaction.transaction_id,
                "reason": ReleaseReason.COMMITTED,
            }
        )
        expired = {"reason": ReleaseReason.EXPIRED}
        ends = [{"lock_id": lock.lock_id} for lock in locks]
        ends += [{"transaction_id": transaction} for transaction in transactions]
        return [
            ended,
            *(LockReleased.model_validate(common | expired | end) for end in ends),
            vacuum,
        ]

    def _expired(
        self, compaction: QueueEntry, held: HeldTables
    ) -> tuple[list[LockHold], list[int]]:
        """The latest holds on a compaction's place that expired since it began; one is enough.

        Transactions that opened after the compaction committed read its result, and don't count.
        """
        found = list(self._endings.expired_since(compaction.compaction_id))
        last = compaction.next_transaction_id
        transactions = {
            hold for hold in found if isinstance(hold, int) and (last is None or hold <= last)
        }
        expired = HeldTables(hold for hold in found if isinstance(hold, Lock))
        locks = {
            lock.lock_id: lock_hold(lock)
            for lock in expired.on(*compaction.place)
            if lock.lock_id not in held.ids
        }
        transactions.discard(compaction.transaction_id or 0)
        return [*locks.values()][-_MOST_EXPIRED:], sorted(transactions)[-_MOST_EXPIRED:]


def _timeout_ms(client: MetastoreClient) -> int:
    """The Metastore's time-out of transactions in milliseconds, or else Hive's default."""
    for name in _TIMEOUT_SETTINGS:
        if (text := client.setting(name)) is not None:
            try:
                return int(str(milliseconds(text)))
            except ValueError:
                log.warning("the Metastore's setting %s is not a duration: %r", name, text)
    return _USUAL_TIMEOUT_MS
