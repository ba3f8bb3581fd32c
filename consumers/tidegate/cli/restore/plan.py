"""`tidegate plan`: what would be done to a table now. Nothing is changed or published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from tidegate.cleaning.confirmation import NOT_NOW
from tidegate.cli.deployment import located
from tidegate.cli.options import read_model, table_of
from tidegate.cli.output import write, write_blocks, write_json, write_rows
from tidegate.cli.restore.publish import PlanFile
from tidegate.coordinator.readers import command_for
from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.events import CleaningMode, CommitCompleted, RestoreAwaitingApproval, VacuumFinished
from tidegate.events.reasons import Reason
from tidegate.events.topics import COMMITS
from tidegate.hudi.instant import InstantState
from tidegate.ops.event_log import EventFilter, EventLog, LoggedEvent
from tidegate.ops.status import awaiting_approval
from tidegate.ops.summary import age_of, approval_command, asked_by, counted, size
from tidegate.restores.plan import PlannedRestore
from tidegate.restores.preparation import plan_restore
from tidegate.savepoints.listing import chosen_savepoint, savepoints_of
from tidegate.savepoints.removal import plan_freeing
from tidegate.savepoints.retention import Check
from tidegate.savepoints.rules import rule_of
from tidegate.savepoints.timeline_view import TimelineViews
from tidegate.service.assembly import cleaner, restore_settings, table_work
from tidegate.service.settings import Settings
from tidegate.tables.hudi import check_owner, open_table, refusing_unreadable
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse
from tidegate.tables.warehouse.roots import spellings_of

plan = typer.Typer(help="Dry runs: what would be done to a table.", no_args_is_help=True)
_SHOWN: Final = 20
"""How many commits or paths are shown; --json has all paths."""


@plan.command()
def restore(
    savepoint: str,
    table: str | None = None,
    location: str | None = None,
    out: typer.FileTextWrite | None = None,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show what a restore would destroy. Exit code 1 if it would be refused.

    Options:
        savepoint: The savepoint: an instant, latest, latest~1 ...
        out: Write the plan to this file, for: publish restore --plan.

    Examples:
        tidegate plan restore -t lake.sales.orders --savepoint 20261121041551845
        tidegate plan restore -t lake.sales.orders --savepoint latest~1 --out plan.json
    """
    settings, name = Settings.load(config), table_of(table)
    where = located(settings, name, location)
    warehouse, _ = table_work(settings)
    restores = restore_settings(settings)
    by_hudi = restores.are_by_hudi(table or "", *spellings_of(where))
    chosen = chosen_savepoint(warehouse, where, savepoint)
    try:
        if name is not None:
            check_owner(warehouse, where, name)
        planned = plan_restore(warehouse, where, chosen, restores, by_hudi=by_hudi)
    except Refused as refused:
        if refused.reason is Reason.GREATER_SAVEPOINT:
            for removal in _removals(warehouse, where, name, chosen):
                write(settings.security.suggested(removal))
        raise
    plan = PlanFile(
        table=name,
        location=where,
        savepoint=planned.savepoint,
        plan_id=planned.plan_id,
        instants=tuple(f"{target.action} {target.timestamp}" for target in planned.targets),
        files=planned.files,
        bytes=planned.bytes,
        resumes=planned.resumes,
    )
    if out is not None and not plan.is_empty:  # the file is made when it is first written
        out.write(plan.model_dump_json(indent=2) + "\n")
    if not as_json:
        published = name if location is None else None  # with a location no broker is needed
        publishers = _publishers(settings, published) if published else {}
        waiting = awaiting_approval(settings, published) if published else []
        for line in _sentences(
            plan, planned, list(_commits(warehouse, where, planned, publishers))
        ):
            write(line)
        for line in _next(settings, plan, out.name if out else None, waiting):
            write(line)
        return
    fields = plan.model_dump(include={"savepoint", "plan_id", "instants", "files", "bytes"})
    fields |= {"resumes": plan.resumes, "locks_looked_at": restores.checked_locks}
    if by_hudi:
        fields["carried_out_by"] = "Hudi's rollback_to_savepoint"
    paths = [file.path for step in planned.steps for file in step.files]
    write_json({**fields, "nothing_to_do": plan.is_empty, "paths": paths})


def _removals(
    warehouse: Warehouse, location: str, table: str | None, savepoint: str
) -> Iterator[str]:
    """The commands that remove the later savepoints, newest first."""
    later = sorted(row["savepoint"] for row in savepoints_of(warehouse, location))
    for instant in reversed(later):
        if instant > savepoint:
            yield _removal(location, table, instant)


