"""`tidegate status`: services, lag, waiting vacuums, requests and savepoints at a glance."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from tidegate.cli.look.waiting import age_of, show_vacuums
from tidegate.cli.options import AsJson, ConfigFile, since_of
from tidegate.cli.output import (
    clear_screen,
    is_terminal,
    write,
    write_error,
    write_json,
    write_styled,
    write_table,
)
from tidegate.cli.progress import drawn, share_of
from tidegate.errors import TransientError
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.moments import duration
from tidegate.ops.status import Snapshot, read_snapshot
from tidegate.ops.status.recent import SavedTable
from tidegate.service.settings import Settings

_SAVED: Final = 20


def status(
    since: Annotated[
        str, typer.Option(help="How far back outcomes are counted: 7d, or a time.")
    ] = "7d",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again.")] = False,
    every: Annotated[str, typer.Option(help="With --watch: how often, e.g. 10s.")] = "5s",
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show how the deployment is. Exit code 1 if a service does not run or has dead letters.

    It asks Kafka, never a service. Lag is the number of records that a service has not committed.
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
    needs = snapshot.needs()
    write("needs a person:" if needs else "nothing needs a person")
    for line in needs:
        write_styled((f"  {line}", "red")) if is_terminal() else write(f"  {line}")
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
    for running, line in zip(snapshot.running, snapshot.running_lines(), strict=True):
        write(f"under way: {line}")
        share = share_of(running.event) if is_terminal() else None
        if share is not None:
            write(f"    {drawn(share)}")
    for saved in snapshot.saved[-_SAVED:]:
        write(f"savepoints of {saved.table}: {_saved(saved, snapshot.at)}")
    if len(snapshot.saved) > _SAVED:
        write(f"... and of {len(snapshot.saved) - _SAVED} more tables; --json lists all")
    refused, failed = snapshot.refused, snapshot.failed
    write(f"since {snapshot.since:%Y-%m-%dT%H:%M:%SZ}: {refused} refused, {failed} failed")


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


def _saved(saved: SavedTable, now: datetime) -> str:
    """What the outcomes say of a table's savepoints; `savepoints list` reads the table itself."""
    removed = f", {saved.removed} removed" if saved.removed else ""
    said, newest = f"{saved.written} written{removed}", saved.newest_saved
    if newest is None:
        return said
    by = f" requested by {newest.requested_by}" if newest.requested_by else ""
    return f"{said}, the newest {saved.newest} {age_of(now - newest.at)} ago{by}"


def _last(logged: LoggedEvent | None, now: datetime) -> str:
    if logged is None or logged.event is None:
        return "-"
    return f"{type(logged.event).__name__} {age_of(max(now - logged.at, timedelta()))} ago"
