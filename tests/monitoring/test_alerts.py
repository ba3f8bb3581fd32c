"""Alert rules and dashboard: current, understood by Prometheus, about metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.alerts import ALERTS, anchor, rules
from support.dashboard import PANELS, PROBLEMS, dashboard
from support.generated import generated
from tidegate.events.base import Alarm
from tidegate.events.topics import OUTCOMES
from tidegate.monitoring.catalog import BRIDGE_METRICS, DEPLOYMENT_METRICS, PROCESS_METRICS

ROOT = Path(__file__).parents[2]
PROMTOOL = shutil.which("promtool")
NAMES = {
    f"{metric.name}{suffix}"
    for metric in (*PROCESS_METRICS, *BRIDGE_METRICS, *DEPLOYMENT_METRICS)
    for suffix in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
_OURS = re.compile(r"\b(?:tidegate|kafka)_[a-z_]+")
_GROUPS = re.compile(r'\{[^}]*\}|"[^"]*"')
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus has it)"
)

_CLEANERS = '{consumergroup="tidegate.cleaner",topic="t",partition="0"}'
# An outage of one service, seen by the monitor: what is sent, when.
SERIES = {
    'kafka_consumergroup_members{consumergroup="tidegate.cleaner"}': "1 1 0x200",
    'kafka_consumergroup_members{consumergroup="tidegate.restorer"}': "1x200",
    f"kafka_consumergroup_lag{_CLEANERS}": "0 0 5x30",
    f"kafka_consumergroup_current_offset{_CLEANERS}": "9x40",
    'tidegate_dead_letters_seen_total{fault="location"}': "0x5 3x40",
    'tidegate_dead_letters_seen_total{fault="message"}': "0x60 5000x40",
    'tidegate_open_dead_letters{fault="location"}': "0x8 3x20 0x100",
    'tidegate_open_dead_letters{fault="service"}': "0x70 1x40",
    'tidegate_overdue_vacuums{tables="lake.*"}': "0x5 2x5 0x30",
    'tidegate_outcomes_seen_total{kind="UnknownTableReleased",reason=""}': "_x5 1x90",
    # its last failed attempt is in minute 10: mended before it was a fault of 15 minutes
    'tidegate_failed_attempts_total{service="restorer",error="OSError"}': "0 0+1x10 10x100",
    'tidegate_failed_attempts_total{service="cleaner",error="OSError"}': "0x40 0+1x30 30x50",
    'tidegate_bridge_active{instance="a"}': "1x70 _x50",
    'tidegate_bridge_active{instance="b"}': "0x200",
    # one polls from minute 10 to 30; the other takes over in minute 50
    'tidegate_metastore_last_poll_timestamp_seconds{instance="a"}': "_x9 600+60x20 1800x40 _x50",
    'tidegate_metastore_last_poll_timestamp_seconds{instance="b"}': "_x49 3000+60x100",
    "tidegate_pending_approvals": "0x5 1x20 0x100",
    'tidegate_unfinished_restores{state="failed"}': "0x5 1x20 0x100",
    'up{job="tidegate-monitor"}': "1x200",
    "tidegate_monitor_last_poll_timestamp_seconds": "0+60x200",
}
CLEANER = {"consumergroup": "tidegate.cleaner"}
FIRING: dict[tuple[int, str], list[tuple[dict[str, str], dict[str, str]]]] = {
    # the minute and the alert: labels, and what the summary's placeholders stand for
    (4, "TidegateUnknownTable"): [],
    (4, "TidegateDeadLetters"): [],
    (6, "TidegateServiceWithoutMembers"): [],
    (7, "TidegateDeadLetters"): [({"fault": "location"}, {})],
    (7, "TidegateVacuumOverdue"): [({"tables": "lake.*"}, {"$value": "2"})],
    (7, "TidegateRestoreFailed"): [({"state": "failed"}, {"$value": "1"})],
    (7, "TidegateApprovalPending"): [],
    (8, "TidegateUnknownTable"): [({"kind": "UnknownTableReleased"}, {})],
    (8, "TidegateServiceWithoutMembers"): [(CLEANER, {})],
    (1, "TidegateBridgeBlind"): [],
    (8, "TidegateBridgeBlind"): [({}, {})],  # it has not polled since its start
    (11, "TidegateBridgeBlind"): [],
    (34, "TidegateBridgeBlind"): [],
    (38, "TidegateBridgeBlind"): [({}, {})],
    (51, "TidegateBridgeBlind"): [],
    (90, "TidegateBridgeBlind"): [],
    **{(minute, "TidegateAttemptsFail"): [] for minute in (14, 17, 20, 50, 77)},
    (60, "TidegateAttemptsFail"): [({"service": "cleaner", "error": "OSError"}, {})],
    (12, "TidegateApprovalPending"): [({}, {"$value": "1"})],
    (14, "TidegateVacuumOverdue"): [],
    (26, "TidegateDeadLetters"): [({"fault": "location"}, {})],  # open, although not new
    (35, "TidegateDeadLetters"): [],
    (35, "TidegateRestoreFailed"): [],
    (35, "TidegateLagging"): [(CLEANER, {})],
    (60, "TidegateInvalidMessages"): [],
    (63, "TidegateInvalidMessages"): [({}, {})],
    (70, "TidegateServiceFails"): [],
    (73, "TidegateServiceFails"): [({}, {})],
    (80, "TidegateUnknownTable"): [],
}
PROBLEMS_AT = {1: 1, 3: 4, 7: 9, 50: 3}
"""How many problems the dashboard's first tile shows at a minute."""
SITE = "http://docs"


