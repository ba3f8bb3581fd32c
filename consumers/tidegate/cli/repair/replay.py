"""`tidegate replay`: make a service read again, or publish events again. Dry run by default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import since_of, table_of
from tidegate.cli.output import write, write_json, write_table
from tidegate.errors import ConfigError, TidegateError
from tidegate.errors.commands import command_line
from tidegate.ops.event_log import EventLog
from tidegate.ops.replay import EventReplay, GroupReplay, Replays, Selection
from tidegate.ops.replay.cluster import Target
from tidegate.ops.summary import counted

replay = typer.Typer(
    help="Read or publish events again; a dry run without --execute.", no_args_is_help=True
)
WithRestores = Annotated[
    bool, typer.Option("--with-restores", help="Also replay restore requests.")
]
Service = Annotated[str, typer.Argument(help="The service, e.g. coordinator; stop it first.")]
StartOffset = Annotated[int | None, typer.Option(min=0, help="Start at this offset.")]
StartEarliest = Annotated[bool, typer.Option("--to-earliest", help="Start at the earliest.")]
InputTopic = Annotated[str | None, typer.Option(help="Only this input topic, e.g. locks.")]
InPartition = Annotated[int | None, typer.Option(min=0, help="Only this partition.")]
OnlyTables = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="Only this table (catalog.database.table); repeatable."),
]
EventTopic = Annotated[
    str, typer.Option(help="commits, vacuums, locks, requests, tasks or outcomes.")
]
OfTable = Annotated[str | None, typer.Option("--table", "-t", help="Only events of this table.")]
EventIds = Annotated[
    list[str] | None, typer.Option(help="Only the event with this id; repeatable.")
]
FromOffset = Annotated[int | None, typer.Option(min=0, help="From this offset.")]
ToOffset = Annotated[int | None, typer.Option(min=0, help="Up to this offset, exclusive.")]

Listed = Annotated[int, typer.Option("--limit", min=1, help="List at most this many.")]
_LISTED: Final = 5


@replay.command()
def group(
    service: str,
    to_offset: Annotated[int | None, typer.Option(min=0)] = None,
    since: str | None = None,
    to_earliest: bool = False,
    topic: str | None = None,
    partition: Annotated[int | None, typer.Option(min=0)] = None,
    table: list[str] | None = None,
    with_restores: bool = False,
    execute: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Reset a stopped service's group, so that it reads records again.

    Offsets only go back: nothing is ever skipped. The coordinator keeps its rows, so what was done
    is not done again. Offsets belong to partitions: with --table, the other tables on its partition
    are read again too.

    Positional:
        service: The service, e.g. coordinator; stop it first.

    Options:
        to_offset: Start at this offset.
        to_earliest: Start at the earliest.
        topic: Only this input topic, e.g. locks.
        partition: Only this partition.
        table: Only this table (catalog.database.table); repeatable.
        with_restores: Also replay restore requests.

    Examples:
        tidegate replay group coordinator --to-earliest
        tidegate replay group coordinator --since 2d --table lake.sales.orders --execute
    """
    if service == "metastore-bridge":
        raise ConfigError(
            "a Metastore bridge reads its topics from their beginning at each start: restart it;"
            " to change what it has stored of its Metastore, see:"
            f" {command_line('bridge accept-metastore', help=True)}"
        )
    target = _target(to_offset, since, to_earliest)
    settings, names = reachable(config), [table_of(name) or "" for name in table or ()]
    for name in names:
        EventLog.of(settings).check_named(name, "check the name")
    with Replays(settings) as replays:
        plan = replays.plan_reset(service, target, topic=topic, partition=partition, tables=names)
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            replays.reset(plan)
    fields = {"executed": execute, **group_as_json(plan)}
    _show(fields, lambda: group_sentences(plan, executed=execute), as_json=as_json)


