"""A Metastore bridge whose events go into a list, and tables with compactions for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from support.acid import build
from support.bridge_threads import wait_for_threads
from support.hive_engine import HiveEngine, product
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.readers import command_for
from tidegate.errors import DeliveryError, InvalidEventError
from tidegate.events import Event, LockReleased, Outcome, VacuumFinished
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.bridge import MetastoreBridge
from tidegate.hive_bridge.observer import Observer
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.storage import Storage
from tidegate.tables.warehouse import Warehouse, WarehouseRoots


class Watched(Observer):
    """A bridge whose events go into a list."""

    def __init__(
        self, engine: HiveEngine, baseline: Baseline | None = None, **options: object
    ) -> None:
        self.events: list[Event] = []
        self.broken = False
        self.refused_database = ""
        """The database whose events the publisher refuses."""
        with MetastoreClient(engine.settings) as client:
            self.aborted_before = client.transactions().aborted
        """What other tests left: of these a bridge that starts can't know when they ended."""
        given = {"uri": engine.settings.uri, "interval_ms": 4_000} | options
        settings = BridgeSettings.model_validate(given)
        storage = Storage()
        self.calls: Counter[str] = Counter()
        self.seen: list[tuple[int, int]] = []
        """The holds that are waited for, and the compactions that are not marked, of each look."""
        self.marks = 0
        self.bridge = MetastoreBridge(
            settings, self._publish, storage, baseline or Baseline(), observer=self
        )

    def called(self, name: str) -> None:
        self.calls[name] += 1

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        assert seconds > 0
        self.seen.append((holds, unmarked))

    def marked(self, count: int) -> None:
        self.marks += count

    def refused(self) -> None:
        """Its log says why."""

    def is_active(self, *, active: bool) -> None:
        """It has no process."""

    def _publish(self, events: Sequence[Event]) -> None:
        if self.broken:
            raise DeliveryError("the broker is away")
        if any(f".{self.refused_database}." in event.table for event in events):
            raise InvalidEventError("it contradicts itself")
        self.events += events

    def vacuums(self, database: str) -> list[VacuumFinished]:
        """Look until nothing new is found; the vacuums of a database so far."""
        self.bridge.look()
        wait_for_threads(self.bridge._compactions)
        self.bridge.look()
        found = (event for event in self.events if isinstance(event, VacuumFinished))
        return [event for event in found if f".{database}." in event.table]

    def releases(self, database: str) -> list[LockReleased]:
        """Look; the releases of a database so far, but those of the compactions themselves."""
        self.bridge.look()
        found = (event for event in self.events if isinstance(event, LockReleased))
        ours = [event for event in found if f".{database}." in event.table and event.lock_id != 0]
        return [event for event in ours if event.transaction_id not in self.aborted_before]


def acid_table(engine: HiveEngine, *, partitioned: bool = False) -> tuple[str, Path]:
    db = engine.database()
    return db, engine.table(db, partitioned_by=["day"] if partitioned else [])


def compact(engine: HiveEngine, db: str, location: Path, partition: str | None = None) -> int:
    """Three writes and a minor compaction of them; its transaction."""
    highest = max(engine.write(db, "orders") for _ in range(3))
    where = location / partition if partition else location
    # by these Hive 3's compaction is known
    (where / f"delta_{highest:07}_{highest:07}_0000").mkdir(parents=True)
    txn = engine.compact(db, "orders", highest, partition)
    (where / product(f"delta_{highest - 2:07}_{highest:07}", txn)).mkdir()
    return txn


class Queued(Watched):
    """A bridge, and a cleaner that does at once what it publishes."""

    def clean(self, event: VacuumFinished) -> Outcome:
        """Clean a vacuum whose holds have ended, and let the bridge read the outcome."""
        roots = WarehouseRoots.of(str(Path(event.location).parents[2]))
        cleaner = Cleaner(Warehouse(roots), ThreadMap(2), lambda: datetime.now(UTC))
        outcomes = list(cleaner.execute(command_for(event, datetime.now(UTC))))
        self.events += outcomes
        self.bridge.take(outcomes)
        return outcomes[-1]

    def settle(self) -> None:
        """Let the bridge do what follows from what it has read."""
        self.bridge.look()
        wait_for_threads(self.bridge._marking)
        self.bridge.look()

    def state(self, engine: HiveEngine, db: str, partition: str | None = None) -> list[str]:
        with MetastoreClient(engine.settings) as client:
            found = [
                e for e in client.compactions() if (e.database, e.partition) == (db, partition)
            ]
        return [entry.state for entry in sorted(found, key=lambda entry: entry.compaction_id)]


def wrote(engine: HiveEngine, db: str, where: Path, count: int = 3) -> int:
    """That many committed inserts with their directories; the last write id."""
    ids = [engine.write(db, "orders") for _ in range(count)]
    build(where, {f"delta_{id_:07}_{id_:07}_0000": 10 for id_ in ids})
    return ids[-1]


def compacted(
    engine: HiveEngine, db: str, where: Path, ids: tuple[int, int], partition: str | None = None
) -> str:
    """A minor compaction of a range of write ids; the directory that it made."""
    low, high = ids
    txn = engine.compact(db, "orders", high, partition)
    name = product(f"delta_{low:07}_{high:07}", txn)
    build(where, {name: 30})
    return name
