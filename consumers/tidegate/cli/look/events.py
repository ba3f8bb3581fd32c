"""`tidegate events`: the events of any topic, decoded, as they come."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tidegate.cli.options import ConfigFile, Since, one_of, since_of, table_pattern
from tidegate.cli.output import write, write_json
from tidegate.events.topics import TOPICS
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.ops.event_log.summary import line_of, row_of
from tidegate.service.settings import Settings

_TOPICS: Final = ("outcomes", "commits", "vacuums", "locks", "commands")

events = typer.Typer(help="The events of a topic, decoded.", no_args_is_help=True)


@events.callback()
def _group() -> None:
    """The events of a topic, decoded."""  # without a callback typer makes `tail` the command


@events.command()
def tail(
    topic: Annotated[str, typer.Option(help=f"{', '.join(_TOPICS)}.")] = "outcomes",
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="Only of these: a name, or a pattern like 'lake.s.*'."),
    ] = None,
    since: Since = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="How many of the present ones to print.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option(help="Go on with new events until Ctrl-C; or end after these.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a line, with the whole event.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Print the last events of a topic, then new ones as they come, until Ctrl-C.

    It joins no group and moves no offset. With --since, all events from then on are printed.
    """
    wanted = EventFilter(tables=tuple(table_pattern(pattern) for pattern in table or ()))
    suffix = one_of(_TOPICS, topic, "topic")
    log = EventLog.of(Settings.load(config))
    for logged in log.read(
        next(declared for declared in TOPICS if declared.suffix == suffix),
        wanted,
        since=since_of(since),
        limit=limit if since is None else None,
        follow=follow,
    ):
        if logged is not None:
            write_json(row_of(logged)) if as_json else write(line_of(logged))
