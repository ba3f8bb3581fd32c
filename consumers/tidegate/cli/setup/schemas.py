"""`tidegate schemas` and `tidegate asyncapi`: the contract for writers and readers of events."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.options import AsJsonLines, ConfigFile, one_of
from tidegate.cli.output import write, write_json, write_json_lines
from tidegate.errors import ConfigError
from tidegate.events.topics import EVENT_TYPES
from tidegate.ops.asyncapi import asyncapi as document_of
from tidegate.ops.contract import example_of, export_schemas
from tidegate.service.settings import Settings

schemas = typer.Typer(help="Avro schemas of the events.", no_args_is_help=True)


@schemas.callback()
def _group() -> None:
    """Avro schemas of the events."""  # without a callback typer makes `export` the command itself


@schemas.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Target directory; created if missing.")],
    as_json: AsJsonLines = False,
) -> None:
    """Write the Avro schema of every event as an .avsc file.

    Examples:
        tidegate schemas export ./schemas
    """
    try:
        files = [str(file) for file in export_schemas(folder)]
    except OSError as error:
        raise ConfigError(f"{folder}: {error}") from error
    if as_json:
        write_json_lines({"file": file} for file in files)
    else:
        write(f"{len(files)} schemas in {folder}")


@schemas.command()
def example(kind: Annotated[str, typer.Argument(help=f"{', '.join(EVENT_TYPES)}.")]) -> None:
    """Print a valid event of a kind as JSON, to start from.

    The id of an event derives from its content. Give a request an id of its own.

    Examples:
        tidegate schemas example VacuumFinished > vacuum.json
    """
    write_json(example_of(one_of(EVENT_TYPES, kind, "event")), indent=2)


def asyncapi(config: ConfigFile = None) -> None:
    """Print the AsyncAPI 3.0 document of this deployment.

    Examples:
        tidegate asyncapi > asyncapi.json
    """
    settings = Settings.load(config)
    topics, kafka = settings.topics, settings.kafka
    is_secure = "SSL" in str(kafka.get("security.protocol", "")).upper()
    brokers = f"{'ssl://' if is_secure else ''}{kafka.get('bootstrap.servers', '')}"
    sizes = topics.partitions, topics.replication
    write_json(document_of(version("tidegate"), topics.prefix, *sizes, brokers), indent=2)
