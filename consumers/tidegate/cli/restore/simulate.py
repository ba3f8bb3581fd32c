"""`tidegate simulate`: the savepoint policy over the commits of the past."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidegate.cli.look.waiting import age_of
from tidegate.cli.options import AsJsonLines, ConfigFile, Since, since_of, table_pattern
from tidegate.cli.output import write, write_rows
from tidegate.events import CommitCompleted
from tidegate.events.topics import COMMITS
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.savepoints.simulation import Simulation
from tidegate.service.assembly import savepoint_policy
from tidegate.service.settings import Settings


def simulate(
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="Only of these: a name, or a pattern like 'lake.s.*'."),
    ] = None,
    since: Since = None,
    removed: Annotated[
        bool, typer.Option("--removed", help="Also those that would be gone again.")
    ] = False,
    as_json: AsJsonLines = False,
    config: ConfigFile = None,
) -> None:
    """Show the savepoints that a policy would have made for the commits of the topic.

    Nothing is published or written, and no table is read: which files Hudi cleaned is not known.

    Examples:
        tidegate simulate --table 'lake.sales.*'
        tidegate simulate --since 14d --removed --json | jq .instant
    """
    settings = Settings.load(config)
    simulation = Simulation(savepoint_policy(settings))
    tables = tuple(table_pattern(pattern) for pattern in table or ())
    commits = 0
    for logged in EventLog.of(settings).read(
        COMMITS, EventFilter(tables=tables), since=since_of(since)
    ):
        if logged is not None and isinstance(logged.event, CommitCompleted):
            simulation.commit(logged.event, logged.at)
            commits += 1
    now = datetime.now(UTC)
    simulation.until(now)
    gone = list(simulation.removed()) if removed else []
    rows = list(_rows([*simulation.savepoints(), *gone], now))
    write_rows(rows, "no commit would have a savepoint", as_json=as_json)
    if not as_json:
        write(f"{commits} commits: {len(rows) - len(gone)} savepoints would exist now")


def _rows(savepoints: Iterable[Any], now: datetime) -> Iterable[dict[str, Any]]:
    for simulated in savepoints:
        savepoint, removed_at = simulated.savepoint, simulated.removed_at
        yield {
            "table": simulated.table,
            "instant": savepoint.instant,
            "policy": savepoint.policy,
            "tiers": ",".join(savepoint.tiers),
            "pinned_since": savepoint.since.isoformat(timespec="seconds"),
            "age": age_of((removed_at or now) - savepoint.since),
            "removed_at": removed_at and removed_at.isoformat(timespec="seconds"),
        }
