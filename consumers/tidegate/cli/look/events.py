"""`tidegate outcomes` and `tidegate events`: the events of a topic, decoded, as they come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Final

import typer

from tidegate.cli.options import one_of, since_of, table_pattern
from tidegate.cli.output import write, write_error, write_json
from tidegate.errors import ConfigError
from tidegate.events.topics import OUTCOMES, TOPICS
from tidegate.ops.event_log import EventFilter, EventLog, LoggedEvent
from tidegate.ops.summary import line_of
from tidegate.service.settings import Settings

_KINDS: Final = tuple(kind.__name__ for kind in OUTCOMES)
_USUAL: Final = 100
_TOPICS: Final = ("outcomes", "commits", "vacuums", "locks", "requests", "tasks")


events = typer.Typer(help="The events of a topic, decoded.", no_args_is_help=True)


@events.callback()
def _group() -> None:
    """The events of a topic, decoded."""  # without a callback typer makes `tail` the command


@events.command()
def tail(
    topic: Annotated[str, typer.Option(help=f"{', '.join(_TOPICS)}.")] = "outcomes",
    table: list[str] | None = None,
    since: str | None = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0)] = 10,
    follow: bool = True,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Print the last events of a topic, then new ones as they come, until Ctrl-C.

    It joins no group and moves no offset. With --since, all events from then on are printed.

    Options:
        table: Only of these: a name, or a pattern like 'lake.s.*'.
        limit: How many of the present ones to print.
        follow: Go on with new events until Ctrl-C; or end after these.
        as_json: Print a JSON object a line, with the whole event.

    Examples:
        tidegate events tail --topic commits
        tidegate events tail -t lake.sales.orders --no-follow --json | jq .event
    """
    wanted = EventFilter(tables=tuple(table_pattern(pattern) for pattern in table or ()))
    suffix = one_of(_TOPICS, topic, "topic")
    log = EventLog.of(Settings.load(config))
    found = (log.follow if follow else log.read)(
        next(declared for declared in TOPICS if declared.suffix == suffix),
        wanted,
        since=since_of(since),
        limit=limit if since is None else None,
    )
    _write_events(found, log, wanted, as_json=as_json, follow=follow)


def outcomes(
    table: list[str] | None = None,
    kind: Annotated[
        list[str] | None, typer.Option(help=f"Only of these kinds: {', '.join(_KINDS)}.")
    ] = None,
    since: str | None = None,
    caused_by: str | None = None,
    failed: bool = False,
    follow: Annotated[bool, typer.Option("--follow", "-f")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"At most this many, the newest; default: {_USUAL}, with --since or --json all.",
        ),
    ] = None,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show what was done or refused, oldest first: when, on which table, why, and who asked.

    Options:
        table: Only of these: a name, or a pattern like 'lake.s.*'.
        caused_by: Only those of this command; its id may be abbreviated.
        failed: Only of requests that failed or were refused.
        follow: Go on with what comes, until Ctrl-C.
        as_json: Print a JSON object a line, with the whole event.

    Examples:
        tidegate outcomes --failed --since 2d
        tidegate outcomes --table lake.sales.orders --limit 20
        tidegate outcomes -t 'lake.sales.*' --kind RestoreRejected --kind CleaningRefused
        tidegate outcomes --follow --json | jq .reason
    """
    wanted = EventFilter(
        tables=tuple(table_pattern(pattern) for pattern in table or ()),
        kinds=frozenset(one_of(_KINDS, name) for name in kind or ()),
        caused_by=caused_by,
        failed=failed,
        is_brief=not kind and not as_json,
    )
    if limit is None and since is None and not as_json:
        limit = _USUAL
    log = EventLog.of(Settings.load(config))
    read = log.follow if follow else log.read
    found = read(wanted=wanted, since=since_of(since), limit=limit)
    _write_events(found, log, wanted, as_json=as_json, follow=follow)


def _write_events(
    found: Iterable[LoggedEvent | None],
    log: EventLog,
    wanted: EventFilter,
    *,
    as_json: bool,
    follow: bool,
) -> None:
    """Print each event as it comes, or a line for people where no event matches so far.

    Raises:
        ConfigError: no event matches, and one of the tables is named by none.
    """
    is_first = True
    for logged in chain(found, (None,)):
        if logged is not None:
            write_json(logged) if as_json else write(line_of(logged))
        elif is_first and not as_json:
            write_error("no event matches" + (" so far" if follow else ""))
            for name in wanted.exact_tables or ():
                try:
                    log.check_named(name, "it is shown once one does")
                except ConfigError as unknown:
                    if not follow:
                        raise
                    write_error(f"note: {unknown}")
        is_first = False
