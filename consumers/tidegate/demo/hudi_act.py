"""First act: savepoints by policy and on request, a bad commit, a restore."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tidegate.demo.orders import HudiTable, Row, hudi_session
from tidegate.demo.stage import Stage
from tidegate.demo.story import Story
from tidegate.events import (
    Event,
    RestoreCompleted,
    RestorePlanned,
    RestoreStarted,
    SavepointCreated,
)
from tidegate.publisher import Publisher

E = TypeVar("E", bound=Event)
REGIONS: Final = ("north", "south", "west")


def play(stage: Stage, story: Story, publisher: Publisher) -> None:
    """Play the act."""
    story.act("Act 1: a bad commit on a Hudi table, and the way back")
    with story.step("Upstream starts Spark with real Hudi 1.2.0"):
        session = hudi_session(stage.folder)
    warehouse = stage.warehouse.resolve()
    customers = HudiTable(session, "customers", warehouse / "customers")
    orders = HudiTable(session, "orders", warehouse / "orders")
    try:
        _savepoint_by_policy(stage, story, publisher, customers)
        good, savepoint = _savepoint_on_request(stage, story, publisher, orders)
        _bad_commits(stage, story, publisher, orders)
        _restore(stage, story, publisher, orders, savepoint)
        with story.step("Real Hudi reads the orders"):
            rows = orders.rows()
        story.check(f"exactly the {len(good)} rows of the savepoint", holds=rows == good)
    finally:
        session.stop()


def _orders(version: int, factor: float = 1.0, count: int = 300) -> list[Row]:
    return [(n, REGIONS[n % 3], round(n * 1.5 * factor, 2), version) for n in range(count)]


def _savepoint_by_policy(
    stage: Stage, story: Story, publisher: Publisher, table: HudiTable
) -> None:
    with story.step("Upstream writes customers; the commit is published"):
        instant = table.upsert((n, REGIONS[n % 3], 0.0, 1) for n in range(30))
        _publish_commit(publisher, table, instant)
    with story.step("The policy says: a savepoint on every commit of customers"):
        done = _outcome(stage, SavepointCreated, table)
    story.check("the savepoint is on the published commit", holds=done.instant == instant)
    listed = table.savepoints()
    story.check("real Hudi lists it", holds=listed == [instant], otherwise=listed)


def _savepoint_on_request(
    stage: Stage, story: Story, publisher: Publisher, table: HudiTable
) -> tuple[list[Row], str]:
    with story.step("Upstream writes 300 orders in three partitions; the commit is published"):
        instant = table.upsert(_orders(1))
        _publish_commit(publisher, table, instant)
    with story.step("Ana asks for a savepoint of orders before the night's run"):
        publisher.request_savepoint(
            table=table.identity,
            location=str(table.location),
            requested_by="ana",
            comment="before the night's run",
        )
        done = _outcome(stage, SavepointCreated, table)
    story.check(f"it holds {done.files} files", holds=done.files == len(REGIONS))
    listed = table.savepoints()
    story.check("real Hudi lists it", holds=listed == [instant], otherwise=listed)
    return table.rows(), instant


def _bad_commits(stage: Stage, story: Story, publisher: Publisher, table: HudiTable) -> None:
    with story.step(
        "The night's run: 50 new orders, and then a bad batch that doubles all amounts"
    ):
        for rows in ([*_orders(2, count=350)], [*_orders(3, factor=2.0)]):
            _publish_commit(publisher, table, table.upsert(rows))
        stage.wait_until_idle()
    doubled = [row for row in table.rows() if row[3] == 3]  # noqa: PLR2004 - the bad version
    story.check("the bad rows are in the table", holds=len(doubled) == len(_orders(3)))
    with story.step("All five services are killed (SIGKILL) and started again"):
        stage.kill_services()
        stage.start_services()


def _restore(
    stage: Stage, story: Story, publisher: Publisher, table: HudiTable, savepoint: str
) -> None:
    ask = partial(
        publisher.request_restore,
        table=table.identity,
        location=str(table.location),
        savepoint=savepoint,
        requested_by="ana",
        reason="the night's run doubled all amounts",
    )
    before = _files(table.location)
    with story.step("Ana asks what a restore would do"):
        ask(plan_only=True)
        plan = _outcome(stage, RestorePlanned, table)
    told = ", ".join(f"{each.action} {each.instant}" for each in plan.instants)
    story.say(f"plan {plan.plan_id}: {told}; {plan.files} files, {plan.bytes:,} bytes")
    story.check("asking changed nothing", holds=_files(table.location) == before)
    with story.step("Ana asks for that very plan; the restorer works on Spark"):
        ask(expected_plan=plan.plan_id)
        done = _outcome(stage, RestoreCompleted, table)
    started = [e for e in stage.audience.outcomes() if isinstance(e, RestoreStarted)]
    story.check("it was told before it began", holds=len(started) == 1)
    story.check(
        f"two commits are gone, with {done.files_deleted} files",
        holds=done.instants == plan.instants and len(done.instants) == 2,  # noqa: PLR2004
    )


def _publish_commit(publisher: Publisher, table: HudiTable, instant: str) -> None:
    publisher.commit(
        table=table.identity, location=str(table.location), instant=instant, operation="upsert"
    )


def _outcome(stage: Stage, kind: type[E], table: HudiTable) -> E:
    def look() -> E | None:
        """The newest outcome of a kind on a table, or what stands in its place."""
        about = [e for e in stage.audience.outcomes() if e.table == table.identity]
        return next((e for e in reversed(about) if isinstance(e, kind)), None)

    return stage.wait_for(f"{kind.__name__} on {table.identity}", look)


def _files(location: Path) -> list[tuple[str, int]]:
    return sorted((str(f), f.stat().st_size) for f in location.rglob("*") if f.is_file())