@replay.command()
def events(
    topic: str,
    table: str | None = None,
    event_id: list[str] | None = None,
    partition: Annotated[int | None, typer.Option(min=0)] = None,
    from_offset: Annotated[int | None, typer.Option(min=0)] = None,
    to_offset: Annotated[int | None, typer.Option(min=0)] = None,
    since: str | None = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    with_restores: bool = False,
    execute: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Publish events again unchanged, with a header that names their origin.

    Records that can't be decoded are reported and left out.

    Options:
        topic: commits, vacuums, locks, requests, tasks or outcomes.
        table: Only events of this table.
        event_id: Only the event with this id; repeatable.
        partition: Only this partition.
        from_offset: From this offset.
        to_offset: Up to this offset, exclusive.
        limit: List at most this many.
        with_restores: Also replay restore requests.

    Examples:
        tidegate replay events --topic commits --table lake.sales.orders --from-offset 2
    """
    given = (table, event_id, partition, from_offset, to_offset, since)
    if all(option is None for option in given):
        raise ConfigError("no events selected: add a filter, or --from-offset 0 for all of them")
    selection = Selection(
        table=table_of(table),
        event_ids=frozenset(event_id or ()),
        partition=partition,
        from_offset=from_offset or 0,
        to_offset=to_offset,
        from_time=since_of(since),
    )
    with Replays(reachable(config)) as replays:
        plan = replays.plan_events(topic, selection, limit)
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            replays.publish(plan)
    fields = {"executed": execute, **events_as_json(plan)}
    _show(fields, lambda: event_sentences(plan, executed=execute), as_json=as_json)
    if not plan.events:
        raise TidegateError(f"no event in {topic} matches and can be decoded")


def _target(to_offset: int | None, since: str | None, to_earliest: bool) -> Target:
    if sum(option is not None for option in (to_offset, since, to_earliest or None)) != 1:
        raise ConfigError("give exactly one of --since, --to-offset or --to-earliest")
    if (moment := since_of(since)) is None:
        return to_offset or 0
    if moment > datetime.now(UTC):
        raise ConfigError(f"{since} is in the future: a replay starts from a time in the past")
    return moment


def _check_restores(restores: int, *, allowed: bool) -> None:
    if restores and not allowed:
        raise TidegateError(
            f"{restores} of the selected records are restores. One that was carried out is not"
            " repeated; one that was not may be carried out, on the table as it is now. Exclude"
            " them, or add --with-restores"
        )


def _show(fields: dict[str, Any], sentences: Callable[[], Iterable[str]], *, as_json: bool) -> None:
    if as_json:
        write_json(fields)
        return
    write_table(fields["changes"])
    for sentence in sentences():
        write(sentence)


def group_as_json(plan: GroupReplay) -> dict[str, Any]:
    """A group's plan as JSON values."""
    repairs = any(reset.fault for reset in plan.resets)
    return {
        "restores": plan.restores,
        "changes": [
            {
                "group": plan.group,
                "topic": reset.partition.topic,
                "partition": reset.partition.number,
                "from_offset": reset.from_offset,
                "to_offset": reset.to_offset,
                "again": reset.again,
            }
            | ({"repairs": reset.fault} if repairs else {})
            for reset in plan.resets
        ],
    }


def group_sentences(plan: GroupReplay, *, executed: bool) -> Iterator[str]:
    """A group's plan in sentences, below the table of its changes."""
    yield from _restores(plan.restores)
    if plan.resets:
        where = counted(len(plan.resets), "partition")
        sentence = f"{counted(plan.records, 'record')} would be read again in {where}"
        yield _sentence(sentence, executed=executed)
    elif plan.has_started:
        yield f"nothing to change: group {plan.group} is already at or before that offset"
    else:
        yield f"nothing to change: group {plan.group} has not started, it reads from the beginning"


def events_as_json(plan: EventReplay) -> dict[str, Any]:
    """A plan of events as JSON values."""
    return {
        "restores": plan.restores,
        "events": plan.events,
        "more": plan.events > len(plan.listed),
        "changes": [
            {
                "event": type(event).__name__,
                "table": event.table,
                "event_id": event.event_id,
                "from": found.place,
            }
            for found in plan.listed
            if (event := found.event)
        ],
        "unreadable_records": plan.unreadable,
        "unreadable": [
            {
                "from": record.place,
                "key": None
                if record.record.key is None
                else record.record.key.decode(errors="replace"),
                "reason": record.problem,
            }
            for record in plan.listed_unreadable
        ],
    }


def event_sentences(plan: EventReplay, *, executed: bool) -> Iterator[str]:
    """A plan of events in sentences, below the table of its changes."""
    if plan.events > len(plan.listed):
        yield f"only the first {len(plan.listed)} are listed; use --limit for more"
    for record in plan.listed_unreadable[:_LISTED]:
        yield f"{record.place} can't be decoded: {record.problem}"
    if plan.unreadable > _LISTED:
        yield f"... and {plan.unreadable - _LISTED} more; --json lists up to --limit of them"
    if plan.unreadable:
        records = counted(plan.unreadable, "record")
        yield f"{records} can't be decoded and won't be published again"
    yield from _restores(plan.restores)
    if plan.events:
        sentence = f"{counted(plan.events, 'event')} would be published again"
        yield _sentence(sentence, executed=executed)


def _restores(count: int) -> Iterator[str]:
    if count:
        yield f"{counted(count, 'restore request')} included: --execute needs --with-restores"


def _sentence(sentence: str, *, executed: bool) -> str:
    if executed:
        return sentence.replace("would be", "will be")
    return f"{sentence}; add --execute to do it"
