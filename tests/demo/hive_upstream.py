"""Hive's side of the demo: writers, readers and a compactor of one table in a real Metastore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from demo.environment import DemoEnvironment
from support.acid_orc import AcidTable
from support.hive_engine import HiveEngine
from tidegate.errors import TidegateError
from tidegate.events import LockReleased, VacuumFinished
from tidegate.events.topics import LOCKS, VACUUMS, Topic
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.hive_metastore import MetastoreClient

DATABASE, NAME = "default", "table_txn_001"
TABLE = f"hive.{DATABASE}.{NAME}"
COLUMNS = {"id": "bigint", "name": "string"}
READERS = {"ana": "notebook-3", "ben": "reports-1"}
"""The readers, and the hosts that they read from."""
E = TypeVar("E", VacuumFinished, LockReleased)
SUCCEEDED = "succeeded"
_INSERTS = 3


@dataclass(frozen=True, slots=True)
class _Vacuumed:
    """A vacuum of three inserted deltas: what there is in the directory, and what it made."""

    table: AcidTable
    snapshot: ValidWriteIds
    inserted: tuple[str, ...]
    made: tuple[str, ...]

    @property
    def directories(self) -> list[str]:
        """All of them, in order."""
        return sorted([*self.inserted, *self.made])


def _rows(write_id: int) -> list[tuple[int, str]]:
    return [(write_id * 10 + i, f"row {i}") for i in range(5)]


class Upstream:
    """Engines take transactions and locks in a Metastore; the bridge publishes what it sees."""

    def __init__(self, environment: DemoEnvironment) -> None:
        """Take the environment, which has a Metastore."""
        self._environment = environment
        self._engine = HiveEngine(environment.metastore)
        self._locks: dict[str, int] = {}
        self._txn = 0

    def vacuum(self) -> _Vacuumed:
        """Insert in three transactions, take Ana's and Ben's locks, compact as Hive's Worker."""
        engine = self._engine
        location = engine.table(DATABASE, NAME, columns=COLUMNS)
        table = AcidTable(location, COLUMNS)
        inserted = [self._insert(table) for _ in range(_INSERTS)]
        for who, host in READERS.items():
            self._locks[who] = engine.lock(DATABASE, NAME, owner=(who, host))
        with MetastoreClient(engine.settings) as client:
            snapshot = client.write_ids(DATABASE, NAME, client.transactions().valid())
        info, self._txn = engine.compaction(DATABASE, NAME, _INSERTS)
        made = table.compact_minor(1, _INSERTS, snapshot, self._txn)
        engine.finish_compaction(info, self._txn)
        return _Vacuumed(table, snapshot, tuple(inserted), made)

    def _insert(self, table: AcidTable) -> str:
        txn = self._engine.open_txn()
        write_id = self._engine.write_id(DATABASE, NAME, txn)
        written = table.insert(write_id, _rows(write_id))
        self._engine.commit(txn)
        return written

    def wait_until_published(self, vacuumed: _Vacuumed) -> None:
        """Wait until the bridge has published the vacuum."""
        found = self._published(VACUUMS, VacuumFinished)
        if set(found.directories) != set(vacuumed.made):
            raise TidegateError(f"the bridge published a vacuum of {found.directories}")

    def end(self, reader: str) -> None:
        """Give a lock back to the Metastore; wait until the bridge has published that."""
        self._engine.unlock(self._locks[reader])
        self._published(LOCKS, LockReleased, self._locks[reader])

    def _published(self, topic: Topic, kind: type[E], lock: int | None = None) -> E:
        def look() -> E | None:
            for event in self._environment.events(topic):
                if (
                    isinstance(event, kind)
                    and event.table == TABLE
                    and lock in (None, getattr(event, "lock_id", None))
                ):
                    return event
            return None

        return self._environment.wait_for(f"{kind.__name__} from the bridge", look)

    def insert_once_more(self, vacuumed: _Vacuumed) -> bool:
        """Wait until SHOW COMPACTIONS has "succeeded"; whether a further insert is read."""
        with MetastoreClient(self._engine.settings) as client:

            def state() -> str | None:
                found = [
                    compaction
                    for compaction in client.compactions()
                    if compaction.transaction_id == self._txn
                ]
                return next((e.state for e in found if e.state == SUCCEEDED), None)

            self._environment.wait_for("mark in the Metastore's queue", state)
            self._insert(vacuumed.table)
            snapshot = client.write_ids(DATABASE, NAME, client.transactions().valid())
        self._engine.close()
        count = len(vacuumed.table.read(snapshot))
        return count == (_INSERTS + 1) * len(_rows(1))
