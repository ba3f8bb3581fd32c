"""The Grafana dashboard: first whether all is well, then what is not, then the course of things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from support.alerts import ALERTS, REFUSALS

_COLUMNS: Final = 24
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_RUNBOOK: Final = [{"title": "Runbook", "url": "${site}/runbook/", "targetBlank": True}]
_RED: Final = {"mode": "absolute", "steps": [{"color": "green"}, {"color": "red", "value": 1}]}
_URGENT: Final = [alert for alert in ALERTS if alert.severity != "info"]


class Panel(NamedTuple):
    """A graph of one or more queries, or a tile of their last values."""

    title: str
    unit: str
    """As Grafana names units: s, bytes, short, ops."""
    queries: tuple[tuple[str, str], ...]
    """PromQL, and the legend of its series."""
    is_tile: bool = False
    """A tile is red from 1 on."""
    width: int = 12
    empty: str = ""
    """The text of a tile without a value."""
    zero: str = ""
    """The text of a tile's 0."""


def _tile(title: str, query: str, *, unit: str = "short", width: int = 4) -> Panel:
    return Panel(title, unit, ((query, title),), is_tile=True, width=width, empty="no data")


def _quantile(share: float, metric: str, by: str) -> str:
    buckets = f"sum by (le, {by}) (rate({metric}_bucket[$__rate_interval]))"
    return f"histogram_quantile({share}, {buckets})"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def _increase(metric: str, by: str, selector: str = "") -> str:
    return f"sum by ({by}) (increase({metric}{selector}[$__rate_interval]))"


PROBLEMS: Final = " + ".join(f"(count({alert.expression}) or vector(0))" for alert in _URGENT)
"""How many series fulfil the condition of an alert: 0 if all is well, and never empty."""

PANELS: Final = (
    Panel(
        "Is all well?",
        "none",
        ((PROBLEMS, "problems"),),
        is_tile=True,
        width=6,
        empty="no data",
        zero="all well",
    ),
    Panel(
        "What is not",
        "none",
        tuple((f"count({alert.expression}) > 0", alert.name) for alert in _URGENT),
        is_tile=True,
        width=18,
        empty="nothing",
    ),
    _tile("Open dead letters", "sum(tidegate_open_dead_letters)"),
    _tile("Pending approvals", "tidegate_pending_approvals"),
    _tile("Failed restores", 'tidegate_unfinished_restores{state="failed"}'),
    _tile("Overdue vacuums", "sum(tidegate_overdue_vacuums)"),
    _tile("Services that are down", "sum(kafka_consumergroup_members == bool 0)"),
    _tile("Tables on hold", "sum(tidegate_held_tables)"),
    Panel(
        "Savepoints written and removed",
        "short",
        (
            (
                _increase(
                    "tidegate_outcomes_seen_total", "kind", '{kind=~"Savepoint(Created|Removed)"}'
                ),
                "{{kind}}",
            ),
        ),
    ),
    Panel("Pinned by savepoints", "bytes", (("tidegate_savepoint_pinned_bytes", "{{tables}}"),)),
    Panel(
        "Waiting vacuums and their readers",
        "short",
        (
            ("tidegate_waiting_vacuums", "vacuums of {{tables}}"),
            ("tidegate_waiting_holds", "{{kind}}s of {{tables}}"),
        ),
    ),
    Panel(
        "Age of the oldest waiting vacuum",
        "s",
        (("time() - tidegate_oldest_waiting_vacuum_timestamp_seconds", "{{tables}}"),),
    ),
    Panel("Quarantine", "bytes", (("tidegate_quarantine_bytes", "{{tables}}"),)),
    Panel(
        "Removed by cleaning", "Bps", ((_rate("tidegate_removed_bytes_total", "service"), "bytes"),)
    ),
    Panel("Outcomes", "short", ((_increase("tidegate_outcomes_seen_total", "kind"), "{{kind}}"),)),
    Panel(
        "Refusals, by reason",
        "short",
        ((_increase("tidegate_outcomes_seen_total", "reason", REFUSALS), "{{reason}}"),),
    ),
    Panel(
        "Records consumed",
        "ops",
        ((_rate("tidegate_records_consumed_total", "service"), "{{service}}"),),
    ),
    Panel(
        "Lag", "short", (("sum by (consumergroup) (kafka_consumergroup_lag)", "{{consumergroup}}"),)
    ),
    Panel(
        "Event to action",
        "s",
        (
            (_quantile(0.5, "tidegate_event_to_action_seconds", "service"), "{{service}} p50"),
            (_quantile(0.99, "tidegate_event_to_action_seconds", "service"), "{{service}} p99"),
        ),
    ),
    Panel(
        "Duration of commands, p99",
        "s",
        ((_quantile(0.99, "tidegate_command_duration_seconds", "kind"), "{{kind}}"),),
    ),
    Panel(
        "Oldest running command",
        "s",
        (("tidegate_oldest_running_command_seconds", "{{service}} on {{instance}}"),),
    ),
    Panel(
        "New dead letters and failed attempts",
        "short",
        (
            (_increase("tidegate_dead_letters_seen_total", "fault"), "dead letters: {{fault}}"),
            (_increase("tidegate_failed_attempts_total", "error"), "{{error}}"),
        ),
    ),
    Panel("Members", "short", (("kafka_consumergroup_members", "{{consumergroup}}"),)),
    Panel(
        "Memory", "bytes", (('process_resident_memory_bytes{job=~"tidegate.*"}', "{{instance}}"),)
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    site = {"name": "site", "type": "textbox", "query": "http://localhost:8000"}
    return {
        "title": "Tidegate",
        "uid": "tidegate",
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}, site]
        },
        "panels": list(_placed()),
    }


def _placed() -> Iterator[dict[str, Any]]:
    """The panels from left to right, in rows that are full."""
    x, y = 0, 0
    for number, panel in enumerate(PANELS, 1):
        height = 4 if panel.is_tile else 8
        yield _panel(panel) | {
            "id": number,
            "gridPos": {"h": height, "w": panel.width, "x": x, "y": y},
        }
        x += panel.width
        if x >= _COLUMNS:
            x, y = 0, y + height


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    look: Mapping[str, Any] = {"type": "timeseries"}
    if panel.is_tile:
        texts = {"0": {"text": panel.zero, "color": "green"}} if panel.zero else {}
        defaults |= {"thresholds": _RED, "noValue": panel.empty}
        defaults |= {"mappings": [{"type": "value", "options": texts}]} if texts else {}
        mode = "value_and_name" if len(panel.queries) > 1 else "value"
        options = {"colorMode": "background", "textMode": mode}
        look = {"type": "stat", "options": options, "links": _RUNBOOK}
    return {
        **look,
        "title": panel.title,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": f"q{at}",
                "expr": query,
                "legendFormat": legend,
                **({"instant": True} if panel.is_tile else {}),
            }
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }
