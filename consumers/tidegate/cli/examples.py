"""Examples of every command, shown at the end of its help. A test parses each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidegate.cli.exit_codes import table

if TYPE_CHECKING:
    import typer

_TABLE: Final = "-t lake.sales.orders"
_REQUEST: Final = "1b9ce7ae-5c0c-4a35-9d4e-2f2d6f0c8a51"

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "asyncapi": ("tidegate asyncapi > asyncapi.json",),
    "status": (
        "tidegate status",
        "tidegate status --watch --every 10s",
        "tidegate status --json | jq '.services[] | select(.lag > 0)'",
    ),
    "outcomes": (
        "tidegate outcomes --failed --since 2d",
        "tidegate outcomes --table lake.sales.orders --limit 20",
        "tidegate outcomes -t 'lake.sales.*' --kind RestoreRejected --kind CleaningRefused",
        "tidegate outcomes --follow --json | jq .reason",
    ),
    "events tail": (
        "tidegate events tail --topic commits",
        "tidegate events tail -t lake.sales.orders --no-follow --json | jq .event",
    ),
    "waiting": (
        "tidegate waiting --older-than 1h --check",
        "tidegate waiting --table lake.sales.orders",
        "tidegate waiting --json | jq -r '.outstanding[].owner' | sort | uniq -c",
    ),
    "explain": (
        "tidegate explain lake.sales.orders",
        "tidegate explain 1b9ce7ae --since 30d",
    ),
    "run": (
        "tidegate run --config tidegate.toml",
        "tidegate run restorer cleaner",
    ),
    "doctor": ("tidegate doctor", "tidegate doctor restorer --write --spark --json"),
    "monitor": ("tidegate monitor --config tidegate.toml",),
    "bridge accept-metastore": (
        'tidegate bridge accept-metastore --reason "restored after a disk fault"',
    ),
    "bridge metastore": ("tidegate bridge metastore --config tidegate.toml",),
    "bridge hudi": ("tidegate bridge hudi --config tidegate.toml",),
    "broker": ("tidegate broker ./kafka-data",),
    "config init": ("tidegate config init > tidegate.toml",),
    "config check": ("tidegate config check --config tidegate.toml",),
    "config diff": ("tidegate config diff", "tidegate config diff --at worker-1:9464"),
    "config show": ("tidegate config show --json | jq .services",),
    "keys new": ("tidegate keys new /etc/tidegate/ana.pem --name ana --role requester > ana.toml",),
    "keys show": ("tidegate keys show /etc/tidegate/ana.pem",),
    "skip": (
        (
            "tidegate skip --service restorer --topic tasks --partition 0 --offset 7"
            " --reason 'no worker can read it'"
        ),
    ),
    "spark-archive": ("tidegate spark-archive tidegate-env.tar.gz",),
    "demo": ("tidegate demo", "tidegate demo ./my-demo"),
    "publish savepoint": (
        f"tidegate publish savepoint {_TABLE} --reason 'before the migration' --wait",
        f"tidegate publish savepoint {_TABLE} --lifetime 30d",
    ),
    "publish savepoint-removal": (
        "tidegate plan savepoint-removal -t lake.sales.orders --savepoint 20261121041551845",
        (
            f"tidegate publish savepoint-removal {_TABLE} --savepoint 20261121041551845"
            " --reason 'no longer needed' --wait"
        ),
    ),
    "publish restore": (
        f"tidegate plan restore {_TABLE} --savepoint latest --out plan.json",
        "tidegate publish restore --plan plan.json --reason 'a bad load' --wait --timeout 1h",
    ),
    "publish approval": (
        f"tidegate plan restore {_TABLE} --savepoint 20261121041551845 --out plan.json",
        (
            f"tidegate publish approval --request {_REQUEST}"
            " --plan plan.json --reason 'checked with finance' --wait"
        ),
    ),
    "publish withdraw": (
        f"tidegate publish withdraw {_TABLE} --request {_REQUEST} --reason 'repaired' --wait",
    ),
    "publish rejection": (
        f"tidegate publish rejection {_TABLE} --request {_REQUEST} --reason 'month end' --wait",
    ),
    "publish commit": (
        f"tidegate publish commit {_TABLE} --instant 20261121041551845 --operation upsert",
    ),
    "publish condemned": (
        (
            f"tidegate publish condemned {_TABLE} --instant 20261121041551845"
            " --reason 'doubled every order'"
        ),
    ),
    "publish lock-released": (
        f"tidegate publish lock-released {_TABLE} --lock-id 16 --reason committed",
    ),
    "publish event": (
        "tidegate schemas example VacuumFinished > vacuum.json",
        "tidegate publish event VacuumFinished vacuum.json --wait",
    ),
    "schemas export": ("tidegate schemas export ./schemas",),
    "schemas example": ("tidegate schemas example VacuumFinished > vacuum.json",),
    "topics create": ("tidegate topics create",),
    "topics describe": ("tidegate topics describe --json | jq .topic",),
    "topics check": ("tidegate topics check",),
    "topics acls": ("tidegate topics acls",),
    "plan restore": (
        f"tidegate plan restore {_TABLE} --savepoint 20261121041551845",
        f"tidegate plan restore {_TABLE} --savepoint latest~1 --out plan.json",
    ),
    "plan retention": (
        "tidegate plan retention -t lake.sales.orders -c changed.toml",
        "tidegate plan retention -t lake.sales.orders --json | jq -r .savepoint",
    ),
    "savepoints remove": (
        (
            "tidegate savepoints remove -t lake.sales.orders --policy orders"
            " --reason 'the policy was renamed' --wait"
        ),
    ),
    "plan savepoint-removal": (
        "tidegate plan savepoint-removal -t lake.sales.orders --savepoint 20261121041551845",
    ),
    "plan clean": ("tidegate plan clean vacuum.json",),
    "replay group": (
        "tidegate replay group coordinator --to-earliest",
        "tidegate replay group coordinator --since 2d --table lake.sales.orders --execute",
    ),
    "replay events": (
        "tidegate replay events --topic commits --table lake.sales.orders --from-offset 2",
    ),
    "dead-letters list": (
        "tidegate dead-letters list --service restorer",
        "tidegate dead-letters list --json | jq -r .id",
    ),
    "dead-letters show": ("tidegate dead-letters show 1b9ce7ae",),
    "dead-letters redrive": ("tidegate dead-letters redrive 1b9ce7ae --execute",),
    "dead-letters discard": (
        "tidegate dead-letters discard 1b9ce7ae --reason 'sent by a test' --execute",
    ),
    "savepoints list": (
        "tidegate savepoints list lake.sales.orders",
        "tidegate savepoints list lake.sales.orders --pins",
        "tidegate savepoints list /lake/sales/new",
    ),
    "simulate": (
        "tidegate simulate --table 'lake.sales.*'",
        "tidegate simulate --since 14d --removed --json | jq .instant",
    ),
    "undo": (
        "tidegate undo lake.sales.orders --reason 'the report had stalled' --wait",
        "tidegate undo 95c3731d --reason 'the report had stalled' --execute --wait",
    ),
    "hold add": ("tidegate hold add lake.sales.orders --reason 'the report is stuck' --wait",),
    "hold remove": ("tidegate hold remove lake.sales.orders --reason 'it is done' --wait",),
    "hold list": ("tidegate hold list --table 'lake.sales.*'",),
}
"""By command, what one types; a pipe or a redirection ends the command's own part."""


def add_examples(app: typer.Typer, group: str = "") -> None:
    """Put its examples at the end of every command's help, also of the groups in an app."""
    for command in app.registered_commands:
        function = command.callback
        name = command.name or (function.__name__.replace("_", "-") if function else "")
        if lines := EXAMPLES.get(f"{group}{name}"):
            # \b: typer leaves the lines of this paragraph as they are
            parts = ["\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])]
            if any("--wait" in line.split() for line in lines):  # it exits by the outcome
                parts.append(table())
            command.epilog = "\n\n".join(parts)
    for registered_group in app.registered_groups:
        if registered_group.typer_instance is not None:
            add_examples(registered_group.typer_instance, f"{group}{registered_group.name} ")
