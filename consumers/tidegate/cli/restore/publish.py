"""`tidegate publish`: publish events and requests from a shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from tidegate.cli.deployment import located, whole_request_id
from tidegate.cli.options import duration, one_of, option_group, person, read_model, table_of
from tidegate.cli.output import write_error
from tidegate.cli.sending import (
    ANSWERED,
    CLI,
    Requesting,
    Sending,
    print_receipt,
    publisher_of,
    request,
)
from tidegate.errors import ConfigError
from tidegate.events import (
    CommitCompleted,
    DeadLetterDiscarded,
    DeadLetterRedriven,
    ReleaseReason,
    TableType,
    Value,
)
from tidegate.events.topics import EVENT_TYPES, SERVICES, topic_of
from tidegate.hudi.instant import is_instant
from tidegate.publisher import Publisher, Receipt
from tidegate.service.settings import Settings


class PlanFile(Value, frozen=True, title="restore's plan"):
    """The content of the file. `instants` and the counts are for the people who read it."""

    kind: Literal["tidegate-restore-plan"] = "tidegate-restore-plan"
    version: Literal[1] = 1
    table: str | None = None
    location: str
    savepoint: str
    plan_id: str
    instants: tuple[str, ...]
    files: int
    bytes: int
    resumes: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do: the savepoint is the newest commit."""
        return not self.instants and self.resumes is None


publish = typer.Typer(
    help="Publish an event; returns once the broker confirms it.", no_args_is_help=True
)


@publish.command()
@option_group(Requesting)
def savepoint(
    asking: Requesting,
    table: str,
    instant: str | None = None,
    reason: str = "",
    lifetime: str | None = None,
    location: str | None = None,
) -> None:
    """Request a savepoint on a Hudi table.

    Options:
        instant: Instant to save, or latest; by default the newest completed.
        reason: Why; stands in the savepoint's metadata.
        lifetime: Have it removed after this time, e.g. 30d; default: kept until asked.

    Examples:
        tidegate publish savepoint -t lake.sales.orders --reason 'before the migration' --wait
        tidegate publish savepoint -t lake.sales.orders --lifetime 30d
    """
    seconds = None if lifetime is None else int(duration(lifetime).total_seconds())
    if instant not in {None, "latest"} and not is_instant(instant or ""):
        raise ConfigError(f"--instant {instant}: give an instant of the timeline, or latest")
    request(
        asking,
        table,
        Publisher.request_savepoint,
        location=location,
        instant=None if instant == "latest" else instant,
        comment=reason,
        lifetime_seconds=seconds,
    )


@publish.command()
@option_group(Requesting)
def savepoint_removal(
    asking: Requesting,
    table: str,
    savepoint: Annotated[str, typer.Option("--savepoint", "--instant")],
    reason: str,
    location: str | None = None,
) -> None:
    """Request the removal of any savepoint, so that Hudi may clean its files.

    Options:
        savepoint: The savepoint: an instant, latest, latest~1 ...

    Examples:
        tidegate plan savepoint-removal -t lake.sales.orders --savepoint 20261121041551845
        tidegate publish savepoint-removal -t lake.sales.orders --savepoint 20261121041551845
            --reason 'no longer needed' --wait
    """
    ask = Publisher.request_savepoint_removal
    where = located(Settings.load(asking.config), table, location)
    chosen = _chosen(asking, where, savepoint)
    request(asking, table, ask, location=where, instant=chosen, reason=reason)


@publish.command()
@option_group(Requesting)
def restore(
    asking: Requesting,
    reason: str,
    plan: Path | None = None,
    table: str | None = None,
    location: str | None = None,
    savepoint: str | None = None,
    plan_only: bool = False,
    expected_plan: str | None = None,
    seen_up_to: str | None = None,
) -> None:
    """Request a restore, which destroys every commit after the savepoint.

    Options:
        plan: The plan that you read: `tidegate plan restore --out` wrote it.
        savepoint: The savepoint to return to: an instant, latest, or latest~1 ...
        plan_only: Only plan: publish the plan, change nothing.
        expected_plan: Refuse unless the plan has this id.
        seen_up_to: Latest instant known to you: later commits are never destroyed.

    Examples:
        tidegate plan restore -t lake.sales.orders --savepoint latest --out plan.json
        tidegate publish restore --plan plan.json --reason 'a bad load' --wait --timeout 1h
    """
    given = {"table": table_of(table), "location": location, "savepoint": savepoint}
    given["plan_id"] = expected_plan
    wanted = _completed(asking, plan, given, ("table", "savepoint"))
    chosen = _chosen(asking, wanted["location"] or "", wanted["savepoint"] or "")
    request(
        asking,
        wanted["table"] or "",
        Publisher.request_restore,
        location=wanted["location"],
        savepoint=chosen,
        reason=reason,
        plan_only=plan_only,
        expected_plan=wanted["plan_id"],
        seen_up_to=seen_up_to,
    )


