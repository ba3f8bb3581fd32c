"""`tidegate publish`: publish events and requests from a shell."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.options import (
    AsJson,
    ConfigFile,
    Location,
    TableName,
    one_of,
    option_group,
    read_event,
)
from tidegate.cli.output import write_error
from tidegate.cli.restore.requests import (
    approval,
    rejection,
    restore,
    savepoint,
    savepoint_removal,
    withdraw,
)
from tidegate.cli.sending import (
    ANSWERED,
    CLI,
    SaidBy,
    Sending,
    SignWith,
    print_receipt,
    publisher_of,
    request,
)
from tidegate.errors import ConfigError
from tidegate.events import ReleaseReason, TableType
from tidegate.events.topics import EVENT_TYPES
from tidegate.publisher import Publisher, Receipt

publish = typer.Typer(
    help="Publish an event; returns once the broker confirms it.", no_args_is_help=True
)
publish.command()(savepoint)
publish.command()(savepoint_removal)
publish.command()(restore)
publish.command()(approval)
publish.command()(rejection)
publish.command()(withdraw)


class _CommitAction(StrEnum):
    """The actions of completed writes on a Hudi timeline."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    COMPACTION = "compaction"
    CLUSTERING = "clustering"


@publish.command()
def commit(
    table: TableName,
    instant: Annotated[
        str,
        typer.Option(
            help="The completed instant; or latest: the one that the timeline completed last."
        ),
    ],
    action: Annotated[
        _CommitAction, typer.Option(help="The action of the instant.")
    ] = _CommitAction.COMMIT,
    operation: Annotated[
        str | None, typer.Option(help="What the writer did, e.g. upsert or insert_overwrite.")
    ] = None,
    completion_time: Annotated[
        str | None, typer.Option(help="When it completed, as in the timeline's file name.")
    ] = None,
    table_type: Annotated[
        TableType, typer.Option(help="The type of the table.")
    ] = TableType.COPY_ON_WRITE,
    location: Location = None,
    source: SaidBy = CLI,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish that a commit was completed on a Hudi table.

    With --instant latest, all but the table's name is read off its timeline. Another instant is
    compared with the timeline, where that can be read from here.

    Examples:
        tidegate publish commit -t lake.sales.orders --instant 20261121041551845 --operation upsert
    """
    with publisher_of(config, source) as publisher:
        publisher.notes_new = location is not None
        location = publisher.located(table, location)
        if instant == "latest":
            receipt = publisher.commit_latest(table=table, location=location)
            print_receipt(receipt, as_json=as_json)
            return
        unchecked = publisher.check_completed(location, instant)
        receipt = publisher.commit(
            table=table,
            location=location,
            instant=instant,
            action=action.value,
            operation=operation,
            completion_time=completion_time,
            table_type=table_type,
        )
        print_receipt(receipt, as_json=as_json)
        if unchecked is not None:
            write_error(f"note: the instant was not compared with the timeline: {unchecked}")


@publish.command()
def lock_released(
    table: TableName,
    lock_id: Annotated[int | None, typer.Option(help="Lock id of the metastore.")] = None,
    transaction_id: Annotated[
        int | None, typer.Option(help="Transaction id of the metastore.")
    ] = None,
    reason: Annotated[ReleaseReason, typer.Option(help="Why it ended.")] = ReleaseReason.UNLOCKED,
    location: Location = None,
    source: SaidBy = CLI,
    sign_with: SignWith = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish that a lock or a transaction ended on a table.

    Examples:
        tidegate publish lock-released -t lake.sales.orders --lock-id 16 --reason committed
    """
    with publisher_of(config, source, sign_with) as publisher:
        receipt = publisher.lock_released(
            table=table,
            location=publisher.located(table, location),
            lock_id=lock_id,
            transaction_id=transaction_id,
            reason=reason,
        )
        print_receipt(receipt, as_json=as_json)


@publish.command()
def condemned(
    table: TableName,
    instant: Annotated[str, typer.Option(help="The bad commit's instant.")],
    reason: Annotated[str, typer.Option(help="What is wrong with it, for the audit trail.")],
    location: Location = None,
    source: SaidBy = CLI,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish that a commit is bad; what follows is a setting of the table (restores.rules).

    Examples:
        tidegate publish condemned -t lake.sales.orders --instant 20261121041551845
            --reason 'doubled every order'
    """
    with publisher_of(config, source) as publisher:
        receipt = publisher.commit_condemned(
            table=table, location=publisher.located(table, location), instant=instant, reason=reason
        )
        print_receipt(receipt, as_json=as_json)


@publish.command()
@option_group(Sending)
def event(
    sending: Sending,
    kind: Annotated[str, typer.Argument(help=f"{', '.join(EVENT_TYPES)}.")],
    file: Annotated[
        Path, typer.Argument(help="File with the event as JSON; - for standard input.")
    ],
    config: ConfigFile = None,
) -> None:
    """Publish any event from JSON; `tidegate schemas example KIND` prints one to start from.

    Examples:
        tidegate schemas example VacuumFinished > vacuum.json
        tidegate publish event VacuumFinished vacuum.json --wait
    """
    name = one_of(EVENT_TYPES, kind, "event")
    parsed = read_event(EVENT_TYPES[name], file)
    if sending.wait and not isinstance(parsed, ANSWERED):
        raise ConfigError(f"--wait: no service answers a {name}")

    # an event has the same id when it is published again: it may have its outcome already
    def ask(publisher: Publisher, **_: object) -> Receipt:
        return publisher.publish(parsed)[0]

    request(config, sending, parsed.table, ask, again=True)
