"""`tidegate publish`: publish events and requests from a shell."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.options import ConfigFile, Location, TableName, read_event
from tidegate.cli.output import write_json
from tidegate.errors import ConfigError
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.publisher import Publisher, Receipt
from tidegate.service.settings import Settings

publish = typer.Typer(
    help="Publish an event; returns once the broker confirms it.", no_args_is_help=True
)
RequestId = Annotated[
    str | None, typer.Option(help="Id of the request: repeat a failed call with the same id.")
]
SaidBy = Annotated[str, typer.Option(help="Name of the publishing application.")]
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
    """Publish that a commit was completed on a Hudi table."""
    with _publisher(config, said_by) as publisher:
        _print(publisher.commit(table=table, location=location, instant=instant, action=action))


@publish.command()
def lock_released(
    table: TableName,
    location: Location,
    lock_id: Annotated[int | None, typer.Option(help="Lock id of the metastore.")] = None,
    transaction_id: Annotated[
        int | None, typer.Option(help="Transaction id of the metastore.")
    ] = None,
    reason: Annotated[
        str, typer.Option(help="unlocked, committed, aborted or expired")
    ] = "unlocked",
    said_by: SaidBy = CLI,
    config: ConfigFile = None,
) -> None:
    """Publish that a lock or a transaction ended on a table."""
    with _publisher(config, said_by) as publisher:
        _print(
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
    instant: Annotated[
        str | None, typer.Option(help="Instant to save; by default the newest completed.")
    ] = None,
    comment: Annotated[str, typer.Option(help="Comment in the savepoint's metadata.")] = "",
    requested_by: Annotated[
        str | None, typer.Option(help="Who asks; by default your user name.")
    ] = None,
    request_id: RequestId = None,
    config: ConfigFile = None,
) -> None:
    """Request a savepoint on a Hudi table."""
    with _publisher(config, CLI) as publisher:
        _print(
            publisher.request_savepoint(
                table=table,
                location=location,
                instant=instant,
                comment=comment,
                requested_by=requested_by or getpass.getuser(),
                request_id=request_id,
            )
        )


@publish.command()
def restore(
    table: TableName,
    location: Location,
    savepoint: Annotated[str, typer.Option(help="Instant of the savepoint to restore to.")],
    reason: Annotated[str, typer.Option(help="Why, for the audit trail.")],
    requested_by: Annotated[
        str | None, typer.Option(help="Who asks; by default your user name.")
    ] = None,
    plan_only: Annotated[
        bool, typer.Option(help="Only plan: publish the plan, change nothing.")
    ] = False,
    expected_plan: Annotated[
        str | None, typer.Option(help="Refuse unless the plan has this id.")
    ] = None,
    seen_up_to: Annotated[
        str | None,
        typer.Option(help="Latest instant known to you: later commits are never destroyed."),
    ] = None,
    request_id: RequestId = None,
    config: ConfigFile = None,
) -> None:
    """Request a restore, which destroys every commit after the savepoint."""
    with _publisher(config, CLI) as publisher:
        _print(
            publisher.request_restore(
                table=table,
                location=location,
                savepoint=savepoint,
                reason=reason,
                requested_by=requested_by or getpass.getuser(),
                plan_only=plan_only,
                expected_plan=expected_plan,
                seen_up_to=seen_up_to,
                request_id=request_id,
            )
        )


@publish.command()
def event(
    kind: Annotated[str, typer.Argument(help="VacuumFinished, CommitCompleted ...")],
    file: Annotated[
        Path, typer.Argument(help="File with the event as JSON; - for standard input.")
    ],
    config: ConfigFile = None,
) -> None:
    """Publish any event from JSON, e.g. a VacuumFinished with its locks."""
    if kind not in EVENT_TYPES:
        raise ConfigError(f"unknown event {kind}; known: {', '.join(EVENT_TYPES)}")
    parsed = read_event(EVENT_TYPES[kind], file)
    with _publisher(config, CLI) as publisher:
        _print(publisher.publish(parsed)[0])


def _publisher(config: Path | None, said_by: str) -> Publisher:
    settings = Settings.load(config)
    return Publisher(
        said_by=said_by,
        prefix=settings.topics.prefix,
        config=settings.connection(),
        registry=settings.registry,
    )


def _print(receipt: Receipt) -> None:
    write_json(receipt._asdict())
