"""The files that are made from the code's lists: rules, dashboard, reference of metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.core import TyperGroup

from support.alerts import rules
from support.dashboard import dashboard
from tidegate.cli import app
from tidegate.events import CommitCompleted, Event
from tidegate.events.codec import schema_text
from tidegate.events.reasons import Reason
from tidegate.events.topics import TOPICS
from tidegate.monitoring.catalog import BRIDGE_METRICS, DEPLOYMENT_METRICS, PROCESS_METRICS, Metric
from tidegate.monitoring.docstrings import attribute_docs
from tidegate.service import catalogue
from tidegate.service.settings import Settings
from tidegate.service.settings.reference import settings_reference

_MADE = "made by `make docs`; don't edit"
_BRIDGE = "bridge-metastore"

_COMMON_FIELDS = """\
Every event has the fields of the first table. `tidegate schemas example NAME` prints a valid one,
`tidegate schemas export` writes the Avro schemas. In JSON a time is text with its zone, as in
`2026-11-24T05:06:32Z`. The location of a hold's events is `unknown`: a hold is on a table's name.
"""


def generated() -> dict[str, str]:
    """The content of each generated file, by its path from the root."""
    return {
        "compose/prometheus/alerts.yaml": f"# {_MADE}\n{_yaml(rules())}",
        "compose/grafana/tidegate.json": json.dumps(dashboard(), indent=2) + "\n",
        "compose/services.yaml": _compose_services(),
        "compose/kubernetes.yaml": _kubernetes(),
        "docs/metrics.md": _metrics_page(),
        "docs/settings.md": _settings_page(),
        "docs/events.md": _events_page(),
        "docs/reasons.md": f"# Reasons of refusals\n\n<!-- {_MADE} -->\n\n{_reasons_table()}\n",
        "docs/commands.md": _commands_page(),
    }


def _reasons_table() -> str:
    """Every reason as a Markdown table, in the order of the enum, with a newline at its end."""
    found = ((Reason[name], *doc.split(". ", 1)) for name, doc in attribute_docs(Reason).items())
    rows = (f"| `{reason}` | {finding}. | {remedy} |\n" for reason, finding, remedy in found)
    return "".join(("| reason | what was found | what to do |\n", "|---|---|---|\n", *rows))


def _compose_services() -> str:
    """A container for every service and bridge; workers mount the tables, the bridge to read."""
    found: dict[str, Any] = {
        "topics": {
            **_container("service", "topics", "create"),
            "depends_on": {"kafka": {"condition": "service_healthy"}},
            "healthcheck": {"disable": True},
            "restart": "on-failure:5",
        }
    }
    running: dict[str, tuple[str, ...]] = {name: ("run", name) for name in catalogue.NAMES}
    running[_BRIDGE] = ("bridge", "metastore")
    running["monitor"] = ("monitor", "--port", "9464")
    for name, command in running.items():
        kind = "worker" if name in catalogue.EXECUTORS else "service"
        kind = "reader" if name == _BRIDGE else kind
        found[name] = {
            **_container(kind, *command),
            "depends_on": {"topics": {"condition": "service_completed_successfully"}},
        }
        if name != "monitor":  # Prometheus finds the others by one name
            found[name]["networks"] = {"default": {"aliases": ["tidegate-services"]}}
    made = "made by `make docs` from the list of services; don't edit"
    return f"# {made}\n{_yaml({'services': found})}"


def _kubernetes() -> str:
    """A StatefulSet for every service and bridge: its pods, and so their partitions, stay."""
    running = {name: ("run", name) for name in catalogue.NAMES}
    running[_BRIDGE] = ("bridge", "metastore")
    sets = [_stateful_set(name, command) for name, command in running.items()]
    made = (
        "made by `make docs` from the list of services; don't edit. See README.md for what it needs"
    )
    return f"# {made}\n" + "---\n".join(map(_yaml, sets))


def _stateful_set(name: str, command: tuple[str, ...]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "tidegate", "app.kubernetes.io/component": name}
    mounts = [
        {"name": "settings", "mountPath": "/etc/tidegate", "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of its container
    ]
    volumes: list[dict[str, Any]] = [
        {"name": "settings", "configMap": {"name": "tidegate"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if name in (*catalogue.EXECUTORS, _BRIDGE):
        only_reads = {"readOnly": True} if name == _BRIDGE else {}
        mounts.append({"name": "lake", "mountPath": "/lake", **only_reads})
        volumes.append({"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}})
    probe = {"port": "metrics", "scheme": "HTTP"}
    container = {
        "name": "tidegate",
        "image": "tidegate",
        "args": list(command),
        "env": [
            {
                "name": "TIDEGATE_SERVICES__INSTANCE_ID",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
            }
        ],
        # credentials, as the settings name them
        "envFrom": [{"secretRef": {"name": "tidegate", "optional": True}}],
        "ports": [{"name": "metrics", "containerPort": 9464}],
        "livenessProbe": {"httpGet": {"path": "/livez", **probe}, "initialDelaySeconds": 30},
        "readinessProbe": {"httpGet": {"path": "/readyz", **probe}},
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    pod = {
        # more than [services] stop_seconds: running work is finished first
        "terminationGracePeriodSeconds": 60,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"tidegate-{name}", "labels": dict(labels)},
        "spec": {
            "replicas": 1,
            "serviceName": f"tidegate-{name}",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def _container(kind: str, *command: str) -> dict[str, Any]:
    return {"extends": {"file": "container.yaml", "service": kind}, "command": list(command)}


def _yaml(value: dict[str, Any]) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, width=100))


def _metrics_page() -> str:
    return f"""# Metrics

