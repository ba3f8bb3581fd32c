"""Which compactions are to be published, and what was looked up of each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from tidegate.errors import TransientError
from tidegate.events import VacuumFinished
from tidegate.hive_bridge.cleanup_properties import NotYet
from tidegate.hive_bridge.describing import NotDescribed
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_bridge.products import Description
from tidegate.hive_metastore.values import Compaction

log = logging.getLogger(__name__)
Key = tuple[str, str | None, str]
"""Table, partition, and what tells it from the table's other compactions."""
_MAX_PUBLISHED: Final = 1_000_000


def key_of(compaction: Compaction, catalog: str) -> Key:
    """What identifies a compaction: its transaction, or in Hive 3 its kind and range."""
    table = f"{catalog}.{compaction.database}.{compaction.table}".lower()
    if compaction.transaction_id is not None:
        return table, compaction.partition, str(compaction.transaction_id)
    if compaction.is_of_hive_3:  # until it is looked up
        return table, compaction.partition, f"entry {compaction.compaction_id}"
    kind = compaction.kind.value if compaction.kind else ""
    return table, compaction.partition, f"{kind} {compaction.highest_write_id}"


def published_key(event: VacuumFinished) -> Key:
    """The key of the compaction that a VacuumFinished is about."""
    if event.own_transaction_id is not None:
        return event.table, event.partition, str(event.own_transaction_id)
    return event.table, event.partition, f"{event.kind.value} {event.max_write_id}"


class Compactions:
    """The compactions that readers can see the result of, until they are published.

    Looking one up may be slow, so it is done on threads: it holds up neither another one nor the
    releases of locks.
    """

    def __init__(
        self,
        catalog: str,
        describe: Callable[[Compaction], Description],
        threads: int,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer = UNOBSERVED,
    ) -> None:
        """Take how to look one up; `describe` is called on several threads."""
        self._catalog, self._describe, self._clock = catalog.lower(), describe, clock
        self._observer = observer
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="describe")
        self._published: dict[Key, None] = {}
        self._refused: dict[Key, None] = {}
        self._postponed: set[Key] = set()
        self._again: dict[Key, float] = {}
        """When to look those up again that are not to be cleaned now."""
        self._asked: dict[Key, Future[Description]] = {}
        self._ended: frozenset[Future[Description]] = frozenset()
        """Look-ups that were over when the current look had not asked for the locks yet."""
        self._highest: dict[int, int] = {}
        """What was found out of compactions of which Hive 3 does not say it, by their ids."""

    def published(self, event: VacuumFinished) -> None:
        """A vacuum is on the topic, whoever published it."""
        key = published_key(event)
        self._published[key] = None
        self._postponed.discard(key)
        self._asked.pop(key, None)
        self._again.pop(key, None)
        while len(self._published) > _MAX_PUBLISHED:
            del self._published[next(iter(self._published))]

    def refuse(self, compaction: Compaction, reason: str) -> None:
        """Never publish it, and say why, once."""
        key = key_of(compaction, self._catalog)
        if key not in self._refused:
            log.warning("%s is not published: %s", named(compaction), reason)
            self._observer.refused()
        self._refused[key] = None
        self._asked.pop(key, None)

    def postpone(self, compaction: Compaction, reason: str) -> None:
        """It can't be published now; say why, once, and try again at the next look."""
        key = key_of(compaction, self._catalog)
        if key not in self._postponed:
            log.warning("%s has to wait: %s", named(compaction), reason)
        self._postponed.add(key)

    def completed(self, queue: Iterable[Compaction]) -> tuple[Compaction, ...]:
        """The queue with what was found out of Hive 3's compactions, and of those the latest ones.

        They stay in its queue for ever. The latest of a kind made what its directory shows; it
        covers those before. Call it before the locks are asked for, and `described` after that.
        """
        self._ended = frozenset(each for each in self._asked.values() if each.done())
        entries = tuple(queue)
        latest: dict[tuple[object, ...], int] = {}
        for entry in entries:
            if entry.is_of_hive_3 and entry.is_visible:
                key = (entry.place, entry.kind)
                latest[key] = max(latest.get(key, 0), entry.compaction_id)
        for gone in self._highest.keys() - {entry.compaction_id for entry in entries}:
            del self._highest[gone]
        return tuple(
            replace(entry, highest_write_id=self._highest.get(entry.compaction_id, 0))
            if entry.is_of_hive_3
            else entry
            for entry in entries
            if not entry.is_of_hive_3
            or not entry.is_visible
            or latest[entry.place, entry.kind] == entry.compaction_id
        )

    def described(self, queue: Iterable[Compaction]) -> Iterator[tuple[Compaction, Description]]:
        """Those of the queue that can be published now; the others are looked up meanwhile."""
        visible = {
            key_of(each, self._catalog): each
            for each in queue
            if each.is_visible and each.kind is not None
        }
        for gone in self._refused.keys() - visible.keys():
            del self._refused[gone]
        for gone in self._again.keys() - visible.keys():
            del self._again[gone]
        for gone in self._asked.keys() - visible.keys():
            self._asked.pop(gone).cancel()
        for key, compaction in visible.items():
            if key in self._published or key in self._refused:
                continue
            if self._clock() < self._again.get(key, 0.0):
                continue
            asked = self._asked.get(key)
            if asked is None:
                self._asked[key] = self._pool.submit(self._describe, compaction)
            elif (
                self._is_over(compaction, asked)
                and (found := self._result(key, compaction, asked)) is not None
            ):
                made = self._completed(compaction, found)
                if key_of(made, self._catalog) not in self._published:
                    yield made, found

    def _is_over(self, compaction: Compaction, asked: Future[Description]) -> bool:
        """Whether what was looked up may be used in this look.

        Hive 3's directory may show what another one made after the locks were asked for.
        """
        return asked in self._ended if compaction.is_of_hive_3 else asked.done()

    def _completed(self, compaction: Compaction, found: Description) -> Compaction:
        if not compaction.is_of_hive_3:
            return compaction
        self._highest[compaction.compaction_id] = found.max_write_id
        return replace(compaction, highest_write_id=found.max_write_id)

    def wait(self, seconds: float) -> None:
        """Wait for the look-ups under way, so long at most."""
        for each in list(self._asked.values()):
            try:
                each.exception(seconds)
            except TimeoutError:
                return

    def close(self) -> None:
        """Give up what is under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _result(
        self, key: Key, compaction: Compaction, asked: Future[Description]
    ) -> Description | None:
        try:
            return asked.result()
        except (NotDescribed, ValueError) as error:  # a name that can't be written, for example
            self.refuse(compaction, str(error))
        except NotYet as error:
            self.postpone(compaction, str(error))
            self._again[key] = self._clock() + error.seconds
            del self._asked[key]
        except (TransientError, OSError) as error:
            log.warning("%s is looked up again: %s", named(compaction), error)
            del self._asked[key]
        return None


def named(compaction: Compaction) -> str:
    """The compaction, for people."""
    where = "" if compaction.partition is None else f", partition {compaction.partition}"
    table = f"{compaction.database}.{compaction.table}"
    return f"compaction {compaction.compaction_id} of {table}{where}"
