"""`tidegate status` and `tidegate waiting`: what needs a person, and what waits for readers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import duration, since_of, table_pattern
from tidegate.cli.output import (
    clear_screen,
    write,
    write_error,
    write_json,
    write_styled,
    write_table,
)
from tidegate.coordinator.vacuums import waiting_vacuums
from tidegate.errors import TransientError
from tidegate.events.fields import from_ms
from tidegate.ops.event_log import PATTERN, EventLog, LoggedEvent
from tidegate.ops.status import newest, read_status
from tidegate.ops.summary import age_of, counted, line_of, size
from tidegate.ops.waiting import (
    OldestVacuums,
    PendingVacuum,
    gate_stores,
    held_line,
    held_tables,
    quarantine_line,
    quarantined,
    removable_line,
)
from tidegate.service.settings import Settings

_HOLDS: Final = 10
_ANY_TIME: Final = datetime.max.replace(tzinfo=UTC)


def waiting(
    table: str | None = None,
    older_than: str | None = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    check: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show the vacuums that wait for readers, oldest first, with their outstanding holds.

    With --json they come in the order in which they are stored.

    Tables on hold (`tidegate hold`) and directories in quarantine follow. Times are the broker's.
    The list comes from the coordinator's rows; events that it has not read yet are
    missing (see `tidegate status` for its lag).

    Options:
        table: Only of this one: a name, or a pattern like 'lake.s.*'.
        older_than: Only those that have waited this long, e.g. 1h.
        limit: List at most this many, the oldest; --json lists all.
        check: Exit with code 1 if any is listed, for an alarm.
        as_json: Print a JSON object a line, for scripts.

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
                if from_ms(vacuum.since) <= latest:
                    write_json(PendingVacuum.of(vacuum, store))
                    count += 1
    else:
        oldest = OldestVacuums(limit, lambda vacuum: from_ms(vacuum.since) <= latest)
        others: list[str] = []
        for store in stores:
            oldest.take(store)
            others += map(settings.security.suggested, map(removable_line, held_tables(store)))
            others += map(quarantine_line, quarantined(store))
        count = oldest.count
        chosen = table is not None or older_than is not None
        nothing = "no such vacuum waits" if chosen else "no vacuum waits"
        if pattern is not None and not (count or others or PATTERN & set(pattern)):
            EventLog.of(settings).check_named(pattern, "no vacuum of it waits")
        _show_oldest(oldest, nothing)
        for line in sorted(others):
            write(line)
    if check and count:
        raise typer.Exit(ExitCode.FAILED)


def _show_oldest(found: OldestVacuums, nothing: str) -> None:
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
        if not vacuum.outstanding:
            until = "the hold of its table is removed" if vacuum.held_by else "the next event of it"
            write(f"{indent}    waits until {until}")


def headline(vacuum: PendingVacuum, now: datetime) -> str:
    """One line on a waiting vacuum: table, age, what it made, how many readers it waits for."""
    where = f"/{vacuum.partition}" if vacuum.partition else ""
    made = ", ".join(vacuum.directories[:3])
    since = f"{vacuum.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    left, count = len(vacuum.outstanding), vacuum.holds
    readers = f"waits for {left} of {count} readers" if left else f"all {count} readers have ended"
    age = age_of(now - vacuum.since) + (", overdue" if vacuum.overdue_since else "")
    return f"{vacuum.table}{where}  {vacuum.kind} {made}  since {since} ({age})  {readers}"


def status(
    since: str = "7d",
    watch: Annotated[bool, typer.Option("--watch", "-w")] = False,
    every: str = "5s",
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show how the deployment is. Exit code 1 if a service does not run or has dead letters.

    It asks Kafka, never a service. Lag is the number of records that a service has not committed.

    Options:
        since: How far back outcomes are counted: 7d, or a time.
        watch: Repeat it until Ctrl-C.
        every: With --watch: how often, e.g. 10s.

    Examples:
        tidegate status
        tidegate status --watch --every 10s
        tidegate status --json | jq '.services[] | select(.lag > 0)'
    """
    settings, pause = Settings.load(config), duration(every).total_seconds()
    while True:
        now = datetime.now(UTC)
        try:
            found = read_status(settings, since_of(since) or now, now)
        except TransientError as error:
            if not watch:
                raise
            write_error(str(error))  # an outage is what one watches for
        else:
            if watch and not as_json:
                clear_screen()
            write_json(found) if as_json else _show(found)
            if not watch:
                raise typer.Exit(any(service["problem"] for service in found["services"]))
        time.sleep(pause)


def _show(found: Mapping[str, Any]) -> None:
    now, moved, oldest = found["at"], found["quarantined"], found["oldest_waiting"]
    write("needs a person:" if found["needs"] else "nothing needs a person")
    for line in found["needs"]:
        write_styled((f"  {line}", "red"))
    write_table(
        [
            {name: value for name, value in service.items() if name != "last_poll"}
            | {
                "members": len(service["members"]),
                "last_outcome": _last(service, now),
                "problem": service["problem"] or "",
            }
            for service in found["services"]
        ]
    )
    count = found["waiting"]
    if count is None:
        write("waiting vacuums: unknown, see above")
    elif count == 0:
        write("no vacuum waits")
    else:
        write("1 vacuum waits:" if count == 1 else f"{count} vacuums wait; the oldest:")
    if oldest:
        show_vacuums([oldest], now, indent="  ")
    for hold in found["held"]:
        write(held_line(hold))
    if moved:
        directories = sum(row["directories"] for row in moved)
        write(
            f"in quarantine: {counted(directories, 'directory')} of"
            f" {counted(len(moved), 'cleaning')}, {size(sum(row['bytes'] for row in moved))};"
            f" the first to be removed: {quarantine_line(moved[0])}"
        )
    for line in newest([f"under way: {line_of(it)}" for it in found["running"]], "tasks"):
        write(line)
    write(
        f"since {found['since']:%Y-%m-%dT%H:%M:%SZ}:"
        f" {counted(found['savepoints_made'], 'savepoint')} made,"
        f" {found['savepoints_removed']} removed; {counted(found['refused'], 'request')} refused,"
        f" {found['failed']} failed"
    )


def _last(service: Mapping[str, Any], now: datetime) -> str:
    logged: LoggedEvent | None = service["last_outcome"]
    if (polled := service["last_poll"]) is not None:
        return f"polled {age_of(now - polled)} ago"
    if logged is None or logged.event is None:
        return "-"
    return f"{type(logged.event).__name__} {age_of(now - logged.at)} ago"
