"""The alert rules, in terms of the catalog's metrics: what people are called for, and why."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


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


_REFUSALS: Final = '{kind=~".*(Rejected|Refused)"}'


def _seen(selector: str) -> str:
    """Outcomes of an hour, those counted first in it too: `increase` needs a count before."""
    counter = f"tidegate_outcomes_seen_total{selector}"
    return f"(increase({counter}[1h]) > 0 or {counter} unless {counter} offset 1h)"


ALERTS: Final = (
    Alert(
        "TidegateProcessDown",
        'up{job="tidegate"} == 0',
        "2m",
        "critical",
        "A process of `tidegate run` can't be scraped.",
        "Look at its supervisor and its log; its work waits on Kafka and is not lost.",
    ),
    Alert(
        "TidegateServiceWithoutMembers",
        "kafka_consumergroup_members == 0",
        "5m",
        "critical",
        "{{ $labels.consumergroup }} has no running member.",
        "Start it. If it ends again at once, its last log line says why and what to do.",
    ),
    Alert(
        "TidegateLagging",
        "sum by (consumergroup) (kafka_consumergroup_lag) > 0"
        " and sum by (consumergroup) (delta(kafka_consumergroup_current_offset[15m])) == 0",
        "15m",
        "warning",
        "{{ $labels.consumergroup }} has records to read and has committed none for 15 minutes.",
        "A long restore may be why: see tidegate_oldest_running_command_seconds. Else the log.",
    ),
    Alert(
        "TidegateOpenTransaction",
        "tidegate_hidden_offsets > 0",
        "5m",
        "warning",
        "An open transaction hides {{ $value }} offsets of {{ $labels.topic }}.",
        "kafka-transactions.sh find-hanging, or describe-producers, names its writer: end it.",
    ),
    Alert(
        "TidegateNotPolling",
        "time() - tidegate_last_poll_timestamp_seconds > 300",
        "0m",
        "critical",
        "{{ $labels.service }} has not polled for 5 minutes and is not a member of its group.",
        "Send its process SIGTERM; its supervisor starts it again.",
    ),
    Alert(
        "TidegateDeadLetters",
        'sum by (fault) (increase(tidegate_dead_letters_seen_total{fault!="service"}[15m])) > 0',
        "0m",
        "warning",
        "Messages could not be processed and were put aside (fault: {{ $labels.fault }}).",
        "tidegate dead-letters list, then redrive or discard each.",
    ),
    Alert(
        "TidegateServiceFails",
        'sum(increase(tidegate_dead_letters_seen_total{fault="service"}[15m])) > 0',
        "0m",
        "critical",
        "A service failed on valid messages and put them aside.",
        "tidegate dead-letters list names it; correct its code or settings, then redrive.",
    ),
    Alert(
        "TidegateInvalidMessages",
        'sum(increase(tidegate_dead_letters_seen_total{fault="message"}[15m])) > 1000',
        "0m",
        "critical",
        "A producer floods the topics: over 1000 invalid messages in 15 minutes.",
        "tidegate dead-letters list names topic and reason; take the producer's right to write.",
    ),
    Alert(
        "TidegateRestoreFailed",
        _seen('{kind="RestoreFailed"}'),
        "0m",
        "critical",
        "A restore began and could not finish: its table takes no writes.",
        "tidegate outcomes says why; the same request resumes it.",
    ),
    Alert(
        "TidegateRefused",
        f"sum by (kind, reason) {_seen(_REFUSALS)} > 0",
        "0m",
        "info",
        "{{ $labels.kind }}: {{ $labels.reason }}.",
        "docs/reasons.md has the remedy for every reason.",
    ),
    Alert(
        "TidegateNotConfirmed",
        _seen('{kind="CleaningDeferred",reason="not-confirmed"}'),
        "0m",
        "critical",
        "The second source contradicts a vacuum: nothing of it is removed.",
        "tidegate outcomes --kind CleaningDeferred shows both statements; find the writer.",
    ),
    Alert(
        "TidegateVacuumNeedsAttention",
        _seen('{kind="VacuumFlagged"}'),
        "0m",
        "warning",
        "A vacuum may wait forever, or was published with other content.",
        "tidegate outcomes --kind VacuumFlagged says which, and why.",
    ),
    Alert(
        "TidegateVacuumOverdue",
        "tidegate_overdue_vacuums > 0",
        "0m",
        "warning",
        "{{ $value }} vacuums of {{ $labels.tables }} wait longer than their limit.",
        "tidegate waiting names the locks and their owners; the limits are in [[alarms]].",
    ),
    Alert(
        "TidegateUnknownTable",
        _seen('{kind="UnknownTableReleased"}'),
        "0m",
        "warning",
        "Releases come for a table of which no vacuum is known.",
        "tidegate outcomes --kind UnknownTableReleased names it, and who publishes them.",
    ),
    Alert(
        "TidegateSlowCommand",
        "tidegate_oldest_running_command_seconds > 3600",
        "0m",
        "warning",
        "{{ $labels.service }} has been at one command for over an hour.",
        "Its log names the table. A large restore may take that long.",
    ),
    Alert(
        "TidegateAttemptsFail",
        "sum by (service, error) (rate(tidegate_failed_attempts_total[10m])) > 0",
        "15m",
        "warning",
        "{{ $labels.service }}: attempts have failed for 15 minutes ({{ $labels.error }}).",
        "The storage may be away; commands wait and are tried again.",
    ),
    Alert(
        "TidegateMonitorBlind",
        "time() - tidegate_monitor_last_look_timestamp_seconds > 120"
        ' or absent(up{job="tidegate-monitor"} == 1)',
        "2m",
        "warning",
        "The monitor does not see the deployment: the alerts on groups and outcomes are silent.",
        "Start `tidegate monitor`; look whether the broker answers: tidegate doctor.",
    ),
)


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
                        "annotations": {"summary": alert.summary, "action": alert.action},
                    }
                    for alert in ALERTS
                ],
            }
        ]
    }
