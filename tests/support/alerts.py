"""The alert rules, in terms of the catalog's metrics: what people are called for, and why."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidegate.errors.commands import command_line
from tidegate.events import CommitFlagged, TaskOverdue, UnknownTableReleased, VacuumFlagged
from tidegate.events.base import Alarm


class Alert(NamedTuple):
    """A rule of Prometheus."""

    name: str
    expression: str
    after: str
    """How long it must hold, as Prometheus writes durations."""
    severity: str
    summary: str
    action: str
    """The first step for the person on call."""
    section: str
    """The section of docs/runbook.md."""


_DEFERRED: Final = command_line("outcomes", kind="CleaningDeferred")
_SITE: Final = "{{ $externalLabels.tidegate_site }}"
"""Where `make site` is served: an external label in the configuration of Prometheus."""
REFUSALS: Final = '{kind=~".*(Rejected|Refused)"}'


def _seen(selector: str) -> str:
    """Outcomes of an hour, those counted first in it too: `increase` needs a count before."""
    counter = f"tidegate_outcomes_seen_total{selector}"
    return f"(increase({counter}[1h]) > 0 or {counter} unless {counter} offset 1h)"


def _dead_letters(selector: str, by: str = "") -> str:
    """Open dead letters; new ones at once, because open ones are counted every few minutes."""
    is_new = f"sum{by} (increase(tidegate_dead_letters_seen_total{selector}[5m])) > 0"
    return f"sum{by} (tidegate_open_dead_letters{selector}) > 0 or {is_new}"


def _alarm(kind: type[Alarm], name: str, section: str) -> Alert:
    """The rule of an alarm event, whose docstring begins with what is wrong."""
    summary = " ".join(str(kind.__doc__).split("\n\n", 1)[0].split())
    selector = f'{{kind="{kind.__name__}"}}'
    which = f"Which, and why: {command_line('outcomes', kind=kind.__name__)}"
    return Alert(name, _seen(selector), "0m", "warning", summary, which, section)


ALERTS: Final = (
    Alert(
        "TidegateProcessDown",
        'up{job="tidegate"} == 0',
        "2m",
        "critical",
        "The process at {{ $labels.instance }} can't be scraped.",
        "Look at its supervisor and its log; its work waits on Kafka and is not lost.",
        "A service does not run",
    ),
    Alert(
        "TidegateServiceWithoutMembers",
        "kafka_consumergroup_members == 0",
        "5m",
        "critical",
        "{{ $labels.consumergroup }} has no running member.",
        "Start it. If it ends again at once, its last log line says why and what to do.",
        "A service does not run",
    ),
    Alert(
        "TidegateLagging",
        "sum by (consumergroup) (kafka_consumergroup_lag) > 0"
        " and sum by (consumergroup) (delta(kafka_consumergroup_current_offset[15m])) == 0",
        "15m",
        "warning",
        "{{ $labels.consumergroup }} has records to read and has committed none for 15 minutes.",
        "A long restore may be why: see tidegate_oldest_running_command_seconds. Else the log.",
        "A service is behind",
    ),
    Alert(
        "TidegateOpenTransaction",
        "tidegate_hidden_offsets > 0",
        "5m",
        "warning",
        "An open transaction hides {{ $value }} offsets of {{ $labels.topic }}.",
        "kafka-transactions.sh describe-producers, then list, names its producer: restart it.",
        "An open transaction hides events",
    ),
    Alert(
        "TidegateNotPolling",
        "time() - tidegate_last_poll_timestamp_seconds > 300",
        "0m",
        "critical",
        "{{ $labels.service }} has not polled for 5 minutes and is not a member of its group.",
        "Send its process SIGTERM; its supervisor starts it again.",
        "A service does not run",
    ),
    Alert(
        "TidegateBridgeBlind",
        "max(tidegate_bridge_active)"
        " unless time() - max(tidegate_metastore_last_poll_timestamp_seconds) < 300",
        "2m",
        "warning",
        "No Metastore bridge polls the Metastore: nothing more is cleaned.",
        "Does the Metastore answer? The log of the bridge has the fault.",
        "The Metastore bridge sees nothing",
    ),
    Alert(
        "TidegateDeadLetters",
        _dead_letters('{fault!="service"}', by=" by (fault)"),
        "0m",
        "warning",
        "Dead letters are open (fault: {{ $labels.fault }}).",
        f"Redrive or discard each: {command_line('dead-letters list')}",
        "Dead letters",
    ),
    Alert(
        "TidegateServiceFails",
        _dead_letters('{fault="service"}'),
        "0m",
        "critical",
        "A service failed on valid messages: their dead letters are open.",
        f"Correct its code or settings, then redrive: {command_line('dead-letters list')}",
        "Dead letters",
    ),
    Alert(
        "TidegateInvalidMessages",
        'sum(increase(tidegate_dead_letters_seen_total{fault="message"}[15m])) > 1000',
        "0m",
        "critical",
        "A producer floods the topics: over 1000 invalid messages in 15 minutes.",
        "Take the producer's right to write. Topic and reason:"
        f" {command_line('dead-letters list')}",
        "Dead letters",
    ),
    Alert(
        "TidegateRestoreFailed",
        'tidegate_unfinished_restores{state="failed"} > 0',
        "0m",
        "critical",
        "Restores that failed half way: {{ $value }}. Their tables take no writes.",
        f"Mend the cause, then request or redrive it again. Which: {command_line('status')}",
        "A restore failed half way",
    ),
    Alert(
        "TidegateApprovalPending",
        "tidegate_pending_approvals > 0",
        "5m",
        "warning",
        "Restores that wait for a second person: {{ $value }}.",
        f"Read the plan, then approve it or let it expire: {command_line('status')}",
        "A restore waits for approval",
    ),
    Alert(
        "TidegateRefused",
        f"sum by (kind, reason) {_seen(REFUSALS)} > 0",
        "0m",
        "info",
        "{{ $labels.kind }}: {{ $labels.reason }}.",
        "docs/reasons.md has the remedy for every reason.",
        "A request was refused",
    ),
    Alert(
        "TidegateNotConfirmed",
        _seen('{kind="CleaningDeferred",reason="not-confirmed"}'),
        "0m",
        "critical",
        "The second source contradicts a vacuum: nothing of it is removed.",
        f"Compare both statements, then find the writer: {_DEFERRED}",
        "The second source contradicts a vacuum",
    ),
    _alarm(CommitFlagged, "TidegateCommitNeedsAttention", "A commit is flagged"),
    _alarm(VacuumFlagged, "TidegateVacuumNeedsAttention", "A vacuum that waits"),
    Alert(
        "TidegateVacuumOverdue",
        "tidegate_overdue_vacuums > 0",
        "0m",
        "warning",
        "Vacuums of {{ $labels.tables }} that wait longer than their limit: {{ $value }}.",
        f"The limits are in [[alarms]]. The locks and their owners: {command_line('waiting')}",
        "A vacuum that waits",
    ),
    _alarm(TaskOverdue, "TidegateTaskOverdue", "A task without an outcome"),
    _alarm(UnknownTableReleased, "TidegateUnknownTable", "Releases for an unknown table"),
    Alert(
        "TidegateSlowCommand",
        "tidegate_oldest_running_command_seconds > 3600",
        "0m",
        "warning",
        "{{ $labels.service }} has been at one command for over an hour.",
        "Its log names the table. A large restore may take that long.",
        "A service is behind",
    ),
    Alert(
        "TidegateAttemptsFail",
        "sum by (service, error) (rate(tidegate_failed_attempts_total[5m])) > 0",
        "15m",
        "warning",
        "{{ $labels.service }}: attempts have failed for 15 minutes ({{ $labels.error }}).",
        "The storage may be away; commands wait and are tried again.",
        "A service is behind",
    ),
    Alert(
        "TidegateMonitorBlind",
        "time() - tidegate_monitor_last_poll_timestamp_seconds > 120"
        ' or absent(up{job="tidegate-monitor"} == 1)',
        "2m",
        "critical",
        "The monitor does not see the deployment: the alerts on groups and outcomes are silent.",
        f"Start `tidegate monitor`; check whether the broker answers: {command_line('doctor')}",
        "The monitor sees nothing",
    ),
)


def anchor(section: str) -> str:
    """The anchor of a section of the site."""
    return section.lower().replace(" ", "-")


def rules() -> dict[str, Any]:
    """The rules as Prometheus reads them."""
    return {
        "groups": [
            {
                "name": "tidegate",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.expression,
                        "for": alert.after,
                        "labels": {"severity": alert.severity},
                        "annotations": {
                            "summary": alert.summary,
                            "action": alert.action,
                            "runbook_url": f"{_SITE}/runbook/#{anchor(alert.section)}",
                        },
                    }
                    for alert in ALERTS
                ],
            }
        ]
    }
