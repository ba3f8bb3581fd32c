"""`tidegate status`: services, lag, waiting vacuums, requests and savepoints at a glance."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tidegate.cli.look.waiting import age_of, show_vacuums
from tidegate.cli.options import AsJson, ConfigFile, duration, since_of
from tidegate.cli.output import (
    clear_screen,
    write,
    write_error,
    write_json,
    write_styled,
    write_table,
)
from tidegate.errors import TransientError
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.status import Snapshot, by_time, read_snapshot
from tidegate.ops.summary import counted, line_of
from tidegate.service.settings import Settings


def status(
    since: Annotated[
        str, typer.Option(help="How far back outcomes are counted: 7d, or a time.")
    ] = "7d",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat it until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(help="With --watch: how often, e.g. 10s.")] = "5s",
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show how the deployment is. Exit code 1 if a service does not run or has dead letters.

    It asks Kafka, never a service. Lag is the number of records that a service has not committed.

    Examples:
        tidegate status
        tidegate status --watch --every 10s
        tidegate status --json | jq '.services[] | select(.lag > 0)'
    """
    settings, pause = Settings.load(config), duration(every).total_seconds()
    while True:
        now = datetime.now(UTC)
        try:
            snapshot = read_snapshot(settings, since_of(since) or now, now)
        except TransientError as error:
            if not watch:
                raise
            write_error(str(error))  # an outage is what one watches for
        else:
            if watch and not as_json:
                clear_screen()
            write_json(snapshot.as_json()) if as_json else _show(snapshot)
            if not watch:
                raise typer.Exit(1 if any(service.problem for service in snapshot.services) else 0)
        time.sleep(pause)


def _show(snapshot: Snapshot) -> None:
    needs, recent = snapshot.needs(), snapshot.recent
    write("needs a person:" if needs else "nothing needs a person")
    for line in needs:
        write_styled((f"  {line}", "red"))
    write_table(
        [
            {
                "service": service.name,
                "members": len(service.members),
                "lag": service.lag,
                "dead_letters": service.dead_letters,
                "last_outcome": _last(service.last_outcome, snapshot.at),
                "problem": service.problem,
            }
            for service in snapshot.services
        ]
    )
    if snapshot.oldest_waiting:
        count = snapshot.waiting
        write("1 vacuum waits:" if count == 1 else f"{count} vacuums wait; the oldest:")
        show_vacuums([snapshot.oldest_waiting], snapshot.at, indent="  ")
    else:
        write("no vacuum waits")
    _show_holds_and_quarantines(snapshot)
    for running in by_time(recent.running):
        write(f"under way: {line_of(running)}")
    write(
        f"since {snapshot.since:%Y-%m-%dT%H:%M:%SZ}: {counted(recent.savepoints_made, 'savepoint')}"
        f" made, {recent.savepoints_removed} removed; {counted(recent.refused, 'request')} refused,"
        f" {recent.failed} failed"
    )


def _show_holds_and_quarantines(snapshot: Snapshot) -> None:
    for held in snapshot.held:
        write(str(held))
    if snapshot.quarantined:
        directories = sum(quarantine.directories for quarantine in snapshot.quarantined)
        size = sum(quarantine.bytes for quarantine in snapshot.quarantined)
        write(
            f"in quarantine: {directories} directories of {len(snapshot.quarantined)} cleanings,"
            f" {size} bytes; the first to be removed: {snapshot.quarantined[0]}"
        )


def _last(logged: LoggedEvent | None, now: datetime) -> str:
    if logged is None or logged.event is None:
        return "-"
    return f"{type(logged.event).__name__} {age_of(max(now - logged.at, timedelta()))} ago"