def _removal(location: str, table: str | None, savepoint: str) -> str:
    """The command that requests the removal of a savepoint."""
    return command_line(
        "publish savepoint-removal",
        table=table or "CATALOG.DATABASE.TABLE",
        location=None if table else location,
        savepoint=savepoint,
        reason="WHY",
        wait=True,
    )


def _sentences(plan: PlanFile, planned: PlannedRestore, commits: Sequence[str]) -> Iterator[str]:
    """The plan for people."""
    if plan.is_empty:
        yield f"nothing to do: {plan.savepoint} is the table's newest commit"
        return
    if plan.resumes is not None:
        yield f"This goes on with the restore {plan.resumes}, which was not completed."
    of = plan.table or plan.location
    if len(commits) == 1:
        yield f"This destroys 1 commit of {of}: {commits[0]}."
    elif commits:
        yield f"This destroys {counted(len(plan.instants), 'commit')} of {of}, newest first:"
        yield from (f"  {commit}" for commit in commits)
    if (more := len(plan.instants) - len(commits)) > 0:
        yield f"  ... and {more} more; --json lists all"
    yield f"{counted(plan.files, 'file')}, {size(plan.bytes)}. Nothing else changes."
    if planned.metadata_table is not None:
        yield f"Metadata table: {planned.metadata_table}"
    if planned.by_hudi:
        yield "Hudi's own rollback_to_savepoint carries it out."


def _commits(
    warehouse: Warehouse, location: str, planned: PlannedRestore, publishers: Mapping[str, str]
) -> Iterator[str]:
    """The newest commits that a restore destroys: time, operation, rows and publisher."""
    table = open_table(warehouse, location, any_kind=planned.by_hudi)
    completed = {
        instant.timestamp: instant
        for instant in table.files
        if instant.state is InstantState.COMPLETED
    }
    for target in planned.targets[:_SHOWN]:
        stamp = target.timestamp
        parts = [f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[8:10]}:{stamp[10:12]}"]
        if (instant := completed.get(stamp)) is None:
            parts.append(f"unfinished {target.action}")
        else:
            commit = table.read_commit(instant)
            parts.append((commit.operation or target.action).lower())
            if rows := sum(write.records for write in commit.writes):
                parts.append(counted(rows, "row"))
        if stamp in publishers:
            parts.append(f"by {publishers[stamp]}")
        yield f"{', '.join(parts)} ({stamp})"


def _publishers(settings: Settings, table: str) -> dict[str, str]:
    """The applications that published a table's commits, by instant."""
    commits = EventLog.of(settings).read(COMMITS, EventFilter((table,)))
    return {
        logged.event.instant: logged.event.source
        for logged in commits
        if isinstance(logged.event, CommitCompleted)
    }


def _next(
    settings: Settings, plan: PlanFile, out: str | None, waiting: Sequence[LoggedEvent]
) -> Iterator[str]:
    """How the plan is carried out, and whether a second person has to approve it."""
    for logged in waiting:
        if isinstance(event := logged.event, RestoreAwaitingApproval):
            is_this = event.plan_id == plan.plan_id
            which = "This restore" if is_this else f"Another restore, to {event.savepoint},"
            age = age_of(datetime.now(UTC) - logged.at)
            yield (
                f"{which} was requested by {asked_by(event)}, and has waited for an approval for"
                f" {age}: {settings.security.suggested(approval_command(event))}"
            )
            if is_this:
                return
    if plan.is_empty:
        if out is not None:
            yield f"{out} was not written"
        return
    rule = restore_settings(settings).rule_of(None, *spellings_of(plan.location))
    if rule is not None and rule.approval:
        yield "A second person has to approve it before it is carried out."
    yield f"To do it: {settings.security.suggested(_request(plan, out))}"


def _request(plan: PlanFile, out: str | None) -> str:
    """The command that requests exactly this plan."""
    if out is not None and plan.table is not None:
        return command_line("publish restore", plan=out, reason="WHY", wait=True)
    return command_line(
        "publish restore",
        table=plan.table or "CATALOG.DATABASE.TABLE",
        location=plan.location,
        savepoint=plan.savepoint,
        expected_plan=plan.plan_id,
        reason="WHY",
        wait=True,
    )


