"""`tidegate replay`: let a service read again, or publish events again. A dry run by default."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.options import ConfigFile
from tidegate.cli.replay_told import event_sentences, events_told, group_sentences, group_told
from tidegate.cli.tables import show_table
from tidegate.errors import ConfigError, TidegateError
from tidegate.settings import Settings

if TYPE_CHECKING:
    from tidegate.replay.targets import Target

replay = typer.Typer(
    help="Read or publish events again; says what would change, until --execute.",
    no_args_is_help=True,
)
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is a dry run.")]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]
WithRestores = Annotated[
    bool,
    typer.Option("--with-restores", help="Also where requests for restores are among them."),
]


@replay.command()
def group(
    service: Annotated[str, typer.Argument(help="reader-gate, restorer ...; it must be stopped.")],
    to_offset: Annotated[int | None, typer.Option(min=0, help="Begin at this offset.")] = None,
    to_time: Annotated[str | None, typer.Option(help="Begin at 2026-11-21T07:00:00Z.")] = None,
    by_duration: Annotated[str | None, typer.Option(help="Begin so long ago: PT1H, 1h.")] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Begin at the start.")] = False,
    shift_by: Annotated[int | None, typer.Option(help="Go back so many records: -10.")] = None,
    topic: Annotated[str | None, typer.Option(help="Of its topics this one: locks.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="This partition alone.")] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="Only where this table lies; repeatable."),
    ] = None,
    with_restores: WithRestores = False,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Put a stopped service's group back, so that it reads records again.

    Groups only go back: nothing is ever passed over. A decider's memory goes back with its group
    and keeps what it knows, so what was done is not done again. Offsets are a partition's: with
    --table, the tables on the same partition are read again too, and are told apart.
    """
    from tidegate.replay import Replays  # noqa: PLC0415 - heavy

    target = _target(to_offset, to_time, by_duration, to_earliest, shift_by)
    with Replays(Settings.load(config)) as replays:
        plan = replays.plan_reset(
            service, target, topic=topic, partition=partition, tables=table or ()
        )
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            replays.reset(plan)
    told = {"executed": execute, **group_told(plan)}
    _tell(told, lambda: group_sentences(plan, executed=execute), as_json=as_json)


@replay.command()
def events(
    topic: Annotated[str, typer.Option(help="commits, vacuums, locks, commands, outcomes")],
    table: Annotated[str | None, typer.Option("--table", "-t", help="Of this table.")] = None,
    event_id: Annotated[list[str] | None, typer.Option(help="This event; repeatable.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="In this partition.")] = None,
    from_offset: Annotated[int | None, typer.Option(min=0, help="From this offset.")] = None,
    to_offset: Annotated[int | None, typer.Option(min=0, help="Up to before this one.")] = None,
    from_time: Annotated[str | None, typer.Option(help="Appended from this time on.")] = None,
    to_time: Annotated[str | None, typer.Option(help="Appended before this time.")] = None,
    with_restores: WithRestores = False,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish events again as they were, with a header that says from where.

    Records that can't be read are told of and left out.
    """
    from tidegate.replay import Replays, Selection  # noqa: PLC0415 - heavy
    from tidegate.replay.targets import moment  # noqa: PLC0415

    given = (table, event_id, partition, from_offset, to_offset, from_time, to_time)
    if all(each is None for each in given):
        raise ConfigError("say which events: --from-offset 0 means all of them")
    selection = Selection(
        table=_identity(table),
        event_ids=frozenset(event_id or ()),
        partition=partition,
        from_offset=from_offset or 0,
        to_offset=to_offset,
        from_time=moment(from_time) if from_time else None,
        to_time=moment(to_time) if to_time else None,
    )
    with Replays(Settings.load(config)) as replays:
        plan = replays.plan_events(topic, selection)
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            replays.publish(plan)
    told = {"executed": execute, **events_told(plan)}
    _tell(told, lambda: event_sentences(plan, executed=execute), as_json=as_json)
    if not plan.events:
        raise TidegateError(f"{topic} has no event that is meant and can be read")


def _target(
    to_offset: int | None,
    to_time: str | None,
    by_duration: str | None,
    to_earliest: bool,  # noqa: FBT001 - the option itself
    shift_by: int | None,
) -> Target:
    from tidegate.replay import targets  # noqa: PLC0415 - heavy

    told = (to_offset, to_time, by_duration, to_earliest or None, shift_by)
    if sum(each is not None for each in told) != 1:
        raise ConfigError(
            "say once where to begin:"
            " --to-offset, --to-time, --by-duration, --to-earliest or --shift-by"
        )
    if to_offset is not None:
        return targets.ToOffset(to_offset)
    if to_time is not None:
        return targets.since(to_time, datetime.now(UTC))
    if by_duration is not None:
        return targets.ago(by_duration, datetime.now(UTC))
    if shift_by is None:
        return targets.ToEarliest()
    if shift_by >= 0:
        raise ConfigError("a replay goes back: --shift-by takes a number below zero, as -10")
    return targets.Back(-shift_by)


def _identity(table: str | None) -> str | None:
    from tidegate.events import table_identity  # noqa: PLC0415 - heavy

    try:
        return None if table is None else table_identity(table)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _check_restores(restores: int, *, allowed: bool) -> None:
    if restores and not allowed:
        raise TidegateError(
            f"{restores} requests for a restore are among them. One that was answered is answered"
            " the same again; one that never was will be carried out now, on the table as it is."
            " Leave them out, or add --with-restores"
        )


def _tell(told: dict[str, Any], sentences: Callable[[], Iterable[str]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(told))
        return
    changes: list[dict[str, Any]] = told["changes"]
    show_table([{k: "-" if v is None else v for k, v in row.items()} for row in changes])
    for sentence in sentences():
        typer.echo(sentence)
