"""Alert rules and dashboard: current, understood by Prometheus, about metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.generated import generated
from tidegate.monitoring.alerts import ALERTS
from tidegate.monitoring.catalog import DEPLOYMENT_METRICS, PROCESS_METRICS, Kind
from tidegate.monitoring.dashboard import PANELS

ROOT = Path(__file__).parents[2]
PROMTOOL = shutil.which("promtool")
NAMES = {
    f"{metric.name}{suffix}"
    for metric in (*PROCESS_METRICS, *DEPLOYMENT_METRICS)
    for suffix in (("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",))
}
_OURS = re.compile(r"\b(?:tidegate|kafka)_[a-z_]+")
_GROUPS = re.compile(r'\{[^}]*\}|"[^"]*"')
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus has it)"
)

# An outage of one service, seen by the monitor: what is sent, when.
UNIT_TEST = """
rule_files: [alerts.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'kafka_consumergroup_members{consumergroup="tidegate.cleaner"}'
        values: "1 1 0x20"
      - series: 'kafka_consumergroup_members{consumergroup="tidegate.restorer"}'
        values: "1x22"
      - series: 'kafka_consumergroup_lag{consumergroup="tidegate.cleaner",topic="t",partition="0"}'
        values: "0 0 5x30"
      - series: >-
          kafka_consumergroup_current_offset{consumergroup="tidegate.cleaner",topic="t",partition="0"}
        values: "9x40"
      - series: 'tidegate_dead_letters_seen_total{fault="location"}'
        values: "0x5 3x40"
      - series: 'tidegate_dead_letters_seen_total{fault="message"}'
        values: "0x60 5000x40"
      - series: 'tidegate_dead_letters_seen_total{fault="service"}'
        values: "0x70 1x40"
      - series: 'tidegate_overdue_vacuums{tables="lake.*"}'
        values: "0x5 2x5 0x30"
      - series: 'tidegate_outcomes_seen_total{kind="UnknownTableReleased",reason=""}'
        values: "_x5 1x90"
    alert_rule_test:
      - eval_time: 7m
        alertname: TidegateVacuumOverdue
        exp_alerts:
          - exp_labels: {severity: warning, tables: "lake.*"}
            exp_annotations:
              summary: 2 vacuums of lake.* wait longer than their limit.
              action: >-
                tidegate waiting names the locks and their owners; the limits are in [[alarms]].
      - eval_time: 14m
        alertname: TidegateVacuumOverdue
        exp_alerts: []
      - eval_time: 4m
        alertname: TidegateUnknownTable
        exp_alerts: []
      - eval_time: 8m
        alertname: TidegateUnknownTable
        exp_alerts:
          - exp_labels: {severity: warning, kind: UnknownTableReleased}
            exp_annotations:
              summary: Releases come for a table of which no vacuum is known.
              action: >-
                tidegate outcomes --kind UnknownTableReleased names it, and who publishes them.
      - eval_time: 80m
        alertname: TidegateUnknownTable
        exp_alerts: []
      - eval_time: 6m
        alertname: TidegateServiceWithoutMembers
        exp_alerts: []
      - eval_time: 8m
        alertname: TidegateServiceWithoutMembers
        exp_alerts:
          - exp_labels: {severity: critical, consumergroup: tidegate.cleaner}
            exp_annotations:
              summary: tidegate.cleaner has no running member.
              action: >-
                Start it. If it ends again at once, its last log line says why and what to do.
      - eval_time: 4m
        alertname: TidegateDeadLetters
        exp_alerts: []
      - eval_time: 7m
        alertname: TidegateDeadLetters
        exp_alerts:
          - exp_labels: {severity: warning, fault: location}
            exp_annotations:
              summary: "Messages could not be processed and were put aside (fault: location)."
              action: 'Redrive or discard each: tidegate dead-letters list'
      - eval_time: 60m
        alertname: TidegateInvalidMessages
        exp_alerts: []
      - eval_time: 63m
        alertname: TidegateInvalidMessages
        exp_alerts:
          - exp_labels: {severity: critical}
            exp_annotations:
              summary: >-
                A producer floods the topics: over 1000 invalid messages in 15 minutes.
              action: >-
                Take the producer's right to write. Topic and reason: tidegate dead-letters list
      - eval_time: 70m
        alertname: TidegateServiceFails
        exp_alerts: []
      - eval_time: 73m
        alertname: TidegateServiceFails
        exp_alerts:
          - exp_labels: {severity: critical}
            exp_annotations:
              summary: A service failed on valid messages and put them aside.
              action: >-
                Correct its code or settings, then redrive: tidegate dead-letters list
      - eval_time: 35m
        alertname: TidegateLagging
        exp_alerts:
          - exp_labels: {severity: warning, consumergroup: tidegate.cleaner}
            exp_annotations:
              summary: >-
                tidegate.cleaner has records to read and has committed none for 15 minutes.
              action: >-
                A long restore may be why: see tidegate_oldest_running_command_seconds. Else the
                log.
"""


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
    file.write_text(UNIT_TEST)

    run("test", "rules", str(file))


def test_every_rule_says_what_to_do() -> None:
    parsed = yaml.safe_load(generated()["compose/prometheus/alerts.yaml"])
    found = parsed["groups"][0]["rules"]

    assert len({alert["alert"] for alert in found}) == len(ALERTS)
    actions = [alert["annotations"]["action"] for alert in found]
    assert all(action.endswith(".") or ": tidegate " in action for action in actions)
