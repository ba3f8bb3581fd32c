"""`tidegate replay`: make a service read again, or publish events again. Dry run by default."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.options import AsJson, ConfigFile, Execute, table_of
from tidegate.cli.output import write, write_json, write_table
from tidegate.cli.progress import Progress
from tidegate.cli.reachable import reachable
from tidegate.cli.replay_report import (
    event_sentences,
    events_as_json,
    group_as_json,
    group_sentences,
)
from tidegate.errors import ConfigError, TidegateError
from tidegate.errors.commands import command_line

if TYPE_CHECKING:
    from tidegate.ops.replay.targets import Target

replay = typer.Typer(
    help="Read or publish events again; a dry run without --execute.",
    no_args_is_help=True,
)
WithRestores = Annotated[
    bool, typer.Option("--with-restores", help="Also replay restore requests.")
]
Service = Annotated[str, typer.Argument(help="The service, e.g. coordinator; stop it first.")]
StartOffset = Annotated[int | None, typer.Option(min=0, help="Start at this offset.")]
StartTime = Annotated[
    str | None, typer.Option(help="Start at this time, e.g. 2026-11-21T07:00:00Z.")
]
StartAgo = Annotated[str | None, typer.Option(help="Start this far back, e.g. 1h.")]
StartEarliest = Annotated[bool, typer.Option("--to-earliest", help="Start at the earliest.")]
ShiftBy = Annotated[int | None, typer.Option(help="Go back this many records, e.g. -10.")]
InputTopic = Annotated[str | None, typer.Option(help="Only this input topic, e.g. locks.")]
InPartition = Annotated[int | None, typer.Option(min=0, help="Only this partition.")]
OnlyTables = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="Only this table (catalog.database.table); repeatable."),
]
EventTopic = Annotated[str, typer.Option(help="commits, vacuums, locks, commands or outcomes")]
OfTable = Annotated[str | None, typer.Option("--table", "-t", help="Only events of this table.")]
EventIds = Annotated[
    list[str] | None, typer.Option(help="Only the event with this id; repeatable.")
]
FromOffset = Annotated[int | None, typer.Option(min=0, help="From this offset.")]
ToOffset = Annotated[int | None, typer.Option(min=0, help="Up to this offset, exclusive.")]
FromTime = Annotated[str | None, typer.Option(help="Appended at this time or later.")]
ToTime = Annotated[str | None, typer.Option(help="Appended before this time.")]

Listed = Annotated[int, typer.Option("--limit", min=1, help="List at most this many.")]


@replay.command()
def group(
    service: Service,
    to_offset: StartOffset = None,
    to_time: StartTime = None,
    by_duration: StartAgo = None,
    to_earliest: StartEarliest = False,
    shift_by: ShiftBy = None,
    topic: InputTopic = None,
    partition: InPartition = None,
    table: OnlyTables = None,
    with_restores: WithRestores = False,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Reset a stopped service's group, so that it reads records again.

    Offsets only go back: nothing is ever skipped. The coordinator keeps its rows, so what was done
    is not done again. Offsets belong to partitions: with --table, other tables on the same
    partition are read again too, and reported separately.
    """
    from tidegate.ops.replay import Replays  # noqa: PLC0415 - heavy

    if service == "metastore-bridge":
        raise ConfigError(
            "a Metastore bridge reads its topics from their beginning at each start: restart it;"
            " to change what it has stored of its Metastore, see:"
            f" {command_line('bridge accept-metastore', help=True)}"
        )
    target = _target(to_offset, to_time, by_duration, to_earliest, shift_by)
    with Replays(reachable(config), Progress()) as replays:
        plan = replays.plan_reset(
            service, target, topic=topic, partition=partition, tables=table or ()
        )
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            replays.reset(plan)
    fields = {"executed": execute, **group_as_json(plan)}
    _show(fields, lambda: group_sentences(plan, executed=execute), as_json=as_json)


@replay.command()
def events(
    topic: EventTopic,
    table: OfTable = None,
    event_id: EventIds = None,
    partition: InPartition = None,
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    limit: Listed = 100,
    with_restores: WithRestores = False,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish events again unchanged, with a header that names their origin.

    Records that can't be decoded are reported and left out.
    """
    from tidegate.ops.moments import moment  # noqa: PLC0415
    from tidegate.ops.replay import Replays, Selection  # noqa: PLC0415 - heavy

    given = (table, event_id, partition, from_offset, to_offset, from_time, to_time)
    if all(option is None for option in given):
        raise ConfigError("no events selected: add a filter, or --from-offset 0 for all of them")
    selection = Selection(
        table=table_of(table),
        event_ids=frozenset(event_id or ()),
        partition=partition,
        from_offset=from_offset or 0,
        to_offset=to_offset,
        from_time=moment(from_time) if from_time else None,
        to_time=moment(to_time) if to_time else None,
    )
    with Replays(reachable(config), Progress()) as replays:
        plan = replays.plan_events(topic, selection, limit)
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            replays.publish(plan)
    fields = {"executed": execute, **events_as_json(plan)}
    _show(fields, lambda: event_sentences(plan, executed=execute), as_json=as_json)
    if not plan.events:
        raise TidegateError(f"no event in {topic} matches and can be decoded")


def _target(
    to_offset: int | None,
    to_time: str | None,
    by_duration: str | None,
    to_earliest: bool,  # noqa: FBT001 - the option itself
    shift_by: int | None,
) -> Target:
    from tidegate.ops.replay import targets  # noqa: PLC0415 - heavy

    given = (to_offset, to_time, by_duration, to_earliest or None, shift_by)
    if sum(option is not None for option in given) != 1:
        raise ConfigError(
            "give exactly one of --to-offset, --to-time, --by-duration, --to-earliest or --shift-by"
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
        raise ConfigError("--shift-by must be negative, e.g. -10: a replay only goes back")
    return targets.RecordsBack(-shift_by)


def _check_restores(restores: int, *, allowed: bool) -> None:
    if restores and not allowed:
        raise TidegateError(
            f"{restores} of the selected records are restore requests. A request that has its"
            " outcome is not carried out again; one that has none will be, on the table as it is"
            " now. Exclude them, or add --with-restores"
        )


def _show(fields: dict[str, Any], sentences: Callable[[], Iterable[str]], *, as_json: bool) -> None:
    if as_json:
        write_json(fields)
        return
    changes: list[dict[str, Any]] = fields["changes"]
    write_table([{k: "-" if v is None else v for k, v in row.items()} for row in changes])
    for sentence in sentences():
        write(sentence)
