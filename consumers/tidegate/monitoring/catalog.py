"""The metrics: one list, from which the collectors, the dashboard and the alert rules are made.

No label holds what upstream writers choose freely, such as a table's name: the number of time
series is bounded by the deployment, never by what is published.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Final, Literal, NamedTuple

from tidegate.events import Outcome
from tidegate.events.reasons import Reason
from tidegate.monitoring.docstrings import attribute_docs

Kind = Literal["counter", "gauge", "histogram"]
"""The kinds of Prometheus metrics that are used."""


class Metric(NamedTuple):
    """A metric family. A counter's name ends with `_total`; durations are in seconds."""

    name: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's classic buckets."""

    @property
    def kind(self) -> Kind:
        """A counter by its name, a histogram by its buckets, else a gauge."""
        kind: Kind = "counter" if self.name.endswith("_total") else "gauge"
        return "histogram" if self.buckets else kind

    @property
    def help(self) -> str:
        """Its meaning: the docstring below its definition."""
        return _help_texts()[self.name]


@cache
def _help_texts() -> dict[str, str]:
    docs = attribute_docs(sys.modules[__name__])
    metrics = ((globals()[name], text) for name, text in docs.items())
    return {metric.name: text for metric, text in metrics if isinstance(metric, Metric)}


_REASONS: Final = frozenset(Reason)


def reason_of(outcome: Outcome) -> str:
    """The label for an outcome's reason: a code of `Reason`, "other" for any other, or empty.

    Writers of outcomes choose the text, so as a label it could create unlimited time series.
    """
    reason = getattr(outcome, "reason", None)
    if reason is None:
        return ""
    return str(reason) if reason in _REASONS else "other"


_DEFINED: Final[list[Metric]] = []
"""All metrics, in the order of their definitions below: a process's, a bridge's, the monitor's."""


def _metric(series: str, buckets: tuple[float, ...] = ()) -> Metric:
    """A metric by its name and labels, as Prometheus writes them: `name{label,label}`."""
    name, _, labels = series.removesuffix("}").partition("{")
    metric = Metric(name, tuple(filter(None, labels.split(","))), buckets)
    _DEFINED.append(metric)
    return metric


_QUICK: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600, 3600)
_SLOW: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)

BUILD_INFO: Final = _metric("tidegate_build_info{version}")
"""1; the version."""
RECORDS: Final = _metric("tidegate_records_consumed_total{service,topic}")
"""Records read from a topic; after a rebalance some are read again."""
PUBLISHED: Final = _metric("tidegate_messages_published_total{service,kind}")
"""Commands and outcomes that the broker has confirmed, by kind of event."""
OUTCOMES: Final = _metric("tidegate_outcomes_total{service,kind,reason}")
"""Outcomes of executed commands, by kind and, for refusals, reason."""
LATENCY: Final = _metric("tidegate_event_to_action_seconds{service,kind}", _QUICK)
"""From the broker's time of the event or command to the broker's confirmation of what followed."""
COMMAND_SECONDS: Final = _metric("tidegate_command_duration_seconds{service,kind,result}", _SLOW)
"""How long one attempt at a command took, by kind of command and whether it succeeded."""
RUNNING: Final = _metric("tidegate_commands_running{service}")
"""Commands that are being executed now."""
OLDEST_RUNNING: Final = _metric("tidegate_oldest_running_command_seconds{service}")
"""How long the command that has run longest has been running; 0 where none runs."""
RETRIES: Final = _metric("tidegate_failed_attempts_total{service,error}")
"""Failed attempts at commands, by class of error; most are tried again."""
DIRECTORIES: Final = _metric("tidegate_directories_removed_total{service}")
"""Obsolete directories removed."""
BYTES: Final = _metric("tidegate_removed_bytes_total{service}")
"""Bytes of the files removed by cleaning."""
QUARANTINED: Final = _metric("tidegate_directories_quarantined_total{service}")
"""Obsolete directories moved into quarantine; they count as removed once they are."""
QUARANTINED_BYTES: Final = _metric("tidegate_quarantined_bytes_total{service}")
"""Bytes of the files moved into quarantine."""
PUT_BACK: Final = _metric("tidegate_directories_put_back_total{service}")
"""Directories put back out of quarantine by an undo."""
FILES: Final = _metric("tidegate_restore_files_removed_total{service}")
"""Files removed by restores."""
DEAD_LETTERS: Final = _metric("tidegate_dead_letters_total{service,fault}")
"""Messages put aside as dead letters, by what they failed on: message, location or service."""
REBALANCES: Final = _metric("tidegate_rebalances_total{service,event}")
"""Changes of the partitions owned: assigned, revoked or lost."""
ASSIGNED: Final = _metric("tidegate_assigned_partitions{service}")
"""Partitions that this process owns."""
RESTORE_SECONDS: Final = _metric("tidegate_state_restore_seconds{service}", _QUICK)
"""How long acquiring the changelog and reading the state back took, at an assignment."""
RESTORED: Final = _metric("tidegate_state_restored_records_total{service}")
"""Records read from changelogs to restore the coordinator's rows."""
WRITTEN: Final = _metric("tidegate_changelog_written_bytes_total{service}")
"""Bytes of keys and values written to changelogs."""
LAST_POLL: Final = _metric("tidegate_last_poll_timestamp_seconds{service}")
"""When the service polled last, in seconds since the epoch; an idle one polls too."""

