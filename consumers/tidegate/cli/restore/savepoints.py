"""`tidegate savepoints` and `simulate`: those of a table, and of a policy over the past."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.deployment import located
from tidegate.cli.options import option_group, since_of, table_of, table_pattern
from tidegate.cli.output import write, write_json_lines, write_rows
from tidegate.cli.sending import Requesting, request
from tidegate.errors import ConfigError
from tidegate.events import CommitCompleted
from tidegate.events.topics import COMMITS
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.ops.summary import age_of, counted, size
from tidegate.publisher import Publisher
from tidegate.savepoints.listing import savepoints_of
from tidegate.savepoints.rules import rule_of
from tidegate.savepoints.simulation import simulated
from tidegate.service.assembly import table_work
from tidegate.service.settings import Settings

savepoints = typer.Typer(help="The savepoints of a Hudi table.", no_args_is_help=True)


@savepoints.callback()
def _group() -> None:
    """The savepoints of a Hudi table."""  # without a callback typer makes `list` the command


@savepoints.command("list")
def list_savepoints(
    subject: Annotated[str, typer.Argument(metavar="TABLE | LOCATION")],
    table: str | None = None,
    pins: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """List the savepoints of a table, oldest first, with requester, time and reason.

    A policy's savepoints expire at the end of their lifetime at the latest; the newest of a tier
    never does.
    Savepoints that no rule of the table owns stay: `adopts` in its rule takes them over, and
    `tidegate savepoints remove` requests their removal.

    Positional:
        subject: catalog.database.table, or for a table that no event names its path or URI.

    Options:
        table: The name of the table at a location.
        pins: List the table too: what only savepoints keep.
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate savepoints list lake.sales.orders
        tidegate savepoints list lake.sales.orders --pins
        tidegate savepoints list /lake/sales/new
    """
    settings = Settings.load(config)
    warehouse, parallel_map = table_work(settings)
    is_location = "/" in subject
    name = table_of(table if is_location else subject)
    location = located(settings, name, subject if is_location else None)
    rule = rule_of(settings.savepoints, name) if name else None
    now = datetime.now(UTC)
    rows = [*savepoints_of(warehouse, location, rule, parallel_map if pins else None)]
    for row in rows:
        row["age"] = age_of(now - row["at"]) if row["at"] else None
        row["unowned"] = row["unowned"] if name else None
    if as_json:
        write_json_lines(rows)
        return
    shown = [_shown(row) for row in rows]
    if not any(row["comment"] for row in rows):
        shown = [{key: row[key] for key in row if key != "comment"} for row in shown]
    write_rows(shown, f"{location} has no savepoint", as_json=False)


def _shown(row: dict[str, Any]) -> dict[str, object]:
    """A savepoint in few columns, for a terminal; --json has every field."""
    retained = [row["tiers"].replace(",", ", ")] if row["tiers"] else []
    if row["kept_for"] is not None:
        retained.append(f"also for {row['kept_for']}")
    if row["expires"] is not None:
        retained.append(f"until {row['expires']:%Y-%m-%d}")
    if row["unowned"]:
        retained.append("unowned")
    if row["state"] != "completed":
        retained.append(row["state"])
    files = {"files": row["files"]}
    if row.get("pinned_bytes") is not None:
        pinned = counted(row["pinned_files"], "file")
        files = {"pins": f"{pinned}, {size(row['pinned_bytes'])}"}
    return {
        "savepoint": row["savepoint"],
        "made": f"{row['age']} ago" if row["age"] else None,
        "by": row["requested_by"],
        "retained": " ".join(retained) or None,
        **files,
        "comment": row["comment"],
    }


@savepoints.command()
@option_group(Requesting)
def remove(
    asking: Requesting, table: str, policy: str, reason: str, location: str | None = None
) -> None:
    """Request the removal of all savepoints of a policy that no rule of the table owns.

    They stay otherwise. One that a person also requested is never removed. To keep the others and
    let a rule end them, name the policy in its `adopts`.

    Options:
        policy: The policy that made them; no rule may own it.

    Examples:
        tidegate savepoints remove -t lake.sales.orders --policy orders
            --reason 'the policy was renamed' --wait
    """
    settings = Settings.load(asking.config)
    warehouse, _ = table_work(settings)
    name, where = table_of(table) or table, located(settings, table, location)
    rule = rule_of(settings.savepoints, name)
    found = [
        row["savepoint"]
        for row in savepoints_of(warehouse, where, rule)
        if row["unowned"] and row["policy"] == policy and row["kept_for"] is None
    ]
    if not found:
        why = f"a rule of {name} owns it, or a person requested it, too"
        raise ConfigError(f"{where} has no savepoint of {policy}, or {why}")
    codes = list[int]()
    for instant in found:
        again = asking.request_id and f"{asking.request_id}-{instant}"
        ask = partial(Publisher.request_savepoint_removal, instant=instant, reason=reason)
        try:
            request(replace(asking, request_id=again), name, ask, location=where)
        except typer.Exit as answered:
            codes.append(answered.exit_code)
    raise typer.Exit(max(codes, default=0))


def simulate(
    table: list[str] | None = None,
    since: str | None = None,
    removed: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show the savepoints that a policy would have made for the commits of the topic.

    Nothing is published or written, and no table is read: which files Hudi cleaned is not known.

    Options:
        table: Only of these: a name, or a pattern like 'lake.s.*'.
        removed: Also those that would be gone again.
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate simulate --table 'lake.sales.*'
        tidegate simulate --since 14d --removed --json | jq .instant
    """
    settings = Settings.load(config)
    tables = tuple(table_pattern(pattern) for pattern in table or ())
    read = EventLog.of(settings).read(COMMITS, EventFilter(tables=tables), since=since_of(since))
    commits = (
        (logged.event, logged.at) for logged in read if isinstance(logged.event, CommitCompleted)
    )
    now = datetime.now(UTC)
    count, there, gone = simulated(settings.savepoints, commits, now)
    rows = list(_rows([*there, *(gone if removed else ())], now))
    write_rows(rows, "no commit would have a savepoint", as_json=as_json)
    if not as_json:
        write(f"{count} commits: {len(there)} savepoints would exist now")


def _rows(savepoints: Iterable[Any], now: datetime) -> Iterable[dict[str, Any]]:
    for found in savepoints:
        savepoint, removed_at = found.savepoint, found.removed_at
        yield {
            "table": found.table,
            "instant": savepoint.instant,
            "policy": savepoint.policy,
            "tiers": ",".join(savepoint.tiers),
            "pinned_since": savepoint.since,
            "age": age_of((removed_at or now) - savepoint.since),
            "removed_at": removed_at,
        }
