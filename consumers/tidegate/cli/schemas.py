"""`tidegate schemas` and `tidegate asyncapi`: the contract, for those who write or read events."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.options import ConfigFile
from tidegate.contract import export_schemas
from tidegate.errors import ConfigError
from tidegate.events.asyncapi import asyncapi
from tidegate.settings import Settings

schemas = typer.Typer(help="The Avro schemas of the events.", no_args_is_help=True)


@schemas.callback()
def _group() -> None:
    """Keep `export` a subcommand: typer would merge a group of one."""


@schemas.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Where to write them; made if it is not there.")],
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Write the Avro schema of every event, one .avsc file each."""
    try:
        files = [str(file) for file in export_schemas(folder)]
    except OSError as error:
        raise ConfigError(f"{folder}: {error}") from error
    typer.echo(json.dumps(files) if as_json else f"{len(files)} schemas in {folder}")


def print_asyncapi(config: ConfigFile = None) -> None:
    """Print the AsyncAPI 3.0 document of this deployment."""
    topics = Settings.load(config).topics
    document = asyncapi(version("tidegate"), topics.prefix, topics.partitions, topics.replication)
    typer.echo(json.dumps(document, indent=2))
