"""Hudi: savepoints by policy and on request, a bad commit, a restore.

The upstream writer is real Hudi, through PySpark.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from demo.environment import DemoEnvironment
from demo.report import DemoReport
from support.spark import hudi_session
from tidegate.events import (
    Event,
    RestoreCompleted,
    RestorePlanned,
    RestoreStarted,
    SavepointCreated,
)
from tidegate.hudi_reader.table import load_table
from tidegate.publisher import Publisher
from tidegate.storage import Storage
from tidegate.tables.claim import HUDI as CLAIMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

E = TypeVar("E", bound=Event)
REGIONS = ("north", "south", "west")
Row = tuple[int, str, float, int]
"""The columns `order_id`, `region`, `amount`, `version`."""
_COLUMNS = ("order_id", "region", "amount", "version")
_HUDI = {
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.metadata.enable": "false",
}


@dataclass(frozen=True, slots=True)
class _Table:
    """A copy-on-write Hudi table, partitioned by region."""

    session: SparkSession
    name: str
    location: Path

    @property
    def identity(self) -> str:
        """The table's name in events."""
        return f"lake.shop.{self.name}"

    def upsert(self, rows: Iterable[Row]) -> str:
        """Write rows; return the commit's instant."""
        frame = self.session.createDataFrame(list(rows), list(_COLUMNS))
        options = {**_HUDI, "hoodie.table.name": self.name}
        frame.write.format("hudi").options(**options).mode("append").save(str(self.location))
        timeline = load_table(Storage(), str(self.location)).timeline
        return max(instant.timestamp for instant in timeline.completed_writes)

    def rows(self) -> list[Row]:
        """All rows as real Hudi reads them, sorted."""
        frame = self.session.read.format("hudi").load(str(self.location)).select(*_COLUMNS)
        return sorted(
            (int(row[0]), str(row[1]), float(row[2]), int(row[3])) for row in frame.collect()
        )

    def savepoints(self) -> list[str]:
        """The savepoints that Hudi's own procedure lists."""
        listed = self.session.sql(f"CALL show_savepoints(path => '{self.location}')")
        return [str(row[0]) for row in listed.collect()]


def run(environment: DemoEnvironment, report: DemoReport, publisher: Publisher) -> None:
    """Run the scenario.

    Raises:
        TidegateError: a check failed, or an outcome did not come.
    """
    report.heading("Hudi: restore a table after a bad commit")
    warehouse = environment.warehouse.resolve()
    with ExitStack() as stack:
        with report.step("Start the upstream writer: Spark with real Hudi 1.2.0"):
            folder = environment.folder / "spark-warehouse"
            session = stack.enter_context(hudi_session(folder, "768m"))
            session.sparkContext.setLogLevel("OFF")
        customers = _Table(session, "customers", warehouse / "customers")
        orders = _Table(session, "orders", warehouse / "orders")
        _savepoint_by_policy(environment, report, publisher, customers)
        good, savepoint = _savepoint_on_request(environment, report, publisher, orders)
        _bad_commits(environment, report, publisher, orders)
        _restore(environment, report, publisher, orders, savepoint)
        with report.step("Read the orders with real Hudi"):
            rows = orders.rows()
        report.check(f"exactly the {len(good)} rows of the savepoint are there", met=rows == good)


def _orders(version: int, factor: float = 1.0, count: int = 300) -> list[Row]:
    return [(n, REGIONS[n % 3], round(n * 1.5 * factor, 2), version) for n in range(count)]


def _savepoint_by_policy(
    environment: DemoEnvironment, report: DemoReport, publisher: Publisher, table: _Table
) -> None:
    with report.step("Write customers with Hudi, publish the commit"):
        instant = table.upsert((n, REGIONS[n % 3], 0.0, 1) for n in range(30))
        _publish_commit(publisher, table, instant)
    with report.step(
        "Wait for the savepoint that the policy asks for: one on every commit of customers"
    ):
        done = _outcome(environment, SavepointCreated, table)
    report.check("the savepoint is on the published commit", met=done.instant == instant)
    listed = table.savepoints()
    report.check("real Hudi lists the savepoint", met=listed == [instant], found=listed)


