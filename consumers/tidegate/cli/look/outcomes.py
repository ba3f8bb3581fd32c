"""`tidegate outcomes`: the audit trail, what was done or refused, by whom and why."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tidegate.cli.options import ConfigFile, Since, one_of, since_of, table_pattern
from tidegate.cli.output import write, write_json
from tidegate.events.catalogue import OUTCOMES
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.ops.event_log.summary import line_of, row_of
from tidegate.service.settings import Settings

_KINDS: Final = tuple(kind.__name__ for kind in OUTCOMES)
_USUAL: Final = 100


def outcomes(
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="Only of these: a name, or a pattern like 'lake.s.*'."),
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help=f"Only of these kinds: {', '.join(_KINDS)}.")
    ] = None,
    since: Since = None,
    caused_by: Annotated[
        str | None, typer.Option(help="Only those of this command; its id may be abbreviated.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"At most this many, the newest; default: {_USUAL}, with --since or --json all.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a line, with the whole event.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Show what was done or refused, oldest first: when, on which table, why, and who asked."""
    wanted = EventFilter(
        tables=tuple(table_pattern(pattern) for pattern in table or ()),
        kinds=frozenset(one_of(_KINDS, name) for name in kind or ()),
        caused_by=caused_by,
    )
    if limit is None and since is None and not as_json:
        limit = _USUAL
    log = EventLog.of(Settings.load(config))
    for logged in log.read(wanted=wanted, since=since_of(since), limit=limit, follow=follow):
        if logged is not None:
            write_json(row_of(logged)) if as_json else write(line_of(logged))