@publish.command()
@option_group(Sending)
def approval(
    sending: Sending,
    restore_request: Annotated[str, typer.Option("--request")],
    reason: str,
    plan: Path | None = None,
    table: str | None = None,
    location: str | None = None,
    plan_id: str | None = None,
    requested_by: str | None = None,
    request_id: str | None = None,
) -> None:
    """Approve a restore that another person requested; it is then carried out.

    Options:
        restore_request: Id of the restore's request, or its first characters.
        plan: The plan that you read: `tidegate plan restore --out` wrote it.
        plan_id: Id of the plan that you read; any other is refused.

    Examples:
        tidegate plan restore -t lake.sales.orders --savepoint 20261121041551845 --out plan.json
        tidegate publish approval --request 1b9ce7ae-5c0c-4a35-9d4e-2f2d6f0c8a51 --plan plan.json
            --reason 'checked with finance' --wait
    """
    given = {"table": table_of(table), "location": location, "plan_id": plan_id}
    wanted = _completed(sending, plan, given, ("table", "plan_id"))
    settings, name = Settings.load(sending.config), wanted["table"] or ""
    request(
        sending,
        name,
        Publisher.approve_restore,
        again=request_id is not None,
        location=wanted["location"],
        request=whole_request_id(settings, name, restore_request, new=sending.new),
        plan_id=wanted["plan_id"],
        approved_by=person(requested_by),
        reason=reason,
        approval_id=request_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending(Requesting):
    """Options of a person's word against a request.

    Options:
        request_of: Id of the request, or its first characters.
    """

    request_of: Annotated[str, typer.Option("--request")]
    table: str
    reason: str
    location: str | None = None


@publish.command()
@option_group(_Ending)
def withdraw(ending: _Ending) -> None:
    """Withdraw a request that has not begun to change the table.

    Examples:
        tidegate publish withdraw -t lake.sales.orders
            --request 1b9ce7ae-5c0c-4a35-9d4e-2f2d6f0c8a51 --reason 'repaired' --wait
    """
    _end(ending, as_approver=False)


@publish.command()
@option_group(_Ending)
def rejection(ending: _Ending) -> None:
    """Reject a restore that another person requested, as its approver.

    Examples:
        tidegate publish rejection -t lake.sales.orders
            --request 1b9ce7ae-5c0c-4a35-9d4e-2f2d6f0c8a51 --reason 'month end' --wait
    """
    _end(ending, as_approver=True)


def _end(ending: _Ending, *, as_approver: bool) -> None:
    settings = Settings.load(ending.config)
    request(
        ending,
        ending.table,
        Publisher.withdraw,
        location=ending.location,
        request=whole_request_id(settings, ending.table, ending.request_of, new=ending.new),
        reason=ending.reason,
        as_approver=as_approver,
    )


def _chosen(sending: Sending, location: str, savepoint: str) -> str:
    """The instant of a savepoint; the table is read unless it is given as an instant."""
    if is_instant(savepoint):
        return savepoint
    from tidegate.savepoints.listing import chosen_savepoint  # noqa: PLC0415 - reads tables
    from tidegate.service.assembly import table_work  # noqa: PLC0415

    warehouse, _ = table_work(Settings.load(sending.config))
    return chosen_savepoint(warehouse, location, savepoint)


def _completed(
    sending: Sending, file: Path | None, given: Mapping[str, str | None], needed: Sequence[str]
) -> dict[str, str | None]:
    """The options' values; missing ones come from the plan's file, the location from events.

    Raises:
        ConfigError: the file can't be read, is not a plan, there is nothing to do, or an option
            contradicts it; or a needed value is in neither of them.
    """
    plan = None if file is None else read_model(PlanFile, file)
    if plan is not None and plan.is_empty:
        newest = f"{plan.savepoint} is the table's newest commit"
        raise ConfigError(f"{file}: there is nothing to do, {newest}")
    wanted = dict[str, str | None]()
    for name, value in given.items():
        own = getattr(plan, name, None)
        if own and value and own != value:
            raise ConfigError(f"the plan is for {name} {own}, not {value}")
        wanted[name] = own or value
    if missing := [f"--{name.replace('_', '-')}" for name in needed if not wanted[name]]:
        otherwise = "" if plan else ", or --plan, which has them"
        raise ConfigError(f"missing: {', '.join(missing)}{otherwise}")
    where = located(Settings.load(sending.config), wanted["table"], wanted["location"])
    return wanted | {"location": where}


_Action = Literal[
    "commit", "deltacommit", "replacecommit", "compaction", "logcompaction", "clustering"
]
"""The actions of completed writes on a Hudi timeline."""


@publish.command()
def commit(
    table: str,
    instant: str,
    action: _Action | None = None,
    operation: str | None = None,
    completion_time: str | None = None,
    table_type: TableType | None = None,
    location: str | None = None,
    source: str = CLI,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Publish that a commit was completed on a Hudi table.

    Where the table's timeline can be read from here, all but the table's name is read off it, and
    an option that contradicts it is refused.

    Options:
        instant: The completed instant; or latest: the one that the timeline completed last.
        action: The action of the instant; commit, where the timeline can't be read.
        operation: What the writer did, e.g. upsert or insert_overwrite.
        completion_time: When it completed, as in the timeline's file name.
        table_type: The type of the table; copy_on_write, where the timeline can't be read.

    Examples:
        tidegate publish commit -t lake.sales.orders --instant 20261121041551845 --operation upsert
    """
    from tidegate.cli.restore.commits import completed_commit  # noqa: PLC0415 - reads tables

    settings = Settings.load(config)
    where = located(settings, table, location)
    given = {"action": action, "operation": operation, "completion_time": completion_time}
    given["table_type"] = table_type
    found = completed_commit(table, where, instant, source, given)
    with publisher_of(settings, source) as publisher:
        if isinstance(found, CommitCompleted):
            receipt = publisher.publish(found)[0]
        else:
            receipt = publisher.commit(
                table=table,
                location=where,
                instant=instant,
                action=action or "commit",
                operation=operation,
                completion_time=completion_time,
                table_type=table_type or TableType.COPY_ON_WRITE,
            )
        print_receipt(receipt, as_json=as_json)
        _note_unchecked(found)


def _note_unchecked(found: CommitCompleted | str) -> None:
    if isinstance(found, str):
        write_error(f"note: the instant was not compared with the timeline: {found}")


@publish.command()
def lock_released(
    table: str,
    lock_id: int | None = None,
    transaction_id: int | None = None,
    reason: ReleaseReason = ReleaseReason.UNLOCKED,
    location: str | None = None,
    source: str = CLI,
    sign_with: Path | None = None,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Publish that a lock or a transaction ended on a table.

    Options:
        lock_id: Lock id of the metastore.
        transaction_id: Transaction id of the metastore.
        reason: Why it ended.

    Examples:
        tidegate publish lock-released -t lake.sales.orders --lock-id 16 --reason committed
    """
    settings = Settings.load(config)
    where = located(settings, table, location)
    with publisher_of(settings, source, sign_with) as publisher:
        receipt = publisher.lock_released(
            table=table,
            location=where,
            lock_id=lock_id,
            transaction_id=transaction_id,
            reason=reason,
        )
        print_receipt(receipt, as_json=as_json)


@publish.command()
def condemned(
    table: str,
    instant: str,
    reason: str,
    location: str | None = None,
    source: str = CLI,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Publish that a commit is bad; what follows is a setting of the table (restores.rules).

    The instant is compared with the timeline, where that can be read from here.

    Options:
        instant: The bad commit's instant.
        reason: What is wrong with it, for the audit trail.

    Examples:
        tidegate publish condemned -t lake.sales.orders --instant 20261121041551845
            --reason 'doubled every order'
    """
    from tidegate.cli.restore.commits import completed_commit  # noqa: PLC0415 - reads tables

    settings = Settings.load(config)
    where = located(settings, table, location)
    found = completed_commit(table, where, instant, source, {})
    with publisher_of(settings, source) as publisher:
        receipt = publisher.commit_condemned(
            table=table, location=where, instant=instant, reason=reason
        )
        print_receipt(receipt, as_json=as_json)
        _note_unchecked(found)


_OUTSIDE: Final = tuple(
    name for name, kind in EVENT_TYPES.items() if not {*topic_of(kind).written_by} & {*SERVICES}
)
"""The events that writers, bridges and people publish."""


@publish.command()
@option_group(Sending)
def event(
    sending: Sending,
    kind: Annotated[str, typer.Argument(help=f"{', '.join(_OUTSIDE)}.")],
    file: Path,
) -> None:
    """Publish an event of a writer or a person from JSON; see `tidegate schemas example KIND`.

    Positional:
        file: File with the event as JSON; - for standard input.

    Examples:
        tidegate schemas example VacuumFinished > vacuum.json
        tidegate publish event VacuumFinished vacuum.json --wait
    """
    name = one_of(EVENT_TYPES, kind, "event")
    if name not in _OUTSIDE:
        topic = topic_of(EVENT_TYPES[name])
        writers = " or ".join(role for role in topic.written_by if role in SERVICES)
        if issubclass(EVENT_TYPES[name], DeadLetterDiscarded | DeadLetterRedriven):
            writers = "`tidegate dead-letters`"
        raise ConfigError(f"a {name} is published by {writers} only, on the topic {topic.suffix}")
    parsed = read_model(EVENT_TYPES[name], file)
    if sending.wait and not isinstance(parsed, ANSWERED):
        raise ConfigError(f"--wait: no service answers a {name}")

    # an event has the same id when it is published again: it may have its outcome already
    def ask(publisher: Publisher, **_: object) -> Receipt:
        return publisher.publish(parsed)[0]

    request(sending, parsed.table, ask, again=True)