def _savepoint_on_request(
    environment: DemoEnvironment, report: DemoReport, publisher: Publisher, table: _Table
) -> tuple[list[Row], str]:
    with report.step("Write 300 orders in three partitions with Hudi, publish the commit"):
        instant = table.upsert(_orders(1))
        _publish_commit(publisher, table, instant)
    with report.step("Ana requests a savepoint of orders before the nightly batch"):
        publisher.request_savepoint(
            table=table.identity,
            location=str(table.location),
            requested_by="ana",
            comment="before the nightly batch",
        )
        done = _outcome(environment, SavepointCreated, table)
    report.check(
        f"the savepoint has {done.files} files, one per partition", met=done.files == len(REGIONS)
    )
    listed = table.savepoints()
    report.check("real Hudi lists the savepoint", met=listed == [instant], found=listed)
    return table.rows(), instant


def _bad_commits(
    environment: DemoEnvironment, report: DemoReport, publisher: Publisher, table: _Table
) -> None:
    with report.step("The nightly batch writes 50 new orders, then doubles all amounts by mistake"):
        for rows in ([*_orders(2, count=350)], [*_orders(3, factor=2.0)]):
            _publish_commit(publisher, table, table.upsert(rows))
        environment.wait_until_idle()
    doubled = [row for row in table.rows() if row[3] == 3]
    report.check("the bad rows are in the table", met=len(doubled) == len(_orders(3)))
    with report.step("Kill all four services (SIGKILL) and start them again"):
        environment.kill_services()
        environment.start_services()


def _restore(
    environment: DemoEnvironment,
    report: DemoReport,
    publisher: Publisher,
    table: _Table,
    savepoint: str,
) -> None:
    request = partial(
        publisher.request_restore,
        table=table.identity,
        location=str(table.location),
        savepoint=savepoint,
        requested_by="ana",
        reason="the nightly batch doubled all amounts",
    )
    before = _files(table.location)
    with report.step("Ana requests the plan of a restore"):
        request(plan_only=True)
        plan = _outcome(environment, RestorePlanned, table)
    instants = ", ".join(f"{instant.action} {instant.instant}" for instant in plan.instants)
    report.detail(f"plan {plan.plan_id}: {instants}; {plan.files} files, {plan.bytes:,} bytes")
    report.check("the plan changed nothing", met=_files(table.location) == before)
    with report.step("Ana requests exactly that plan; the restorer works on Spark"):
        request(expected_plan=plan.plan_id)
        done = _outcome(environment, RestoreCompleted, table)
    started = [e for e in environment.outcomes() if isinstance(e, RestoreStarted)]
    report.check("the start of the restore was published", met=len(started) == 1)
    report.check(
        f"two commits were rolled back, {done.files_deleted} files deleted",
        met=done.instants == plan.instants and len(done.instants) == 2,
    )


def _publish_commit(publisher: Publisher, table: _Table, instant: str) -> None:
    publisher.commit(
        table=table.identity, location=str(table.location), instant=instant, operation="upsert"
    )


def _outcome(environment: DemoEnvironment, kind: type[E], table: _Table) -> E:
    def look() -> E | None:
        """The newest outcome of this kind on the table."""
        about = [e for e in environment.outcomes() if e.table == table.identity]
        return next((e for e in reversed(about) if isinstance(e, kind)), None)

    return environment.wait_for(f"{kind.__name__} on {table.identity}", look)


def _files(location: Path) -> list[tuple[str, int]]:
    """The files of the table, without the claims of workers in a hidden folder."""
    files = (path for path in location.rglob("*") if path.is_file() and CLAIMS not in str(path))
    return sorted((str(path), path.stat().st_size) for path in files)
