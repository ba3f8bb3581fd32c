"""A Metastore bridge whose events go into a list, and tables with compactions for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from support.metastore import HiveEngine
from tidegate.errors import DeliveryError, InvalidEventError
from tidegate.events import Event, LockReleased, VacuumFinished
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.bridge import MetastoreBridge
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.storage import Storage


class Watched:
    """A bridge whose events go into a list."""

    def __init__(self, engine: HiveEngine, baseline: Baseline | None = None) -> None:
        self.events: list[Event] = []
        self.broken = False
        self.refused = ""
        """The database whose events the publisher refuses."""
        settings = BridgeSettings(uri=engine.settings.uri, interval_ms=4_000)
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

    def is_active(self, *, active: bool) -> None:
        """It has no process."""

    def _publish(self, events: Sequence[Event]) -> None:
        if self.broken:
            raise DeliveryError("the broker is away")
        if any(f".{self.refused}." in each.table for each in events):
            raise InvalidEventError("it contradicts itself")
        self.events += events

    def vacuums(self, database: str) -> list[VacuumFinished]:
        """Look until nothing new is found; the vacuums of a database so far."""
        self.bridge.look()
        self.bridge._compactions.wait(60)
        self.bridge.look()
        found = (each for each in self.events if isinstance(each, VacuumFinished))
        return [each for each in found if f".{database}." in each.table]

    def releases(self, database: str) -> list[LockReleased]:
        """Look; the releases of a database so far, but those of the compactions themselves."""
        self.bridge.look()
        found = (each for each in self.events if isinstance(each, LockReleased))
        return [each for each in found if f".{database}." in each.table and each.lock_id != 0]


def acid_table(engine: HiveEngine, *, partitioned: bool = False) -> tuple[str, Path]:
    db = engine.database()
    return db, engine.table(db, partitioned_by=["day"] if partitioned else [])


def compact(engine: HiveEngine, db: str, location: Path, partition: str | None = None) -> int:
    """Three writes and a minor compaction of them; its transaction."""
    highest = max(engine.write(db, "orders") for _ in range(3))
    txn = engine.compact(db, "orders", highest, partition)
    where = location / partition if partition else location
    (where / f"delta_{highest - 2:07}_{highest:07}_v{txn:07}").mkdir(parents=True)
    return txn