PROCESS_METRICS: Final = tuple(_DEFINED)
"""What a process of `tidegate run` exports, beside prometheus-client's `process_*`, `python_*`."""

BRIDGE_ACTIVE: Final = _metric("tidegate_bridge_active{service}")
"""1: this bridge watches the Metastore; 0: it stands by."""
BRIDGE_CALLS: Final = _metric("tidegate_metastore_calls_total{service,call}")
"""Calls of the Metastore, by name; those that failed too."""
BRIDGE_POLL: Final = _metric("tidegate_metastore_poll_seconds{service}", _QUICK)
"""Duration of a poll of the Metastore, including publication."""
BRIDGE_LAST_POLL: Final = _metric("tidegate_metastore_last_poll_timestamp_seconds{service}")
"""When the last poll of the Metastore succeeded, in seconds since the epoch."""
BRIDGE_HOLDS: Final = _metric("tidegate_metastore_waiting_holds{service}")
"""Locks and transactions that are waited for, each counted for each table."""
BRIDGE_VACUUMS: Final = _metric("tidegate_metastore_unmarked_compactions{service}")
"""Published compactions that are not marked as cleaned in the Metastore's queue yet."""
BRIDGE_MARKED: Final = _metric("tidegate_metastore_marked_cleaned_total{service}")
"""Compactions that were marked as cleaned in the Metastore's queue."""
BRIDGE_REFUSED: Final = _metric("tidegate_metastore_refused_total{service}")
"""Tables, compactions and events that the bridge can't handle; its log says why, once each."""
BRIDGE_METRICS: Final = tuple(_DEFINED[len(PROCESS_METRICS) :])
"""What `tidegate bridge metastore` exports besides."""

LAG: Final = _metric("kafka_consumergroup_lag{consumergroup,topic,partition}")
"""Records between a group's committed offset and the end of what can be read of the partition."""
CURRENT: Final = _metric("kafka_consumergroup_current_offset{consumergroup,topic,partition}")
"""A group's committed offset."""
MEMBERS: Final = _metric("kafka_consumergroup_members{consumergroup}")
"""Members of the group of a service or a configured bridge; 0 where it does not run."""
END: Final = _metric("kafka_topic_partition_current_offset{topic,partition}")
"""The end offset of what can be read of a partition."""
HIDDEN: Final = _metric("tidegate_hidden_offsets{topic,partition}")
"""Offsets behind the end of what can be read: an open transaction hides them."""
SEEN: Final = _metric("tidegate_outcomes_seen_total{kind,reason}")
"""Outcomes appended since the monitor started, of all services and people."""
NEW_DEAD_LETTERS: Final = _metric("tidegate_dead_letters_seen_total{fault}")
"""Messages put aside as dead letters since the monitor started, by what they failed on: message,
location, service; unknown where another tool wrote the dead letter."""
WAITING: Final = _metric("tidegate_waiting_vacuums{tables}")
"""Vacuums that wait for readers, by the first pattern of [monitoring] tables that matches."""
OVERDUE: Final = _metric("tidegate_overdue_vacuums{tables}")
"""Vacuums that wait longer than the limit of [[alarms]], by the patterns of [monitoring]."""
OLDEST_WAITING: Final = _metric("tidegate_oldest_waiting_vacuum_timestamp_seconds{tables}")
"""When the vacuum that has waited longest was published, in seconds since the epoch."""
WAITING_HOLDS: Final = _metric("tidegate_waiting_holds{tables,kind}")
"""Outstanding locks and transactions of waiting vacuums."""
IN_QUARANTINE: Final = _metric("tidegate_quarantine_directories{tables}")
"""Directories in quarantine that are not removed yet, by the patterns of [monitoring]."""
IN_QUARANTINE_BYTES: Final = _metric("tidegate_quarantine_bytes{tables}")
"""Bytes of the files in quarantine, by the patterns of [monitoring]."""
HELD: Final = _metric("tidegate_held_tables{tables}")
"""Tables whose cleaning is on hold, by the patterns of [monitoring]."""
OPEN_DEAD_LETTERS: Final = _metric("tidegate_open_dead_letters{fault}")
"""Dead letters that are neither redriven nor discarded, by what their messages failed on."""
PENDING_APPROVALS: Final = _metric("tidegate_pending_approvals")
"""Restores that wait for a second person."""
UNFINISHED_RESTORES: Final = _metric("tidegate_unfinished_restores{state}")
"""Tables whose restore began and did not complete; state is running or failed."""
PINNED: Final = _metric("tidegate_savepoint_pinned_bytes{tables}")
"""Bytes that only savepoints keep from Hudi's cleaner, by the patterns of [monitoring], as last
measured (once a day) for each table."""
PINNED_SINCE: Final = _metric("tidegate_oldest_savepoint_timestamp_seconds{tables}")
"""When the oldest savepoint of those tables was made, in seconds since the epoch."""
MONITOR_LAST_POLL: Final = _metric("tidegate_monitor_last_poll_timestamp_seconds")
"""When the monitor last polled the complete deployment, in seconds since the epoch."""

_BEFORE: Final = len(PROCESS_METRICS) + len(BRIDGE_METRICS)
DEPLOYMENT_METRICS: Final = (BUILD_INFO, *_DEFINED[_BEFORE:])
"""What `tidegate monitor` exports, read off the broker: a service that stands still is seen too."""
