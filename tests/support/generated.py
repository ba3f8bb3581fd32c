"""The files that are made from the code's lists: rules, dashboard, reference of metrics."""

from __future__ import annotations

import json
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml

from tidegate.monitoring.alerts import rules
from tidegate.monitoring.catalog import DEPLOYMENT_METRICS, PROCESS_METRICS, Metric
from tidegate.monitoring.dashboard import dashboard
from tidegate.service.settings import Settings
from tidegate.service.settings.reference import settings_reference

_MADE = "made by `make docs` from consumers/tidegate/monitoring; don't edit"


def generated() -> dict[str, str]:
    """The content of each generated file, by its path from the root."""
    return {
        "compose/prometheus/alerts.yaml": f"# {_MADE}\n{_yaml(rules())}",
        "compose/grafana/tidegate.json": json.dumps(dashboard(), indent=2) + "\n",
        "docs/metrics.md": _metrics_page(),
        "docs/settings.md": _settings_page(),
    }


def _yaml(value: dict[str, Any]) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, width=100))


def _metrics_page() -> str:
    return f"""# Metrics

<!-- {_MADE} -->

No label holds a table's name: the number of time series does not grow with what is published.

## A process of `tidegate run`, where `[monitoring]` has a port

{_table(PROCESS_METRICS)}

prometheus-client's own `process_*` and `python_*` are there too.

## `tidegate monitor`: the whole deployment, read off the broker

{_table(DEPLOYMENT_METRICS)}
"""


def _settings_page() -> str:
    parts = []
    for section, settings in groupby(settings_reference(Settings), attrgetter("section")):
        rows = [
            f"| `{each.name}` | {each.kind} | `{each.default}` | {each.meaning} |"
            for each in settings
        ]
        head = ["| setting | kind | default | meaning |", "|---|---|---|---|"]
        parts.append("\n".join([f"## [{section}]\n" if section else "", *head, *rows]))
    listed = "\n\n".join(parts)
    return f"""# Settings

<!-- {_MADE.replace("monitoring", "service/settings")} -->

One TOML file, named by `--config` or `TIDEGATE_CONFIG`. An environment variable
`TIDEGATE_<section>__<name>` wins over it. `tidegate config init` writes a file with all of these.
The limits of one service are under its name, as those of all: `[services.restorer.retries]`.

{listed}
"""


def _table(metrics: tuple[Metric, ...]) -> str:
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(each.labels)} | {each.help} |"
        for each in metrics
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def write_generated(root: Path) -> None:
    """Bring the files up to date."""
    for name, text in generated().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