<!-- {_MADE} -->

No label holds a table's name: the number of time series does not grow with what is published.

## A process of `tidegate run`, where `[monitoring]` has a port

{_table(PROCESS_METRICS)}

prometheus-client's own `process_*` and `python_*` are there too.

## `tidegate bridge metastore` has these besides

{_table(BRIDGE_METRICS)}

## `tidegate monitor`: the whole deployment, read off the broker

{_table(DEPLOYMENT_METRICS)}
"""


def _settings_page() -> str:
    parts = []
    for section, settings in groupby(settings_reference(Settings), attrgetter("section")):
        rows = [
            f"| `{setting.name}` | {setting.kind} | `{setting.default}` | {setting.meaning} |"
            for setting in settings
        ]
        head = ["| setting | kind | default | meaning |", "|---|---|---|---|"]
        parts.append("\n".join([f"## [{section}]\n" if section else "", *head, *rows]))
    listed = "\n\n".join(parts)
    return f"""# Settings

<!-- {_MADE} -->

One TOML file, named by `--config` or `TIDEGATE_CONFIG`. An environment variable
`TIDEGATE_<section>__<name>` wins over it, a list or table in it as JSON:
`TIDEGATE_WAREHOUSE__ROOTS='["/lake"]'`. `tidegate config init` writes a file with all of these.
To override a limit for one service, use `[services.NAME]`: `[services.restorer.retries]`.

{listed}
"""


def _events_page() -> str:
    parts = [
        f"# Topics and events\n\n<!-- {_MADE} -->\n",
        _COMMON_FIELDS,
        _fields(CommitCompleted, Event),
    ]
    for topic in TOPICS:
        parts.append(f"\n## {topic.name()}\n\nKeyed by table: {topic.purpose}.")
        if topic.retention is not None:
            parts.append(f"Retained for {topic.retention.days} days.")
        writers, readers = (
            ", ".join(map(str, services)) for services in (topic.written_by, topic.read_by)
        )
        parts.append(f"Written by {writers}; read by {readers}.")
        parts += [
            f"\n### {kind.__name__}\n\n{_doc(kind)}\n\n{_fields(kind)}" for kind in topic.events
        ]
    return "\n".join(parts) + "\n"


def _avro(kind: type[Event]) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_text(kind.__name__))
    return schema


def _doc(kind: type[Event]) -> str:
    return str(_avro(kind).get("doc", ""))


def _fields(kind: type[Event], only: type[Event] | None = None) -> str:
    common = set(Event.model_fields)
    wanted = [
        field for field in _avro(kind)["fields"] if (field["name"] in common) == (only is Event)
    ]
    rows = [
        f"| `{field['name']}` | {_type(field['type'])} | {field.get('doc', '')} |"
        for field in wanted
    ]
    parts = ["\n".join(["| field | type | meaning |", "|---|---|---|", *rows])]
    for record in (found for field in wanted for found in _records(field["type"])):
        rows = [
            f"| `{inner['name']}` | {_type(inner['type'])} | {inner.get('doc', '')} |"
            for inner in record["fields"]
        ]
        head = [f"`{record['name']}`:\n", "| field | type | meaning |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts)


def _records(avro: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - Avro's JSON
    """The records in a field's type, at the place that defines them."""
    if isinstance(avro, list):
        return [record for branch in avro for record in _records(branch)]
    if not isinstance(avro, dict):
        return []
    if avro["type"] == "record":
        return [avro, *(it for field in avro["fields"] for it in _records(field["type"]))]
    return _records(avro.get("items", avro.get("values")))


def _type(avro: Any) -> str:  # noqa: ANN401 - Avro's JSON
    if isinstance(avro, list):
        return " or ".join("none" if branch == "null" else _type(branch) for branch in avro)
    if isinstance(avro, dict):
        kind = avro["type"]
        if kind == "array":
            return f"list of {_type(avro['items'])}"
        if kind == "map":
            return f"map to {_type(avro['values'])}"
        if kind == "enum":
            return " or ".join(f"`{symbol}`" for symbol in avro["symbols"])
        return str(avro.get("name") or avro.get("logicalType") or kind)
    return str(avro)


def _commands_page() -> str:
    root = typer.main.get_command(app)
    found = root.make_context("tidegate", [], resilient_parsing=True)
    context = type(found)(root, info_name="tidegate", max_content_width=96, terminal_width=96)
    parts = [f"# Commands\n\n<!-- {_MADE} -->"]
    parts += _helps(root, context)
    return "\n\n".join(parts) + "\n"


def _helps(command: Any, context: Any) -> Iterator[str]:  # noqa: ANN401 - typer's own click
    text = "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())
    yield f"## {context.command_path}\n\n```text\n{text}\n```"
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            yield from _helps(inner, type(context)(inner, info_name=name, parent=context))


def _table(metrics: tuple[Metric, ...]) -> str:
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in metrics
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def write_generated(root: Path) -> None:
    """Bring the files up to date."""
    for name, text in generated().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
