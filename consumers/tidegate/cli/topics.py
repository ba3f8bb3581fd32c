"""`tidegate topics`: what they are to be, made so, and compared with what they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidegate.cli.options import ConfigFile
from tidegate.settings import Settings

if TYPE_CHECKING:
    from tidegate.topics import Declared

topics = typer.Typer(help="The topics: declared, created, checked.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]

_PIPE_COLUMNS: Final = 160


@topics.command()
def create(config: ConfigFile = None) -> None:
    """Create the topics that are missing; refuse those that differ from their declaration."""
    from tidegate.services import DECIDERS  # noqa: PLC0415 - heavy
    from tidegate.topics import create_topics  # noqa: PLC0415 - heavy

    settings = Settings.load(config)
    for name, new in create_topics(settings.connection(), settings.topics, DECIDERS).items():
        typer.echo(f"{name}: {'created' if new else 'already there'}")


@topics.command()
def describe(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Show the topics as they are declared. No broker is asked."""
    from tidegate.services import DECIDERS  # noqa: PLC0415 - heavy
    from tidegate.topics import deployment  # noqa: PLC0415 - heavy

    declared = deployment(Settings.load(config).topics, DECIDERS)
    if as_json:
        typer.echo(json.dumps([each.as_json() for each in declared], indent=2))
    else:
        _show(declared)


@topics.command()
def check(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Compare the topics with their declarations: a line a difference, and exit code 1 if any."""
    from tidegate.services import DECIDERS  # noqa: PLC0415 - heavy
    from tidegate.topics import check_topics  # noqa: PLC0415 - heavy

    settings = Settings.load(config)
    found = check_topics(settings.connection(), settings.topics, DECIDERS)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        for each in found or ["the topics are as declared"]:
            typer.echo(str(each))
    raise typer.Exit(1 if found else 0)


@topics.command("acls")
def print_acls(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Print the access rights that every role needs, as kafka-acls commands."""
    from tidegate.services import DECIDERS, EXECUTORS  # noqa: PLC0415 - heavy
    from tidegate.topics.acls import acls  # noqa: PLC0415 - heavy

    prefix = Settings.load(config).topics.prefix
    needed = acls(prefix, deciders=DECIDERS, executors=EXECUTORS)
    if as_json:
        typer.echo(json.dumps([asdict(acl) for acl in needed]))
        return
    for acl in needed:
        typer.echo(acl.command())


def _show(declared: Sequence[Declared]) -> None:
    from rich.console import Console  # noqa: PLC0415 - heavy
    from rich.table import Table  # noqa: PLC0415 - heavy

    table = Table(show_lines=True)
    for title in ("topic", "shape", "written by", "read by", "events"):
        table.add_column(title, overflow="fold")
    for each in declared:
        topic, settings = each.topic, each.topic.settings()
        shape = (
            f"{each.partitions} partitions",
            f"{each.replication} replicas",
            f"kept {topic.retention.days} days" if topic.retention else "kept for ever",
            settings["cleanup.policy"],
            settings["message.timestamp.type"],
        )
        people = (topic.written_by.replace(", ", "\n"), topic.read_by.replace(", ", "\n"))
        events = (kind.__name__ for kind in topic.events)
        table.add_row(each.name, "\n".join(shape), *people, "\n".join(events))
    console = Console()
    # a pipe has no width of its own
    (console if console.is_terminal else Console(width=_PIPE_COLUMNS)).print(table)
