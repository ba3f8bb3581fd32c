"""`tidegate replay`: make a service read again, or publish events again. Dry run by default."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import abbreviated_ids, since_of, table_of
from tidegate.cli.output import write, write_json, write_table
from tidegate.errors import ConfigError, TidegateError
from tidegate.errors.commands import command_line
from tidegate.ops.event_log import EventFilter, EventLog, since_ms
from tidegate.ops.replay.events import (
    LAST_OFFSET,
    plan_events,
    publish_again,
    topic_of_events,
    within,
)
from tidegate.ops.replay.group import Target, plan_reset, reset
from tidegate.runtime.kafka.bus import KafkaBus

replay = typer.Typer(
    help="Read or publish events again; a dry run without --execute.", no_args_is_help=True
)


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
    with closing(KafkaBus(settings.connection())) as bus:
        plan = plan_reset(
            bus, settings, service, target, topic=topic, partition=partition, tables=names
        )
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            reset(bus, settings, plan)
    _show(plan.row, plan.sentences(executed=execute), executed=execute, as_json=as_json)


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
        event_id: Only the event with this id, or its first characters; repeatable.
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
    tables = () if table is None else (table_of(table) or "",)
    wanted = EventFilter(tables, event_ids=abbreviated_ids(event_id))
    offsets = range(from_offset or 0, LAST_OFFSET if to_offset is None else to_offset)
    settings = reachable(config)
    with closing(KafkaBus(settings.connection())) as bus:
        name = topic_of_events(topic, settings.topics.prefix)
        spans = within(bus.spans(name, since_ms(since_of(since))), partition, offsets)
        plan = plan_events(bus, settings, spans, wanted, limit)
        if execute:
            _check_restores(plan.restores, allowed=with_restores)
            publish_again(bus, settings, plan)
    _show(plan.row, plan.sentences(executed=execute), executed=execute, as_json=as_json)
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
            " repeated; one that was not may be carried out, on the table as it is now. Leave the"
            " topic requests out (--topic reads another one only), or add --with-restores"
        )


def _show(row: dict[str, Any], sentences: Iterable[str], *, executed: bool, as_json: bool) -> None:
    if as_json:
        write_json({"executed": executed, **row})
        return
    write_table(row["changes"])
    for sentence in sentences:
        write(sentence)
