"""`tidegate publish`: publish events and requests from a shell."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.exit_codes import OF_VERDICT, ExitCode
from tidegate.cli.options import ConfigFile, Location, TableName, option_group, read_event
from tidegate.cli.output import write_error, write_json
from tidegate.errors import ConfigError
from tidegate.events import CleaningReleased, Request, VacuumFinished
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.events.verdict import Verdict
from tidegate.publisher import Answered, OutcomeWatch, Publisher, Receipt
from tidegate.service.settings import Settings

publish = typer.Typer(
    help="Publish an event; returns once the broker confirms it.", no_args_is_help=True
)
RequestId = Annotated[
    str | None, typer.Option(help="Id of the request: repeat a failed call with the same id.")
]
SignWith = Annotated[
    Path | None,
    typer.Option(help="Your private key, which signs it; default: security.sign_with."),
]
SaidBy = Annotated[str, typer.Option(help="Name of the publishing application.")]
CLI = "tidegate-cli"
_ANSWERED = (Request, VacuumFinished, CleaningReleased)
"""The events whose outcome can be waited for."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Options of what can be waited for."""

    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for the outcome, print it, and exit by it: see -h."),
    ] = False
    timeout: Annotated[str, typer.Option(help="How long to wait at most, e.g. 90s or 2h.")] = "10m"

    def seconds(self) -> float:
        """How long to wait.

        Raises:
            ConfigError: it is not a duration.
        """
        from tidegate.ops.moments import duration  # noqa: PLC0415 - heavy

        return duration(self.timeout).total_seconds()


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
@option_group(Waiting)
def savepoint(
    waiting: Waiting,
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
    sign_with: SignWith = None,
    config: ConfigFile = None,
) -> None:
    """Request a savepoint on a Hudi table."""

    def request(publisher: Publisher) -> Receipt:
        return publisher.request_savepoint(
            table=table,
            location=location,
            instant=instant,
            comment=comment,
            requested_by=requested_by or getpass.getuser(),
            request_id=request_id,
        )

    _request(config, sign_with, waiting, table, request, again=request_id is not None)


@publish.command()
@option_group(Waiting)
def restore(
    waiting: Waiting,
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
    sign_with: SignWith = None,
    config: ConfigFile = None,
) -> None:
    """Request a restore, which destroys every commit after the savepoint."""

    def request(publisher: Publisher) -> Receipt:
        return publisher.request_restore(
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

    _request(config, sign_with, waiting, table, request, again=request_id is not None)


@publish.command()
@option_group(Waiting)
def event(
    waiting: Waiting,
    kind: Annotated[str, typer.Argument(help="VacuumFinished, CommitCompleted ...")],
    file: Annotated[
        Path, typer.Argument(help="File with the event as JSON; - for standard input.")
    ],
    sign_with: SignWith = None,
    config: ConfigFile = None,
) -> None:
    """Publish any event from JSON, e.g. a VacuumFinished with its locks."""
    if kind not in EVENT_TYPES:
        raise ConfigError(f"unknown event {kind}; known: {', '.join(EVENT_TYPES)}")
    parsed = read_event(EVENT_TYPES[kind], file)
    if waiting.wait and not isinstance(parsed, _ANSWERED):
        raise ConfigError(f"--wait: no service answers a {kind}")
    # an event has the same id when it is published again: it may have its outcome already
    _request(config, sign_with, waiting, parsed.table, lambda it: it.publish(parsed)[0], again=True)


def _request(
    config: Path | None,
    sign_with: Path | None,
    waiting: Waiting,
    table: str,
    publish_it: Callable[[Publisher], Receipt],
    *,
    again: bool,
) -> None:
    """Publish, and wait for the outcome if that is wanted; `again`: it may be there already."""
    with _publisher(config, CLI, sign_with) as publisher:
        if not waiting.wait:
            _print(publish_it(publisher))
            return
        seconds = waiting.seconds()
        with publisher.watch(table, from_start=again) as watch:
            receipt = publish_it(publisher)
            _print(receipt)
            raise typer.Exit(_report(watch, receipt, seconds))


def _report(watch: OutcomeWatch, receipt: Receipt, seconds: float) -> ExitCode:
    """Say each outcome on standard error as it comes; print the last one as JSON."""
    from tidegate.ops.event_log.summary import sentence  # noqa: PLC0415 - heavy

    last = Answered(Verdict.UNANSWERED)
    for last in watch.answers(receipt, seconds):
        event = last.outcome
        write_error(f"{type(event).__name__} {sentence(event)}" if event else last.message)
    write_json(
        {
            "event_id": receipt.event_id,
            "verdict": last.verdict,
            "kind": type(last.outcome).__name__ if last.outcome else None,
            "message": last.message or None,
            "event": last.outcome.model_dump(mode="json") if last.outcome else None,
        }
    )
    return OF_VERDICT[last.verdict]


def _publisher(config: Path | None, said_by: str, sign_with: Path | None = None) -> Publisher:
    settings = Settings.load(config)
    return Publisher(
        said_by=said_by,
        prefix=settings.topics.prefix,
        config=settings.connection(),
        registry=settings.registry,
        sign_with=sign_with or settings.security.sign_with,
    )


def _print(receipt: Receipt) -> None:
    write_json(receipt._asdict())
