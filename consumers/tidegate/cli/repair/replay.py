"""`tidegate replay`: make a service read again, or publish events again. Dry run by default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import AsJson, ConfigFile, Execute, Since, since_of, table_of
from tidegate.cli.output import write, write_json, write_table
from tidegate.errors import ConfigError, TidegateError
from tidegate.errors.commands import command_line
from tidegate.ops.replay import EventReplay, GroupReplay, OffsetReset, Replays, Selection, targets

replay = typer.Typer(
    help="Read or publish events again; a dry run without --execute.",
    no_args_is_help=True,
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
EventTopic = Annotated[str, typer.Option(help="commits, vacuums, locks, commands or outcomes")]
OfTable = Annotated[str | None, typer.Option("--table", "-t", help="Only events of this table.")]
EventIds = Annotated[
    list[str] | None, typer.Option(help="Only the event with this id; repeatable.")
]
FromOffset = Annotated[int | None, typer.Option(min=0, help="From this offset.")]
ToOffset = Annotated[int | None, typer.Option(min=0, help="Up to this offset, exclusive.")]

Listed = Annotated[int, typer.Option("--limit", min=1, help="List at most this many.")]
_LISTED: Final = 5
_COORDINATOR: Final = "harmless, because the coordinator skips what it has applied to them"
_EXECUTOR: Final = "harmless, because a command that has its outcome is not carried out again"


@replay.command()
def group(
    service: Service,
    to_offset: StartOffset = None,
    since: Since = None,
    to_earliest: StartEarliest = False,
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
    if service == "metastore-bridge":
        raise ConfigError(
            "a Metastore bridge reads its topics from their beginning at each start: restart it;"
            " to change what it has stored of its Metastore, see:"
            f" {command_line('bridge accept-metastore', help=True)}"
        )
    target = _target(to_offset, since, to_earliest)
    with Replays(reachable(config)) as replays:
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
    since: Since = None,
    limit: Listed = 100,
    with_restores: WithRestores = False,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish events again unchanged, with a header that names their origin.

    Records that can't be decoded are reported and left out.
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


def _target(
    to_offset: int | None,
    since: str | None,
    to_earliest: bool,  # noqa: FBT001 - the option itself
) -> targets.Target:
    if sum(option is not None for option in (to_offset, since, to_earliest or None)) != 1:
        raise ConfigError("give exactly one of --since, --to-offset or --to-earliest")
    if to_offset is not None:
        return targets.ToOffset(to_offset)
    if (moment := since_of(since)) is None:
        return targets.ToEarliest()
    if moment > datetime.now(UTC):
        raise ConfigError(f"{since} is in the future: a replay starts from a time in the past")
    return targets.ToMoment(moment)


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


def group_as_json(plan: GroupReplay) -> dict[str, Any]:
    """A group's plan as JSON values."""
    fields: dict[str, Any] = {
        "restores": plan.restores,
        "changes": [_change(plan, reset) for reset in plan.resets],
    }
    if plan.tables is not None:
        fields["tables"] = [
            {"table": table, "partition": number, "again": _again(plan, table)}
            for table, number in sorted(plan.tables.items())
        ]
        others = {"tables": len(_other_tables(plan)), "again": _of_other_tables(plan)}
        fields["others"] = others
    return fields


def _change(plan: GroupReplay, reset: OffsetReset) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group": plan.group,
        "topic": reset.partition.topic,
        "partition": reset.partition.number,
        "from_offset": reset.from_offset,
        "to_offset": reset.to_offset,
        "again": reset.again,
    }
    if reset.counts is not None:
        fields["of_tables"] = sum(reset.counts.by_table.values())
        fields["of_others"] = reset.counts.of_other_tables
    if any(reset.fault for reset in plan.resets):
        fields["repairs"] = reset.fault
    return fields


def group_sentences(plan: GroupReplay, *, executed: bool) -> Iterator[str]:
    """A group's plan in sentences, below the table of its changes."""
    for table, number in sorted((plan.tables or {}).items()):
        records = _count(_again(plan, table), "record")
        yield f"{table} is on partition {number}: {records} to read again"
    if others := _of_other_tables(plan):
        tables = _count(len(_other_tables(plan)), "other table")
        yield (
            f"{_count(others, 'record')} of {tables} on the same partition would be read again too:"
            f" {_COORDINATOR if _is_of_coordinator(plan) else _EXECUTOR}"
        )
    if plan.tables is not None:
        for reset in plan.resets:
            if reset.is_for_all and reset.applied is not None:
                yield (
                    f"{reset.partition.topic}[{reset.partition.number}]: {reset.fault}, so all"
                    " tables are reset there, not only the selected ones"
                )
    yield from _restores(plan.restores)
    if plan.resets:
        where = _count(len(plan.resets), "partition")
        sentence = f"{_count(plan.records, 'record')} would be read again in {where}"
        yield _sentence(sentence, executed=executed)
    elif plan.tables is not None:
        yield f"nothing to change: group {plan.group} would read nothing of these tables again"
    elif plan.has_started:
        yield f"nothing to change: group {plan.group} is already at or before that offset"
    else:
        yield f"nothing to change: group {plan.group} has not started, it reads from the beginning"


def _again(plan: GroupReplay, table: str) -> int:
    return sum(reset.counts.by_table.get(table, 0) for reset in plan.resets if reset.counts)


def _of_other_tables(plan: GroupReplay) -> int:
    return sum(reset.counts.of_other_tables for reset in plan.resets if reset.counts)


def _other_tables(plan: GroupReplay) -> set[str]:
    return {table for reset in plan.resets if reset.counts for table in reset.counts.other_tables}


def _is_of_coordinator(plan: GroupReplay) -> bool:
    return any(reset.applied is not None for reset in plan.resets)


def events_as_json(plan: EventReplay) -> dict[str, Any]:
    """A plan of events as JSON values."""
    return {
        "restores": plan.restores,
        "events": plan.events,
        "more": plan.events > len(plan.listed),
        "changes": [
            {
                "event": type(found.event).__name__,
                "table": found.event.table,
                "event_id": found.event.event_id,
                "from": found.origin,
            }
            for found in plan.listed
        ],
        "unreadable_records": plan.unreadable,
        "unreadable": [
            {
                "from": record.origin,
                "key": None
                if record.record.key is None
                else record.record.key.decode(errors="replace"),
                "reason": record.reason,
            }
            for record in plan.listed_unreadable
        ],
    }


def event_sentences(plan: EventReplay, *, executed: bool) -> Iterator[str]:
    """A plan of events in sentences, below the table of its changes."""
    if plan.events > len(plan.listed):
        yield f"only the first {len(plan.listed)} are listed; use --limit for more"
    for record in plan.listed_unreadable[:_LISTED]:
        yield f"{record.origin} can't be decoded: {record.reason}"
    if plan.unreadable > _LISTED:
        yield f"... and {plan.unreadable - _LISTED} more; --json lists up to --limit of them"
    if plan.unreadable:
        records = _count(plan.unreadable, "record")
        yield f"{records} can't be decoded and won't be published again"
    yield from _restores(plan.restores)
    if plan.events:
        sentence = f"{_count(plan.events, 'event')} would be published again"
        yield _sentence(sentence, executed=executed)


def _restores(count: int) -> Iterator[str]:
    if count:
        yield f"{_count(count, 'restore request')} included: --execute needs --with-restores"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _sentence(sentence: str, *, executed: bool) -> str:
    if executed:
        return sentence.replace("would be", "will be")
    return f"{sentence}; add --execute to do it"
