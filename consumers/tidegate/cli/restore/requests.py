"""`tidegate publish savepoint`, `restore`, `approval`, `withdraw` ...: what people ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.deployment import located, whole_request_id
from tidegate.cli.options import (
    ConfigFile,
    Location,
    OptionalTableName,
    Reason,
    TableName,
    duration,
    option_group,
    person,
)
from tidegate.cli.restore.plan_file import PlanFile
from tidegate.cli.sending import RequestId, Requesting, Sending, request
from tidegate.errors import ConfigError
from tidegate.publisher import Publisher
from tidegate.service.settings import Settings

PlanPath = Annotated[
    Path | None,
    typer.Option(help="The plan that you read: `tidegate plan restore --out` wrote it."),
]


@option_group(Requesting)
def savepoint(
    asking: Requesting,
    table: TableName,
    instant: Annotated[
        str | None,
        typer.Option(help="Instant to save, or latest; by default the newest completed."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; stands in the savepoint's metadata.")] = "",
    lifetime: Annotated[
        str | None,
        typer.Option(help="Have it removed after this time, e.g. 30d; default: kept until asked."),
    ] = None,
    location: Location = None,
    config: ConfigFile = None,
) -> None:
    """Request a savepoint on a Hudi table.

    Examples:
        tidegate publish savepoint -t lake.sales.orders --reason 'before the migration' --wait
        tidegate publish savepoint -t lake.sales.orders --lifetime 30d
    """
    seconds = None if lifetime is None else int(duration(lifetime).total_seconds())
    request(
        config,
        asking,
        table,
        Publisher.request_savepoint,
        location=located(Settings.load(config), table, location),
        instant=None if instant == "latest" else instant,
        comment=reason,
        lifetime_seconds=seconds,
    )


@option_group(Requesting)
def savepoint_removal(
    asking: Requesting,
    table: TableName,
    savepoint: Annotated[
        str, typer.Option("--savepoint", "--instant", help="Instant of the savepoint.")
    ],
    reason: Reason,
    location: Location = None,
    config: ConfigFile = None,
) -> None:
    """Request the removal of any savepoint, so that Hudi may clean its files.

    Examples:
        tidegate plan savepoint-removal -t lake.sales.orders --savepoint 20261121041551845
        tidegate publish savepoint-removal -t lake.sales.orders --savepoint 20261121041551845
            --reason 'no longer needed' --wait
    """
    found = located(Settings.load(config), table, location)
    ask = Publisher.request_savepoint_removal
    request(config, asking, table, ask, location=found, instant=savepoint, reason=reason)


@option_group(Requesting)
def restore(
    asking: Requesting,
    reason: Reason,
    plan: PlanPath = None,
    table: OptionalTableName = None,
    location: Location = None,
    savepoint: Annotated[
        str | None,
        typer.Option(help="The savepoint to return to: an instant, latest, or latest~1 ..."),
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
    config: ConfigFile = None,
) -> None:
    """Request a restore, which destroys every commit after the savepoint.

    Examples:
        tidegate plan restore -t lake.sales.orders --savepoint latest --out plan.json
        tidegate publish restore --plan plan.json --reason 'a bad load' --wait --timeout 1h
    """
    given = {"table": table, "location": location, "savepoint": savepoint}
    given["plan_id"] = expected_plan
    wanted = _completed(config, plan, given, ("table", "savepoint"))
    chosen = _chosen(config, wanted["location"] or "", wanted["savepoint"] or "")
    request(
        config,
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


@option_group(Sending)
def approval(
    sending: Sending,
    restore_request: Annotated[
        str, typer.Option("--request", help="Id of the restore's request, or its first characters.")
    ],
    reason: Reason,
    plan: PlanPath = None,
    table: OptionalTableName = None,
    location: Location = None,
    plan_id: Annotated[
        str | None, typer.Option(help="Id of the plan that you read; any other is refused.")
    ] = None,
    approved_by: Annotated[
        str | None, typer.Option(help="Who approves; by default your login name.")
    ] = None,
    request_id: RequestId = None,
    config: ConfigFile = None,
) -> None:
    """Approve a restore that another person requested; it is then carried out.

    Examples:
        tidegate plan restore -t lake.sales.orders --savepoint 20261121041551845 --out plan.json
        tidegate publish approval --request 1b9ce7ae-5c0c-4a35-9d4e-2f2d6f0c8a51 --plan plan.json
            --reason 'checked with finance' --wait
    """
    given = {"table": table, "location": location, "plan_id": plan_id, "savepoint": None}
    wanted = _completed(config, plan, given, ("table", "plan_id"))
    name = wanted["table"] or ""
    request(
        config,
        sending,
        name,
        Publisher.approve_restore,
        again=request_id is not None,
        location=wanted["location"],
        request=whole_request_id(Settings.load(config), name, restore_request),
        plan_id=wanted["plan_id"],
        approved_by=person(approved_by),
        reason=reason,
        approval_id=request_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending(Requesting):
    """Options of a person's word against a request."""

    request_of: Annotated[
        str, typer.Option("--request", help="Id of the request, or its first characters.")
    ]
    table: TableName
    reason: Reason
    location: Location = None
    config: ConfigFile = None


@option_group(_Ending)
def withdraw(ending: _Ending) -> None:
    """Withdraw a request that has not begun to change the table.

    Examples:
        tidegate publish withdraw -t lake.sales.orders
            --request 1b9ce7ae-5c0c-4a35-9d4e-2f2d6f0c8a51 --reason 'repaired' --wait
    """
    _end(ending, as_approver=False)


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
        ending.config,
        ending,
        ending.table,
        Publisher.withdraw,
        location=located(settings, ending.table, ending.location),
        request=whole_request_id(settings, ending.table, ending.request_of),
        reason=ending.reason,
        as_approver=as_approver,
    )


def _chosen(config: Path | None, location: str, savepoint: str) -> str:
    """The instant of a savepoint; only for `latest` the table is read."""
    if not savepoint.startswith("latest"):
        return savepoint
    from tidegate.savepoints.listing import chosen_savepoint  # noqa: PLC0415 - reads tables
    from tidegate.service.assembly import table_work  # noqa: PLC0415

    warehouse, _ = table_work(Settings.load(config))
    return chosen_savepoint(warehouse, location, savepoint)


def _completed(
    config: Path | None, plan: Path | None, given: dict[str, str | None], needed: Sequence[str]
) -> dict[str, str | None]:
    """The options' values; missing ones come from the plan's file, the location from events.

    Raises:
        ConfigError: a needed value is in neither of them.
    """
    wanted = PlanFile.read(plan).completed(given) if plan else given
    if missing := [f"--{name.replace('_', '-')}" for name in needed if not wanted[name]]:
        raise ConfigError(f"missing: {', '.join(missing)}")
    return wanted | {
        "location": located(Settings.load(config), wanted["table"], wanted["location"])
    }
