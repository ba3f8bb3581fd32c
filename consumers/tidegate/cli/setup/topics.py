"""`tidegate topics`, `schemas`, `asyncapi`: topics, their contract, and who may write."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import one_of
from tidegate.cli.output import write, write_blocks, write_json, write_json_lines
from tidegate.errors import ConfigError
from tidegate.events.topics import EVENT_TYPES
from tidegate.ops.acls import acls
from tidegate.ops.contract import asyncapi as document_of
from tidegate.ops.contract import example_of, export_schemas
from tidegate.ops.topics import check_topics, create_topics
from tidegate.service.settings import Settings
from tidegate.service.topics import DeclaredTopic, deployment

topics = typer.Typer(help="Describe, create and check topics.", no_args_is_help=True)


@topics.command()
def create(as_json: bool = False, config: Path | None = None) -> None:
    """Create missing topics; refuse existing topics that differ from their declarations.

    Options:
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate topics create
    """
    settings = reachable(config)
    for name, new in create_topics(settings.connection(), settings.topics).items():
        if as_json:
            write_json({"topic": name, "created": new})
        else:
            write(f"{name}: {'created' if new else 'exists already'}")


@topics.command()
def describe(as_json: bool = False, config: Path | None = None) -> None:
    """Show the declared topics, without contacting a broker.

    Options:
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate topics describe --json | jq .topic
    """
    declared = deployment(Settings.load(config).topics)
    if as_json:
        write_json_lines(topic.as_json() for topic in declared)
        return
    write_blocks([_described(topic) for topic in declared])


@topics.command()
def check(as_json: bool = False, config: Path | None = None) -> None:
    """Compare topics with their declarations: one line per difference; exit code 1 if any.

    Options:
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate topics check
    """
    settings = reachable(config)
    found = check_topics(settings.connection(), settings.topics)
    if as_json:
        write_json_lines(found)
    else:
        for difference in found or ["the topics are as declared"]:
            write(str(difference))
    raise typer.Exit(1 if found else 0)


@topics.command("acls")
def print_acls(config: Path | None = None, as_json: bool = False) -> None:
    """Print the access rights that every role needs, as kafka-acls commands.

    The principals are those of [security.principals], else `User:` and the role's name.

    Options:
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate topics acls
    """
    settings = Settings.load(config)
    needed = acls(settings.topics.prefix, principals=settings.security.principals)
    if as_json:
        write_json_lines(needed)
        return
    for acl in needed:
        write(acl.command())


def _described(declared: DeclaredTopic) -> dict[str, object]:
    topic, settings = declared.topic, declared.settings()
    return {
        "topic": declared.name,
        "partitions": declared.partitions,
        "replicas": declared.replication,
        "retention": f"{topic.retention.days} days" if topic.retention else "forever",
        "cleanup": settings["cleanup.policy"],
        "timestamps": settings["message.timestamp.type"],
        "written by": topic.written_by,
        "read by": topic.read_by,
        "events": [kind.__name__ for kind in topic.events],
    }


schemas = typer.Typer(help="Avro schemas of the events.", no_args_is_help=True)


@schemas.callback()
def _group() -> None:
    """Avro schemas of the events."""  # without a callback typer makes `export` the command itself


@schemas.command()
def export(folder: Path, as_json: bool = False) -> None:
    """Write the Avro schema of every event as an .avsc file.

    Positional:
        folder: Target directory; created if missing.

    Options:
        as_json: Print a JSON object a line, for scripts.

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


def asyncapi(config: Path | None = None) -> None:
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
