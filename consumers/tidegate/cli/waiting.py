"""`tidegate waiting`: which vacuums wait, since when, for which locks, and whose these are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import AsJsonLines, ConfigFile, table_pattern
from tidegate.cli.output import write, write_json
from tidegate.service.settings import Settings

if TYPE_CHECKING:
    from tidegate.ops.waiting import HeldTable, KeptCleaning, LackingVacuum

_HOLDS: Final = 10


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
    """Show the vacuums that wait for readers, oldest first, and which holds they still lack.

    After them come the tables that somebody holds (`tidegate hold`), and what is in quarantine.
    Times are the broker's. It reads what the reader gate has stored: what the gate has not read
    yet is not in it (see `tidegate status` for its lag).
    """
    from tidegate.ops.moments import duration  # noqa: PLC0415 - heavy
    from tidegate.ops.waiting import gate_stores, held_and_kept, lacking_vacuums  # noqa: PLC0415

    span = duration(older_than) if older_than else timedelta()
    now = datetime.now(UTC)
    pattern = None if table is None else table_pattern(table)
    found: list[LackingVacuum] = []
    others: list[HeldTable | KeptCleaning] = []
    for store in gate_stores(Settings.load(config), pattern):
        vacuums = lacking_vacuums(store)
        found += [each for each in vacuums if now - each.since >= span or not older_than]
        others += held_and_kept(store)
    found.sort(key=lambda each: (each.since, each.event_id))
    if as_json:
        for each in found:
            write_json(each.as_json())
    else:
        _show(found, limit, now)
        for line in sorted(map(str, others)):
            write(line)
    if check and found:
        raise typer.Exit(ExitCode.FAILED)


def _show(found: Sequence[LackingVacuum], limit: int, now: datetime) -> None:
    show_vacuums(found[:limit], now)
    if not found:
        write("no vacuum waits")
    elif len(found) > limit:
        write(f"only the oldest {limit} of {len(found)} are listed; use --limit or --table")


def show_vacuums(found: Sequence[LackingVacuum], now: datetime, indent: str = "") -> None:
    """Print waiting vacuums, each with the holds that it lacks."""
    for each in found:
        write(f"{indent}{headline(each, now)}")
        for hold in each.lacks[:_HOLDS]:
            write(f"{indent}    waits for {hold}")
        if len(each.lacks) > _HOLDS:
            write(f"{indent}    ... and for {len(each.lacks) - _HOLDS} more; --json lists all")
        if each.held_by:
            write(f"{indent}    held by {each.held_by}")
        elif not each.lacks:
            write(f"{indent}    waits for nothing more: it goes with the table's next event")


def headline(vacuum: LackingVacuum, now: datetime) -> str:
    """One line on a waiting vacuum: table, age, what it made, how many holds are left."""
    where = f"/{vacuum.partition}" if vacuum.partition else ""
    made = ", ".join(vacuum.directories[:3])
    since = f"{vacuum.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    holds = f"{len(vacuum.lacks)} of {vacuum.holds} holds left"
    age = age_of(now - vacuum.since) + (", overdue" if vacuum.overdue_since else "")
    return f"{vacuum.table}{where}  {vacuum.kind} {made}  since {since} ({age})  {holds}"


def age_of(span: timedelta) -> str:
    """A duration in its largest unit and the next: 3d 4h, 1m 30s, 5s."""
    seconds = max(0, int(span.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days}d {hours % 24}h"
    if hours:
        return f"{hours}h {minutes % 60}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"