def expected(name: str, labels: dict[str, str], values: dict[str, str]) -> dict[str, object]:
    """An alert as Prometheus sends it, with the placeholders of its texts filled."""
    [alert] = [alert for alert in ALERTS if alert.name == name]

    def filled(text: str) -> str:
        known = values | {f"$labels.{label}": value for label, value in labels.items()}
        known["$externalLabels.tidegate_site"] = SITE
        return re.sub(r"{{ (\S+) }}", lambda found: known[found[1]], text)

    [rule] = [rule for rule in rules()["groups"][0]["rules"] if rule["alert"] == name]
    return {
        "exp_labels": {"severity": alert.severity, **labels},
        "exp_annotations": {key: filled(text) for key, text in rule["annotations"].items()},
    }


def unit_test() -> dict[str, object]:
    """The series and expectations as promtool reads them."""
    series = [{"series": name, "values": values} for name, values in SERIES.items()]
    alerts = [
        {
            "eval_time": f"{minute}m",
            "alertname": name,
            "exp_alerts": [expected(name, labels, values) for labels, values in found],
        }
        for (minute, name), found in FIRING.items()
    ]
    problems = [
        {
            "expr": PROBLEMS,
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": "{}", "value": count}],
        }
        for minute, count in PROBLEMS_AT.items()
    ]
    test = {
        "interval": "1m",
        "external_labels": {"tidegate_site": SITE},
        "input_series": series,
        "alert_rule_test": alerts,
        "promql_expr_test": problems,
    }
    return {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]}


@pytest.mark.parametrize("name", sorted(generated()))
def test_what_is_generated_is_current(name: str) -> None:
    assert (ROOT / name).read_text("utf-8") == generated()[name], "run `make docs`"


@pytest.mark.parametrize(
    "expression",
    [
        *(pytest.param(alert.expression, id=alert.name) for alert in ALERTS),
        *(
            pytest.param(q, id=f"{panel.title} {at}")
            for panel in PANELS
            for at, (q, _) in enumerate(panel.queries)
        ),
    ],
)
def test_a_query_is_about_metrics_that_exist(expression: str) -> None:
    names = set(_OURS.findall(_GROUPS.sub("", expression)))

    assert names <= NAMES


def run(*arguments: str) -> None:
    done = subprocess.run([str(PROMTOOL), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_rules_and_the_configuration() -> None:
    run("check", "rules", str(ROOT / "compose/prometheus/alerts.yaml"))
    run("check", "config", str(ROOT / "compose/prometheus/prometheus.yaml"))


@needs_promtool
def test_the_rules_alert_when_they_should_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(generated()["compose/prometheus/alerts.yaml"])
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(unit_test()))

    run("test", "rules", str(file))


def test_every_rule_says_what_to_do() -> None:
    parsed = yaml.safe_load(generated()["compose/prometheus/alerts.yaml"])
    found = parsed["groups"][0]["rules"]

    assert len({alert["alert"] for alert in found}) == len(ALERTS)
    actions = [alert["annotations"]["action"] for alert in found]
    assert all(action.endswith(".") or ": tidegate " in action for action in actions)


def test_every_alarm_has_a_rule() -> None:
    rules_of = " ".join(alert.expression for alert in ALERTS)
    kinds = {kind.__name__ for kind in OUTCOMES if issubclass(kind, Alarm)}

    # a vacuum is overdue for as long as a gauge says so
    assert {kind for kind in kinds if f'kind="{kind}"' not in rules_of} == {"VacuumOverdue"}
    assert "tidegate_overdue_vacuums" in rules_of


def test_every_rule_links_to_a_section_of_the_runbook() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text("utf-8")
    anchors = {anchor(title) for title in re.findall(r"^## (.*)$", page, re.MULTILINE)}

    assert {anchor(alert.section) for alert in ALERTS} <= anchors


def test_the_dashboard_begins_with_one_tile_and_its_rows_are_full() -> None:
    panels = dashboard()["panels"]

    first = panels[0]
    assert first["type"] == "stat"
    [mapping] = first["fieldConfig"]["defaults"]["mappings"]
    assert mapping["options"]["0"]["text"] == "all well"
    rows: dict[int, int] = {}
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] == rows.get(at["y"], 0)
        rows[at["y"]] = at["x"] + at["w"]
    assert set(rows.values()) == {24}
