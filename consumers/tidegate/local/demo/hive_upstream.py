"""Hive's side of the demo: writers, readers and a compactor of one table.

Tidegate gets the events from the bridge, which watches a real Metastore; or the demo publishes all
of them by hand, as an engine without a Metastore would.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from tidegate.errors import FormatError, TidegateError
from tidegate.events import LockHold, LockReleased, LockType, VacuumFinished, VacuumKind
from tidegate.events.message import event_of
from tidegate.hive import ValidWriteIds
from tidegate.hive_metastore import MetastoreClient
from tidegate.local.demo.acid_orc import AcidTable
from tidegate.local.demo.environment import DemoEnvironment
from tidegate.local.demo.hive_engine import HiveEngine
from tidegate.publisher import Publisher

DATABASE, NAME = "default", "table_txn_001"
TABLE: Final = f"hive.{DATABASE}.{NAME}"
COLUMNS: Final = {"id": "bigint", "name": "string"}
READERS: Final = {"ana": "notebook-3", "ben": "reports-1"}
"""The readers, and the hosts that they read from."""
E = TypeVar("E", VacuumFinished, LockReleased)
SUCCEEDED: Final = "succeeded"
_INSERTS: Final = 3


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """A vacuum of three inserted deltas: what there is in the directory, and what it made."""

    table: AcidTable
    snapshot: ValidWriteIds
    inserted: tuple[str, ...]
    made: tuple[str, ...]

    @property
    def directories(self) -> list[str]:
        """All of them, in order."""
        return sorted([*self.inserted, *self.made])


class Upstream(Protocol):
    """Writers, readers and a compactor of one table."""

    published: str
    """How Tidegate gets the vacuum's event, as a step of the demo."""
    ends: str
    """How a lock ends; `{}` is the reader."""

    def vacuum(self) -> Vacuumed:
        """Insert three times, let Ana and Ben begin to read, then vacuum."""
        ...

    def tell(self, vacuumed: Vacuumed) -> None:
        """Have the vacuum's event published."""
        ...

    def end(self, reader: str) -> None:
        """End the lock of a reader, and have that published."""
        ...

    def after(self, vacuumed: Vacuumed) -> tuple[str, bool]:
        """A further check at the end: its description, and whether it passed."""
        ...


def _rows(write_id: int) -> list[tuple[int, str]]:
    return [(write_id * 10 + i, f"row {i}") for i in range(5)]


@dataclass(slots=True)
class ByHand:
    """Publishes every event by hand."""

    environment: DemoEnvironment
    publisher: Publisher
    warehouse: Path
    published: str = "Publish the vacuum with three locks to wait for: its own, Ana's and Ben's"
    ends: str = "Publish the release of {}'s lock"
    _locks: dict[str, int] = field(default_factory=lambda: {"vacuum": 41, "ana": 38, "ben": 39})

    @property
    def _location(self) -> Path:
        return self.warehouse / NAME

    def vacuum(self) -> Vacuumed:
        """Insert three times, then vacuum."""
        table = AcidTable(self._location, COLUMNS)
        snapshot = ValidWriteIds.parse(f"{DATABASE}.{NAME}:{_INSERTS}:9223372036854775807::")
        inserted = [table.insert(n, _rows(n)) for n in range(1, _INSERTS + 1)]
        made = table.compact_minor(1, _INSERTS, snapshot)
        return Vacuumed(table, snapshot, tuple(inserted), made)

    def tell(self, vacuumed: Vacuumed) -> None:
        """Publish the vacuum with all the locks, and the release of its own."""
        own = LockHold(
            lock_id=self._locks["vacuum"],
            lock_type=LockType.SHARED_WRITE,
            owner="hive@compactor",
        )
        held = partial(LockHold, lock_type=LockType.SHARED_READ)
        read = [
            held(lock_id=self._locks[who], owner=f"{who}@{host}") for who, host in READERS.items()
        ]
        self.publisher.vacuum_finished(
            table=TABLE,
            location=str(self._location),
            kind=VacuumKind.MINOR,
            directories=vacuumed.made,
            min_write_id=1,
            max_write_id=_INSERTS,
            valid_write_ids=str(vacuumed.snapshot),
            own_lock_id=own.lock_id,
            locks=[own, *read],
        )
        self.end("vacuum")

    def end(self, reader: str) -> None:
        """Publish the release of a lock."""
        lock = self._locks[reader]
        self.publisher.lock_released(table=TABLE, location=str(self._location), lock_id=lock)

    def after(self, vacuumed: Vacuumed) -> tuple[str, bool]:
        """A later insert is read with the other rows."""
        return _insert_is_read(vacuumed)


class ThroughMetastore:
    """Engines take transactions and locks in a Metastore; the bridge publishes what it sees."""

    published = "The bridge finds the compaction in the Metastore, with the locks of Ana and Ben"
    ends = "{}'s query ends: its lock is given back to the Metastore"

    def __init__(self, environment: DemoEnvironment) -> None:
        """Take the environment, which has a Metastore."""
        self._environment = environment
        self._engine = HiveEngine(environment.metastore_uri)
        self._locks: dict[str, int] = {}
        self._txn = 0

    def vacuum(self) -> Vacuumed:
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
        return Vacuumed(table, snapshot, tuple(inserted), made)

    def _insert(self, table: AcidTable) -> str:
        txn = self._engine.open_txn()
        write_id = self._engine.write_id(DATABASE, NAME, txn)
        written = table.insert(write_id, _rows(write_id))
        self._engine.commit(txn)
        return written

    def tell(self, vacuumed: Vacuumed) -> None:
        """Wait until the bridge has published the vacuum."""
        found = self._published("vacuums", VacuumFinished)
        if set(found.directories) != set(vacuumed.made):
            raise TidegateError(f"the bridge published a vacuum of {found.directories}")

    def end(self, reader: str) -> None:
        """Give a lock back to the Metastore; wait until the bridge has published that."""
        self._engine.unlock(self._locks[reader])
        self._published("locks", LockReleased, self._locks[reader])

    def _published(self, topic: str, kind: type[E], lock: int | None = None) -> E:
        def look() -> E | None:
            for record in self._environment.monitor.records(topic):
                with suppress(FormatError):  # the message that is not an event
                    event = event_of(record.key, record.value)
                    if (
                        isinstance(event, kind)
                        and event.table == TABLE
                        and lock in (None, getattr(event, "lock_id", None))
                    ):
                        return event
            return None

        return self._environment.wait_for(f"{kind.__name__} from the bridge", look)

    def after(self, vacuumed: Vacuumed) -> tuple[str, bool]:
        """The Metastore's queue says that the compaction succeeded, and an insert works."""
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
        return "SHOW COMPACTIONS says succeeded, and the next insert is read with the others", (
            count == (_INSERTS + 1) * len(_rows(1))
        )


def _insert_is_read(vacuumed: Vacuumed) -> tuple[str, bool]:
    vacuumed.table.insert(_INSERTS + 1, _rows(_INSERTS + 1))
    later = ValidWriteIds.parse(f"{DATABASE}.{NAME}:{_INSERTS + 1}:9223372036854775807::")
    count = len(vacuumed.table.read(later))
    return "the next insert is read with the others", count == (_INSERTS + 1) * len(_rows(1))
