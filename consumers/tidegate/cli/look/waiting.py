"""`tidegate waiting`: which vacuums wait, since when, for which locks, and whose these are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import AsJsonLines, ConfigFile, duration, table_pattern
from tidegate.cli.output import write, write_json
from tidegate.coordinator.subject import moment
from tidegate.coordinator.vacuums import waiting_vacuums
from tidegate.ops.event_log import PATTERN, EventLog
from tidegate.ops.waiting import (
    HeldTable,
    OldestVacuums,
    PendingVacuum,
    QuarantinedDirectories,
    gate_stores,
    holds_and_quarantines,
)
from tidegate.service.settings import Settings

_HOLDS: Final = 10
_ANY_TIME: Final = datetime.max.replace(tzinfo=UTC)


def waiting(
    table: Annotated[
        str | None,
        typer.Option(
            "--table", "-t", help="Only of this one: a name, or a pattern like 'lake.s.*'."
        ),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Only those that have waited this long, e.g. 1h.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="List at most this many, the oldest; --json lists all.")
    ] = 100,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with code 1 if any is listed, for an alarm.")
    ] = False,
    as_json: AsJsonLines = False,
    config: ConfigFile = None,
) -> None:
    """Show the vacuums that wait for readers, oldest first, with their outstanding holds.

    With --json they come in the order in which they are stored.

    Tables on hold (`tidegate hold`) and directories in quarantine follow. Times are the broker's.
    The list comes from the coordinator's rows; events that it has not read yet are
    missing (see `tidegate status` for its lag).

    Examples:
        tidegate waiting --older-than 1h --check
        tidegate waiting --table lake.sales.orders
        tidegate waiting --json | jq -r '.outstanding[].owner' | sort | uniq -c
    """
    latest = datetime.now(UTC) - duration(older_than) if older_than else _ANY_TIME
    pattern = None if table is None else table_pattern(table)
    settings = Settings.load(config)
    stores = gate_stores(settings, pattern)
    if as_json:
        count = 0
        for store in stores:
            for vacuum in waiting_vacuums(store):
                if moment(vacuum.since) <= latest:
                    write_json(PendingVacuum.of(vacuum, store))
                    count += 1
    else:
        oldest = OldestVacuums(limit, lambda vacuum: moment(vacuum.since) <= latest)
        others: list[HeldTable | QuarantinedDirectories] = []
        for store in stores:
            oldest.take(store)
            others += holds_and_quarantines(store)
        count = oldest.count
        chosen = table is not None or older_than is not None
        nothing = "no such vacuum waits" if chosen else "no vacuum waits"
        if pattern is not None and not (count or others or PATTERN & set(pattern)):
            EventLog.of(settings).check_named(pattern, "no vacuum of it waits")
        _show(oldest, nothing)
        for line in sorted(map(str, others)):
            write(line)
    if check and count:
        raise typer.Exit(ExitCode.FAILED)


def _show(found: OldestVacuums, nothing: str) -> None:
    show_vacuums(found.vacuums, datetime.now(UTC))
    if not found.count:
        write(nothing)
    elif found.count > (listed := len(found.vacuums)):
        write(f"only the oldest {listed} of {found.count} are listed; use --limit or --table")


def show_vacuums(found: Sequence[PendingVacuum], now: datetime, indent: str = "") -> None:
    """Print waiting vacuums with their outstanding holds."""
    for vacuum in found:
        write(f"{indent}{headline(vacuum, now)}")
        for hold in vacuum.outstanding[:_HOLDS]:
            write(f"{indent}    waits for {hold}")
        if len(vacuum.outstanding) > _HOLDS:
            write(
                f"{indent}    ... and for {len(vacuum.outstanding) - _HOLDS} more; --json lists all"
            )
        if vacuum.held_by:
            write(f"{indent}    held by {vacuum.held_by}")
        elif not vacuum.outstanding:
            write(f"{indent}    waits for nothing more: it goes with the table's next event")


def headline(vacuum: PendingVacuum, now: datetime) -> str:
    """One line on a waiting vacuum: table, age, what it made, how many readers it waits for."""
    where = f"/{vacuum.partition}" if vacuum.partition else ""
    made = ", ".join(vacuum.directories[:3])
    since = f"{vacuum.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    readers = f"waits for {len(vacuum.outstanding)} of {vacuum.holds} readers"
    age = age_of(now - vacuum.since) + (", overdue" if vacuum.overdue_since else "")
    return f"{vacuum.table}{where}  {vacuum.kind} {made}  since {since} ({age})  {readers}"


def age_of(span: timedelta) -> str:
    """A duration in its largest unit and the next: 3d 4h, 1m 30s, 5s."""
    seconds = max(0, int(span.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days}d {hours % 24}h"
    if hours:
        return f"{hours}h {minutes % 60}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"
