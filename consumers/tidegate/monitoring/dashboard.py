"""The Grafana dashboard, made from the catalog's metrics."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

_WIDTH: Final = 12
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """A graph of one or more queries."""

    title: str
    unit: str
    """As Grafana names units: s, bytes, short, ops."""
    queries: tuple[tuple[str, str], ...]
    """PromQL, and the legend of its series."""


def _quantile(share: float, metric: str, by: str) -> str:
    buckets = f"sum by (le, {by}) (rate({metric}_bucket[$__rate_interval]))"
    return f"histogram_quantile({share}, {buckets})"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


PANELS: Final = (
    Panel(
        "Lag",
        "short",
        (("sum by (consumergroup) (kafka_consumergroup_lag)", "{{consumergroup}}"),),
    ),
    Panel("Members", "short", (("kafka_consumergroup_members", "{{consumergroup}}"),)),
    Panel(
        "Outcomes",
        "short",
        (
            (
                "sum by (kind) (increase(tidegate_outcomes_seen_total[$__rate_interval]))",
                "{{kind}}",
            ),
        ),
    ),
    Panel(
        "Refusals, by reason",
        "short",
        (
            (
                'sum by (reason) (increase(tidegate_outcomes_seen_total{reason!=""}[$__range]))',
                "{{reason}}",
            ),
        ),
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
        "Records consumed",
        "ops",
        ((_rate("tidegate_records_consumed_total", "service"), "{{service}}"),),
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
        "Removed by cleaning",
        "Bps",
        ((_rate("tidegate_removed_bytes_total", "service"), "bytes"),),
    ),
    Panel(
        "Pinned by savepoints",
        "bytes",
        (("tidegate_savepoint_pinned_bytes", "{{tables}}"),),
    ),
    Panel(
        "Dead letters and failed attempts",
        "short",
        (
            (
                "sum by (fault) (increase(tidegate_dead_letters_seen_total[$__rate_interval]))",
                "dead letters: {{fault}}",
            ),
            (
                "sum by (error) (increase(tidegate_failed_attempts_total[$__rate_interval]))",
                "{{error}}",
            ),
        ),
    ),
    Panel(
        "Rebalances",
        "short",
        (
            (
                "sum by (service, event) (increase(tidegate_rebalances_total[$__rate_interval]))",
                "{{service}} {{event}}",
            ),
        ),
    ),
    Panel(
        "Memory",
        "bytes",
        (('process_resident_memory_bytes{job=~"tidegate.*"}', "{{instance}}"),),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "title": "Tidegate",
        "uid": "tidegate",
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _DATASOURCE,
        "gridPos": {
            "h": _HEIGHT,
            "w": _WIDTH,
            "x": _WIDTH * (number % 2),
            "y": _HEIGHT * (number // 2),
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }
