"""Random histories of a table on a real Metastore: the bridges, the gate and the cleaner at work.

Hive 4.0.1 reads the rows, and its own rules say what is obsolete, of a Metastore of Hive 3.1.3 too:
there a compaction has no transaction, and its directories no suffix. No reader that the Metastore
knows reads other rows than at its begin, and nothing obsolete is left at the end: with Hive 4 the
same as Hive's own Cleaner leaves of a copy.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from support.acid import TRUNCATED, names_in
from support.acid_orc import AcidTable
from support.bridge_threads import wait_for_threads
from support.embedded_metastore import HIVE_4, EmbeddedMetastore
from support.hive_engine import REBALANCE
from support.hive_judge import HiveJudge
from support.hive_worker import (
    COLUMNS,
    MAJOR,
    MINOR,
    Copies,
    Engine,
    Snapshot,
    WorkedTable,
    copying_metastore,
    what_is_left,
)
from support.metastore import VERSIONS, own_metastore
from support.rows import Rows
from support.waiting import wait_for
from support.watched_bridge import Watched
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.second_source import SecondSource
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Command, Event
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_metastore import MetastoreClient
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

FIRST = int(os.environ.get("TIDEGATE_FIRST_HISTORY", "0"))
HISTORIES = int(os.environ.get("TIDEGATE_HISTORIES", "20"))
TABLES = 5
"""How many histories, each of a table, come to their end together."""
STEPS = ("write",) * 4 + (
    *("delete", "delete", "abort", "open", "settle", "overwrite", "truncate", "rename", "drop"),
    *("minor", "minor", "major", "rebalance", "reader", "reader", "reader", "lock", "end"),
    *("poll", "poll", "poll", "kill"),
)
FAILS = 0.15
"""How many compactions die at first."""
NO_HISTORY = "Not enough history available"
_TXN = "org.apache.hadoop.hive.metastore.txn.service"
QUICK = {
    "derby.system.durability": "test",  # nothing is synced to the disk
    "derby.locks.deadlockTimeout": "1",  # seconds before it looks for one; usually 20
}
FORGETS = {
    "metastore.task.threads.always": f"{_TXN}.AcidHouseKeeperService,{_TXN}.AcidTxnCleanerService",
    "metastore.acid.txn.cleaner.interval": "300ms",
}
"""The Metastore forgets aborted transactions of which nothing is left, as in production."""
pytestmark = [pytest.mark.slow, pytest.mark.judge, pytest.mark.full, pytest.mark.timeout(36_000)]


@dataclass
class Write:
    """What a transaction wrote."""

    txn: int
    inserted: frozenset[int] = frozenset()
    deleted: frozenset[int] = frozenset()
    overwrites: bool = False


@dataclass
class Reader:
    txn: int | None
    lock: int | None
    snapshot: Snapshot
    rows: list[str]
    directories: frozenset[str]
    """What it reads."""


class Site:
    """Two bridges that both poll, the gate and the cleaner, for the tables of some histories."""

    def __init__(self, engine: Engine, judge: HiveJudge, db: str, seed: int) -> None:
        self.engine, self.judge, self.db = engine, judge, db
        self.random = Random(seed)  # noqa: S311 - the same history every time is the point
        self.at_once = self.random.random() < 0.5
        self.other = f"other_{seed}"
        """A table that some transactions read."""
        warehouse = engine.table(db, self.other).parents[1]
        self.worlds: list[World] = []
        self.events: list[Event] = []
        """All events of the topics."""
        self.counts: Counter[str] = Counter()
        self.now = datetime.now(UTC)
        self.gate = Rows(restarts=False)
        first = self.bridge(Baseline())
        first.bridge.look()
        self.bridges = [first, self.bridge(first.bridge.baseline)]
        source = SecondSource(engine.settings, readers_lock_at_once=self.at_once)
        roots = WarehouseRoots.of(str(warehouse))
        self.cleaner = Cleaner(Warehouse(roots), ThreadMap(1), lambda: self.now, second=source)

    def bridge(self, baseline: Baseline) -> Watched:
        """One that removes aborted writes at once: their writers have ended here."""
        grace = {"aborted_grace_ms": 0, "aborted_interval_ms": 1}
        return Watched(self.engine, baseline, readers_lock_at_once=self.at_once, **grace)

    def poll(self) -> None:
        """One of the bridges polls; the gate and the cleaner do what follows."""
        active = self.random.choice(self.bridges)
        seen = len(active.events)
        active.vacuums(self.db)
        wait_for_threads(active.bridge._aborted)
        active.bridge.look()
        self.deliver(active.events[seen:])
        self.now += timedelta(minutes=2)
        self.carry_out(self.gate.tick(self.now))
        wait_for_threads(active.bridge._marking)
        active.bridge.look()

    def deliver(self, events: list[Event]) -> None:
        names = {name for world in self.worlds for name in world.names}
        events = [event for event in events if event.table.split(".")[2] in names]
        self.events += events
        for watched in self.bridges:
            watched.bridge.take(events)
        for event in events:
            self.carry_out(self.gate.handle(event, at=self.now))

    def carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            self.deliver(list(self.cleaner.execute(command)))
            for world in self.worlds:
                for reader in world.readers:
                    world.check(reader)

    def kill(self) -> None:
        """One bridge dies; another one reads the topics from their beginning."""
        place = self.random.randrange(2)
        baseline = self.bridges[1 - place].bridge.baseline
        self.bridges[place].bridge.close()
        self.bridges[place] = self.bridge(baseline)
        self.bridges[place].bridge.take(self.events)

    def end(self, folder: Path | None) -> None:
        """Compact every table twice, and check what is left of it.

        With a folder, Hive's own Cleaner cleans copies there, and leaves the same of them.
        """
        rows = [world.rows(world.snapshot()) for world in self.worlds]
        copies = None if folder is None else Copies(self.worlds, folder)
        self.poll_often()
        for _ in range(2):  # the second one has nothing to merge
            for world in self.worlds:
                assert world.work(MAJOR), f"the queue still has an entry of {world.name}"
            self.poll_often()
        wait_for("the Metastore to forget failed compactions", self.has_forgotten)
        for world, before in zip(self.worlds, rows, strict=True):
            world.check_end(before)
        if copies is None:
            return
        copies.compact_twice()
        ours = [what_is_left(world) for world in self.worlds]
        with suppress(AssertionError):  # it removes what aborted in a round of its own
            wait_for("the same", lambda: ours == [what_is_left(copy) for copy in copies.tables])
        assert ours == [what_is_left(copy) for copy in copies.tables]
        copies.close()

    def poll_often(self) -> None:
        """Until another bridge, which checks at once what one would check in a minute, is idle."""
        for _ in range(8):
            before = self.progress()
            self.kill()
            self.poll()
            self.poll()
            if before == self.progress():
                break

    def progress(self) -> tuple[object, ...]:
        """What another poll may change."""
        with MetastoreClient(self.engine.settings) as client:
            found = [world.progress(client) for world in self.worlds]
        return len(self.events), found

    def has_forgotten(self) -> bool:
        """Whether what they left would be read by now."""
        with MetastoreClient(self.engine.settings) as client:
            aborted = client.transaction_states().aborted
        return not any(world.failed & aborted for world in self.worlds)

    def close(self) -> None:
        for watched in self.bridges:
            watched.bridge.close()
        for name in (self.other, *(world.name for world in self.worlds)):
            self.engine.drop_table(self.db, name)  # a sweep asks about every table


class World(WorkedTable):
    """A table, its writers and its readers."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site, self.seed = site, seed
        self.random = Random(seed)  # noqa: S311 - as above
        self.names = (f"orders_{seed}", f"sold_{seed}")
        location = site.engine.table(site.db, self.names[0])
        super().__init__(site.engine, site.judge, site.db, self.names[0], location)
        self.writes: dict[int, Write] = {}
        """By write id."""
        self.readers: list[Reader] = []
        self.others: list[int] = []
        """Transactions that read another table."""
        self.steps: list[str] = []
        self.last_row = 0
        site.worlds.append(self)

    def run(self) -> None:
        """Take some steps, and let every transaction of this table end."""
        for _ in range(self.random.randint(10, 30)):
            self.steps.append(self.random.choice(STEPS))
            self.act(self.steps[-1])
        for write_id in list(self.open):
            self.settle(write_id, "commit")
        for reader in list(self.readers):
            self.end_reader(reader)
        for txn in self.others:
            self.engine.commit(txn)
        if self.engine.is_hive_3:  # there the bridge skips a compaction without a product
            self.write("write")

    def expected(self) -> list[str]:
        """The rows of the writes that committed."""
        done = {
            write_id: write
            for write_id, write in self.writes.items()
            if write_id not in self.aborted and write_id not in self.open
        }
        first = max((write_id for write_id, write in done.items() if write.overwrites), default=0)
        rows = {row for id_, write in done.items() if id_ >= first for row in write.inserted}
        rows -= {row for write in done.values() for row in write.deleted}
        return sorted(f"{{{row}}}" for row in rows)

    def act(self, step: str) -> None:
        """Do a step, unless it is one that no engine would do now."""
        counts = self.site.counts
        counts[step] += 1
        match step:
            case "write" | "delete" | "abort" | "open":
                self.write(step)
            case "overwrite" | "truncate" if not self.open:  # Hive locks the table for it
                self.write(step)
            case "settle" if self.open:
                self.settle(self.random.choice(self.open), self.random.choice(("commit", "abort")))
            case "minor" | "major":
                self.work(MINOR if step == "minor" else MAJOR)
            case "rebalance" if not self.open and not self.engine.is_hive_3:
                self.work(REBALANCE)
            case "reader" if len(self.readers) < 3:
                self.read()
            case "lock" | "end" if self.readers:
                self.go_on(self.random.choice(self.readers), step)
            case "rename" | "drop" if not self.readers and not self.open:
                (self.rename if step == "rename" else self.drop)()
            case "poll" | "kill":
                (self.site.poll if step == "poll" else self.site.kill)()
            case _:
                counts[step] -= 1

    def work(self, kind: int) -> bool:
        """Let a Worker compact it, while the bridges go on."""
        dies = self.random.random() < FAILS

        def poll() -> None:
            if self.random.random() < 0.3:
                self.site.poll()

        return self.compact(kind, dies=dies, before_its_end=poll)

    def go_on(self, reader: Reader, step: str) -> None:
        if step == "end":
            self.end_reader(reader)
        elif not reader.lock:
            reader.lock = self.engine.lock(self.db, self.name, txn=reader.txn)

    def write(self, step: str) -> None:
        txn = self.engine.open_txn()
        write_id = self.engine.write_id(self.db, self.name, txn)
        is_overwrite = step in {"overwrite", "truncate"}
        inserted, deleted = frozenset[int](), frozenset[int]()
        if step == "delete":
            found = self.table.read(self.snapshot()[0])
            keys = [key for key in found if self.random.random() < 0.5]
            deleted = frozenset(found[key][0] for key in keys)
            if keys:
                self.table.delete(write_id, keys)
        elif step != "truncate":
            inserted = frozenset({self.last_row + 1, self.last_row + 2})
            self.last_row += 2
            name = self.table.insert(write_id, [(row,) for row in sorted(inserted)])
            if is_overwrite:
                (self.table.location / name).rename(self.table.location / f"base_{write_id:07}")
        else:
            base = self.table.location / f"base_{write_id:07}"
            base.mkdir()
            (base / "_metadata_acid").write_bytes(TRUNCATED)
        self.writes[write_id] = Write(txn, inserted, deleted, is_overwrite)
        self.open.append(write_id)
        if step == "abort" or (is_overwrite and self.random.random() < 0.2):
            self.settle(write_id, "abort")
        elif step != "open":
            self.settle(write_id, "commit")

    def settle(self, write_id: int, how: str) -> None:
        self.open.remove(write_id)
        txn = self.writes[write_id].txn
        if how == "abort":
            # the Metastore knows of a transaction's tables by its locks
            self.engine.lock(self.db, self.name, txn=txn, kind=2, operation=2)
            self.engine.abort(txn)
            self.aborted.add(write_id)
        else:
            self.engine.commit(txn)

    def read(self) -> None:
        """A reader that locks at its begin or later, or one with a lock and no transaction."""
        lock, kind = None, self.random.choice(("plain", "locks", "compiles", "elsewhere"))
        txn = None if kind == "plain" else self.engine.open_txn()
        if kind == "plain":
            lock = self.engine.lock(self.db, self.name)
        snapshot = self.snapshot()
        if kind == "locks":
            lock = self.engine.lock(self.db, self.name, txn=txn)
        elif kind == "elsewhere":
            self.engine.lock(self.db, self.site.other, txn=txn)
            if self.site.at_once and txn is not None:  # it reads the other table only
                self.others.append(txn)
                return
        state = self.state(snapshot, as_cleaner=False)
        read = frozenset(filter(None, (state.base, *state.current)))
        self.readers.append(Reader(txn, lock, snapshot, self.rows(snapshot), read))

    def end_reader(self, reader: Reader) -> None:
        self.check(reader)
        self.readers.remove(reader)
        if reader.txn is None:
            self.engine.unlock(reader.lock or 0)
        else:
            self.engine.commit(reader.txn)

    def check(self, reader: Reader) -> None:
        found, names = self.rows(reader.snapshot), names_in(self.table.location)
        if self.engine.is_hive_3 and NO_HISTORY in str(found):
            # the base of Hive 3's compaction is at once there for every reader (HIVE-20823)
            assert reader.directories <= set(names), (reader, names)
            return
        assert found == reader.rows, (reader, found, names)

    def rename(self) -> None:
        old, self.name = self.name, next(name for name in self.names if name != self.name)
        self.engine.alter(self.db, old, new_name=self.name)
        self.table = AcidTable(self.table.location.with_name(self.name), COLUMNS)
        assert self.table.location.is_dir() or not self.writes

    def drop(self) -> None:
        """Another table gets its name; 4.0.1 goes on counting the write ids."""
        self.engine.drop_table(self.db, self.name)
        shutil.rmtree(self.table.location, ignore_errors=True)
        assert self.engine.table(self.db, self.name) == self.table.location
        self.table.location.mkdir(exist_ok=True)
        self.writes, self.aborted = {}, set()

    def check_end(self, before: list[str]) -> None:
        """It has the rows of before, and nothing obsolete."""
        after = self.snapshot()
        assert before == self.rows(after) == self.expected(), names_in(self.table.location)
        # the cleaner of Hive 4 takes a base of Hive 3's Worker for one of an overwrite
        state = self.state(after, as_cleaner=not self.engine.is_hive_3)
        assert (state.obsolete, state.aborted) == ((), ()), names_in(self.table.location)

    def progress(self, client: MetastoreClient) -> tuple[object, ...]:
        """What a poll may change of it."""
        where, valid = self.table.location, client.transaction_states().valid()
        write_ids = client.write_ids(self.db, self.name, valid)
        return names_in(where), write_ids, client.compactions(self.db, self.name)


@pytest.fixture(scope="module")
def its_own(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    """A Metastore of this file: the transactions of other tests would be readers here."""
    folder = tmp_path_factory.mktemp("metastore")
    settings = QUICK | (FORGETS if request.param == HIVE_4 else {})
    if request.param == HIVE_4:
        made = copying_metastore(folder, settings)
    else:
        made = own_metastore(folder, settings, version=request.param)
    with made as running:
        yield running


@pytest.mark.parametrize("its_own", VERSIONS, indirect=True)
def test_no_reader_reads_other_rows_and_nothing_obsolete_is_left(
    its_own: EmbeddedMetastore, hive: HiveJudge, tmp_path: Path
) -> None:
    engine, counts = Engine(its_own), Counter[str]()
    db = engine.database()
    for first in range(FIRST, FIRST + HISTORIES, TABLES):
        site = Site(engine, hive, db, first)
        try:
            for seed in range(first, first + TABLES):
                World(site, seed).run()
            site.end(None if engine.is_hive_3 else tmp_path / "copies")
        except Exception as error:
            steps = {world.seed: world.steps for world in site.worlds}
            raise AssertionError(f"histories {steps}: {error}") from error
        finally:
            site.close()
        counts += site.counts
        counts.update(type(event).__name__ for event in site.events)
    engine.close()

    print(dict(counts))  # noqa: T201 - the figures of a run
    assert counts["DirectoriesCleaned"] > HISTORIES
