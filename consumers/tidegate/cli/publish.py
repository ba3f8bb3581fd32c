"""`tidegate publish`: say on Kafka what was done, or ask for something, from a shell."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.options import ConfigFile, Location, TableName, read_event
from tidegate.errors import ConfigError
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.publisher import Publisher, Receipt
from tidegate.settings import Settings

publish = typer.Typer(
    help="Publish an event; returns when the broker has it.", no_args_is_help=True
)
SaidBy = Annotated[str, typer.Option(help="The application that speaks.")]
CLI = "tidegate-cli"


@publish.command()
def commit(
    table: TableName,
    location: Location,
    instant: Annotated[str, typer.Option(help="The completed instant.")],
    action: Annotated[str, typer.Option(help="commit, deltacommit, replacecommit ...")] = "commit",
    said_by: SaidBy = CLI,
    config: ConfigFile = None,
) -> None:
    """Say that a commit was completed on a Hudi table."""
    with _publisher(config, said_by) as publisher:
        _tell(publisher.commit(table=table, location=location, instant=instant, action=action))


@publish.command()
def lock_released(
    table: TableName,
    location: Location,
    lock_id: Annotated[int | None, typer.Option(help="The metastore's lock id.")] = None,
    transaction_id: Annotated[int | None, typer.Option(help="Its transaction.")] = None,
    reason: Annotated[str, typer.Option(help="unlocked, committed, aborted, expired")] = "unlocked",
    said_by: SaidBy = CLI,
    config: ConfigFile = None,
) -> None:
    """Say that a lock or a transaction ended on a table."""
    with _publisher(config, said_by) as publisher:
        _tell(
            publisher.lock_released(
                table=table,
                location=location,
                lock_id=lock_id,
                transaction_id=transaction_id,
                reason=reason,
            )
        )


@publish.command()
def savepoint(
    table: TableName,
    location: Location,
    instant: Annotated[str | None, typer.Option(help="Default: the newest completed.")] = None,
    comment: Annotated[str, typer.Option(help="Kept in the savepoint.")] = "",
    requested_by: Annotated[str | None, typer.Option(help="Default: you.")] = None,
    config: ConfigFile = None,
) -> None:
    """Ask for a savepoint on a Hudi table."""
    with _publisher(config, CLI) as publisher:
        _tell(
            publisher.request_savepoint(
                table=table,
                location=location,
                instant=instant,
                comment=comment,
                requested_by=requested_by or getpass.getuser(),
            )
        )


@publish.command()
def restore(
    table: TableName,
    location: Location,
    savepoint: Annotated[str, typer.Option(help="The savepoint to return to.")],
    reason: Annotated[str, typer.Option(help="Why, for the audit trail.")],
    requested_by: Annotated[str | None, typer.Option(help="Default: you.")] = None,
    plan_only: Annotated[bool, typer.Option(help="Publish the plan, change nothing.")] = False,
    expected_plan: Annotated[str | None, typer.Option(help="Refuse any other plan.")] = None,
    config: ConfigFile = None,
) -> None:
    """Ask for a restore: every commit after the savepoint is destroyed."""
    with _publisher(config, CLI) as publisher:
        _tell(
            publisher.request_restore(
                table=table,
                location=location,
                savepoint=savepoint,
                reason=reason,
                requested_by=requested_by or getpass.getuser(),
                plan_only=plan_only,
                expected_plan=expected_plan,
            )
        )


@publish.command()
def event(
    kind: Annotated[str, typer.Argument(help="VacuumFinished, CommitCompleted ...")],
    file: Annotated[Path, typer.Argument(help="JSON of one event, - for standard input.")],
    config: ConfigFile = None,
) -> None:
    """Publish any event from JSON (a VacuumFinished, with its holds, above all)."""
    if kind not in EVENT_TYPES:
        raise ConfigError(f"there is no event {kind}; there are {', '.join(EVENT_TYPES)}")
    ready = read_event(EVENT_TYPES[kind], file)
    with _publisher(config, CLI) as publisher:
        _tell(publisher.publish(ready)[0])


def _publisher(config: Path | None, said_by: str) -> Publisher:
    settings = Settings.load(config)
    connection: dict[str, Any] = settings.connection()
    servers = str(connection.pop("bootstrap.servers"))
    return Publisher(
        servers,
        said_by=said_by,
        prefix=settings.topics.prefix,
        config=connection,
        registry=settings.registry,
    )


def _tell(receipt: Receipt) -> None:
    told = {"topic": receipt.topic, "partition": receipt.partition, "offset": receipt.offset}
    typer.echo(json.dumps(told))
