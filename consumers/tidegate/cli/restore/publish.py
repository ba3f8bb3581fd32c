"""`tidegate publish`: publish events and requests from a shell."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.deployment import located
from tidegate.cli.options import (
    ConfigFile,
    Location,
    OptionalTableName,
    TableName,
    one_of,
    option_group,
    read_event,
)
from tidegate.cli.restore.requests import approval, restore, savepoint, savepoint_removal
from tidegate.cli.sending import (
    ANSWERED,
    CLI,
    SaidBy,
    Sending,
    print_receipt,
    publisher_of,
    request,
)
from tidegate.errors import ConfigError
from tidegate.events import LockHold, ReleaseReason, TableType, VacuumFinished, VacuumKind
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.publisher import Publisher, Receipt
from tidegate.service.settings import Settings

publish = typer.Typer(
    help="Publish an event; returns once the broker confirms it.", no_args_is_help=True
)
publish.command()(savepoint)
publish.command()(savepoint_removal)
publish.command()(restore)
publish.command()(approval)


class CommitAction(StrEnum):
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
        CommitAction, typer.Option(help="The action of the instant.")
    ] = CommitAction.COMMIT,
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
    config: ConfigFile = None,
) -> None:
    """Publish that a commit was completed on a Hudi table.

    With --instant latest, all but the table's name is read off its timeline.
    """
    with publisher_of(config, source) as publisher:
        location = publisher.located(table, location)
        if instant == "latest":
            print_receipt(publisher.commit_latest(table=table, location=location))
            return
        print_receipt(
            publisher.commit(
                table=table,
                location=location,
                instant=instant,
                action=action.value,
                operation=operation,
                completion_time=completion_time,
                table_type=table_type,
            )
        )


@publish.command()
@option_group(Sending)
def vacuum(
    sending: Sending,
    file: Annotated[
        Path | None, typer.Option(help="The whole event as JSON; - for standard input.")
    ] = None,
    table: OptionalTableName = None,
    location: Location = None,
    kind: Annotated[VacuumKind | None, typer.Option(help="What the vacuum made.")] = None,
    partition: Annotated[str | None, typer.Option(help="As a path below the table.")] = None,
    directory: Annotated[
        list[str] | None, typer.Option(help="A directory that it made; repeat for more.")
    ] = None,
    min_write_id: Annotated[int | None, typer.Option(min=0, help="First compacted.")] = None,
    max_write_id: Annotated[int | None, typer.Option(min=0, help="Last compacted.")] = None,
    valid_write_ids: Annotated[
        str | None, typer.Option(help="Its snapshot, as Hive's ValidWriteIdList.")
    ] = None,
    own_lock_id: Annotated[int | None, typer.Option(min=0, help="Its own lock.")] = None,
    own_transaction_id: Annotated[
        int | None, typer.Option(min=0, help="Its own transaction, if it has one.")
    ] = None,
    lock: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[:TXN[:OWNER]]",
            help="A lock held when it became visible; repeat. Its own is added by itself.",
        ),
    ] = None,
    open_transaction: Annotated[
        list[int] | None, typer.Option(min=0, help="A transaction open then; repeat.")
    ] = None,
    source: SaidBy = CLI,
    config: ConfigFile = None,
) -> None:
    """Publish that a vacuum (a compaction) of a Hive ACID table became visible, with its holds."""
    fields = {
        "table": table,
        "kind": kind,
        "directories": directory,
        "min_write_id": min_write_id,
        "max_write_id": max_write_id,
        "valid_write_ids": valid_write_ids,
        "own_lock_id": own_lock_id,
    }
    if file is not None:
        others = (partition, own_transaction_id, lock, open_transaction)
        if any(value is not None for value in (*fields.values(), location, *others)):
            raise ConfigError("give --file or the fields of the vacuum, not both")
        event = read_event(VacuumFinished, file)
        request(
            config,
            sending,
            event.table,
            lambda it: it.publish(event)[0],
            again=True,
        )
        return
    if missing := [name for name, value in fields.items() if value in (None, [])]:
        options = ", ".join("--" + _option(name) for name in missing)
        raise ConfigError(f"missing: {options}; or give the whole event with --file")
    where = located(Settings.load(config), table, location)
    locks = [_lock(text) for text in lock or ()]
    if own_lock_id not in {lock.lock_id for lock in locks}:
        locks.insert(0, LockHold(lock_id=own_lock_id or 0, transaction_id=own_transaction_id))

    def send(publisher: Publisher) -> Receipt:
        return publisher.vacuum_finished(
            **fields,  # type: ignore[arg-type]  # none of them is missing, the event checks the rest
            location=where,
            partition=partition,
            own_transaction_id=own_transaction_id,
            locks=locks,
            open_transactions=open_transaction or (),
        )

    # a vacuum has the same id when it is published again: it may have its outcome already
    request(config, sending, table or "", send, again=True, source=source)


def _option(field: str) -> str:
    return "directory" if field == "directories" else field.replace("_", "-")


def _lock(text: str) -> LockHold:
    """A lock from ID[:TXN[:OWNER]].

    Raises:
        ConfigError: it is written otherwise.
    """
    lock_id, _, rest = text.partition(":")
    txn, _, owner = rest.partition(":")
    if not lock_id.isdecimal() or not (txn.isdecimal() or not txn):
        raise ConfigError(f"--lock {text!r}: write ID, ID:TXN, ID:TXN:OWNER or ID::OWNER")
    return LockHold(
        lock_id=int(lock_id), transaction_id=int(txn) if txn else None, owner=owner or None
    )


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
    config: ConfigFile = None,
) -> None:
    """Publish that a lock or a transaction ended on a table."""
    with publisher_of(config, source) as publisher:
        print_receipt(
            publisher.lock_released(
                table=table,
                location=publisher.located(table, location),
                lock_id=lock_id,
                transaction_id=transaction_id,
                reason=reason,
            )
        )


@publish.command()
def condemned(
    table: TableName,
    instant: Annotated[str, typer.Option(help="The bad commit's instant.")],
    reason: Annotated[str, typer.Option(help="What is wrong with it, for the audit trail.")],
    location: Location = None,
    source: SaidBy = CLI,
    config: ConfigFile = None,
) -> None:
    """Publish that a commit is bad; what follows is a setting of the table (restores.rules)."""
    with publisher_of(config, source) as publisher:
        print_receipt(
            publisher.commit_condemned(
                table=table,
                location=publisher.located(table, location),
                instant=instant,
                reason=reason,
            )
        )


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
    """Publish any event from JSON; `tidegate schemas example KIND` prints one to start from."""
    name = one_of(EVENT_TYPES, kind, "event")
    parsed = read_event(EVENT_TYPES[name], file)
    if sending.wait and not isinstance(parsed, ANSWERED):
        raise ConfigError(f"--wait: no service answers a {name}")
    # an event has the same id when it is published again: it may have its outcome already
    request(config, sending, parsed.table, lambda it: it.publish(parsed)[0], again=True)