@plan.command()
def savepoint_removal(
    savepoint: str,
    table: str | None = None,
    location: str | None = None,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show what removing a savepoint would free. Exit code 1 if it would be refused.

    The files stay until Hudi's own cleaner removes them.

    Options:
        savepoint: The savepoint: an instant, latest, latest~1 ...

    Examples:
        tidegate plan savepoint-removal -t lake.sales.orders --savepoint 20261121041551845
    """
    settings, name = Settings.load(config), table_of(table)
    where = located(settings, name, location)
    warehouse, parallel_map = table_work(settings)
    chosen = chosen_savepoint(warehouse, where, savepoint)
    planned = plan_freeing(warehouse, where, chosen, parallel_map)
    if as_json:
        write_json(planned)
        return
    paths, freed = planned.pop("paths"), planned.pop("freed")
    _show(planned)
    _show_paths("would remove", paths)
    _show_paths("Hudi may clean", freed)
    if not planned["savepoints_left"]:
        write("It is the table's last savepoint: without one the table can't be restored.")
    write(f"To do it: {settings.security.suggested(_removal(where, name, chosen))}")


@plan.command()
def retention(
    table: str | None = None,
    location: str | None = None,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show what these settings' savepoint policy would make and remove, now.

    Before changed settings are deployed: the services apply them at the table's next check. Without
    a table, of all tables whose commits were published.

    Options:
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate plan retention -c changed.toml
        tidegate plan retention -t lake.sales.orders --json | jq -r .savepoint
    """
    settings = Settings.load(config)
    name = table_of(table)
    if name is None and location is not None:
        raise ConfigError("give --table too: rules go by the names of tables")
    where = {name: located(settings, name, location)} if name else _published(settings)
    warehouse, _ = table_work(settings)
    now = datetime.now(UTC)
    views = TimelineViews(warehouse, lambda: now)
    rows = list[dict[str, object]]()
    for named, at in where.items():
        rule = rule_of(settings.savepoints, named)
        try:
            with refusing_unreadable():
                view = views.of(open_table(warehouse, at), rule)
        except (Refused, PermissionError) as error:
            if name:
                raise
            why = error.message if isinstance(error, Refused) else str(error)
            rows.append({"table": named, "savepoint": None, "would": "be refused", "why": why})
        else:
            policies = {saved.instant: saved.policy for saved in view.savepoints}
            found = _of_retention(view.check(rule, now), policies)
            rows += [{"table": named} | row for row in found]
    write_rows(rows, "nothing would be made or removed", as_json=as_json)


def _published(settings: Settings) -> dict[str, str]:
    """Where the tables are whose commits were published, by the newest commit of each."""
    found = dict[str, str]()
    for logged in EventLog.of(settings).read(COMMITS):
        if logged.event is not None:
            found[logged.event.table] = logged.event.location
    return dict(sorted(found.items()))


def _of_retention(found: Check, policies: Mapping[str, str | None]) -> Iterator[dict[str, object]]:
    unowned = "no rule of the table owns policy "
    for instant, would, why in (
        *((at, "be made", ", ".join(tiers)) for at, tiers in found.due.items()),
        *((at, "be withheld", "max_count") for at in found.withheld),
        *((at, "be removed", why) for at, why in found.removable.items()),
        *((at, "stay", f"{unowned}{policies[at]}") for at in found.unowned),
    ):
        yield {"savepoint": instant, "would": would, "why": why}


@plan.command()
def clean(vacuum: Path, as_json: bool = False, config: Path | None = None) -> None:
    """Show what would be removed once a vacuum's holds are gone. Exit code 1 if refused.

    Positional:
        vacuum: VacuumFinished as JSON; - for standard input.

    Examples:
        tidegate plan clean vacuum.json
    """
    event = read_model(VacuumFinished, vacuum)
    settings = Settings.load(config)
    worker = cleaner(settings, *table_work(settings))
    command = command_for(event, datetime.now(UTC))
    planned = worker.plan(command)
    fields: dict[str, Any] = {"table": event.table, "partition": event.partition}
    fields |= {"files": planned.files, "bytes": planned.bytes}
    try:
        fields["mode"] = worker.handling(command, planned).mode
    except Refused as refused:
        if refused.reason not in NOT_NOW:
            raise
        fields["not_confirmed"] = refused.message  # a reader is there, or the Metastore is away
    if planned.superseded_by:
        fields["superseded_by"] = list(planned.superseded_by)
    if as_json:
        write_json({**fields, "paths": list(planned.directories)})
        return
    _show(fields)
    is_moved = fields.get("mode") is CleaningMode.QUARANTINE
    _show_paths("would move into quarantine" if is_moved else "would remove", planned.directories)


def _show(fields: Mapping[str, Any]) -> None:
    sizes = {name: size(value) for name, value in fields.items() if name.endswith("bytes")}
    write_blocks([{**fields, **sizes}])


def _show_paths(verb: str, paths: Sequence[str]) -> None:
    for path in paths[:_SHOWN]:
        write(f"  {verb} {path}")
    if (more := len(paths) - _SHOWN) > 0:
        write(f"  ... and {more} more; --json lists all")
