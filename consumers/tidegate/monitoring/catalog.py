"""The metrics: one list, from which the collectors, the dashboard and the alert rules are made.

No label holds what upstream writers choose freely, such as a table's name: the number of time
series is bounded by the deployment, never by what is published.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from tidegate.events import Outcome
from tidegate.events.reasons import Reason


class Kind(StrEnum):
    """The kinds of Prometheus metrics that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A metric family. A counter's name ends with `_total`; durations are in seconds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ("service",)
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's classic buckets."""


_REASONS: Final = frozenset(Reason)


def reason_of(outcome: Outcome) -> str:
    """The label for an outcome's reason: a code of `Reason`, "other" for any other, or empty.

    Writers of outcomes choose the text, so as a label it could create unlimited time series.
    """
    reason = getattr(outcome, "reason", None)
    if reason is None:
        return ""
    return str(reason) if reason in _REASONS else "other"


_QUICK: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600, 3600)
_SLOW: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)

BUILD_INFO: Final = Metric("tidegate_build_info", Kind.GAUGE, "1; the version.", ("version",))
RECORDS: Final = Metric(
    "tidegate_records_consumed_total",
    Kind.COUNTER,
    "Records read from a topic; after a rebalance some are read again.",
    ("service", "topic"),
)
PUBLISHED: Final = Metric(
    "tidegate_messages_published_total",
    Kind.COUNTER,
    "Commands and outcomes that the broker has confirmed, by kind of event.",
    ("service", "kind"),
)
OUTCOMES: Final = Metric(
    "tidegate_outcomes_total",
    Kind.COUNTER,
    "Outcomes of executed commands, by kind and, for refusals, reason.",
    ("service", "kind", "reason"),
)
LATENCY: Final = Metric(
    "tidegate_event_to_action_seconds",
    Kind.HISTOGRAM,
    "From the broker's time of the event or command to the broker's confirmation of what followed.",
    ("service", "kind"),
    _QUICK,
)
COMMAND_SECONDS: Final = Metric(
    "tidegate_command_duration_seconds",
    Kind.HISTOGRAM,
    "How long one attempt at a command took, by kind of command and whether it succeeded.",
    ("service", "kind", "result"),
    _SLOW,
)
RUNNING: Final = Metric(
    "tidegate_commands_running", Kind.GAUGE, "Commands that are being executed now."
)
OLDEST_RUNNING: Final = Metric(
    "tidegate_oldest_running_command_seconds",
    Kind.GAUGE,
    "How long the command that has run longest has been running; 0 where none runs.",
)
RETRIES: Final = Metric(
    "tidegate_failed_attempts_total",
    Kind.COUNTER,
    "Failed attempts at commands, by class of error; most are tried again.",
    ("service", "error"),
)
DIRECTORIES: Final = Metric(
    "tidegate_directories_removed_total", Kind.COUNTER, "Obsolete directories removed."
)
BYTES: Final = Metric(
    "tidegate_removed_bytes_total", Kind.COUNTER, "Bytes of the files removed by cleaning."
)
QUARANTINED: Final = Metric(
    "tidegate_directories_quarantined_total",
    Kind.COUNTER,
    "Obsolete directories moved into quarantine; they count as removed once they are.",
)
QUARANTINED_BYTES: Final = Metric(
    "tidegate_quarantined_bytes_total", Kind.COUNTER, "Bytes of the files moved into quarantine."
)
PUT_BACK: Final = Metric(
    "tidegate_directories_put_back_total",
    Kind.COUNTER,
    "Directories put back out of quarantine by an undo.",
)
FILES: Final = Metric(
    "tidegate_restore_files_removed_total", Kind.COUNTER, "Files removed by restores."
)
DEAD_LETTERS: Final = Metric(
    "tidegate_dead_letters_total",
    Kind.COUNTER,
    "Messages put aside as dead letters, by what they failed on: message, location or service.",
    ("service", "fault"),
)
REBALANCES: Final = Metric(
    "tidegate_rebalances_total",
    Kind.COUNTER,
    "Changes of the partitions owned: assigned, revoked or lost.",
    ("service", "event"),
)
ASSIGNED: Final = Metric(
    "tidegate_assigned_partitions", Kind.GAUGE, "Partitions that this process owns."
)
RESTORE_SECONDS: Final = Metric(
    "tidegate_state_restore_seconds",
    Kind.HISTOGRAM,
    "How long acquiring the changelog and reading the state back took, at an assignment.",
    buckets=_QUICK,
)
RESTORED: Final = Metric(
    "tidegate_state_restored_records_total",
    Kind.COUNTER,
    "Records read from changelogs to restore the coordinator's rows.",
)
WRITTEN: Final = Metric(
    "tidegate_changelog_written_bytes_total",
    Kind.COUNTER,
    "Bytes of keys and values written to changelogs.",
)
LAST_POLL: Final = Metric(
    "tidegate_last_poll_timestamp_seconds",
    Kind.GAUGE,
    "When the service polled last, in seconds since the epoch; an idle one polls too.",
)

PROCESS_METRICS: Final = (
    *(BUILD_INFO, RECORDS, PUBLISHED, OUTCOMES, LATENCY, COMMAND_SECONDS, RUNNING),
    *(OLDEST_RUNNING, RETRIES, DIRECTORIES, BYTES, FILES, DEAD_LETTERS, REBALANCES),
    *(QUARANTINED, QUARANTINED_BYTES, PUT_BACK),
    *(ASSIGNED, RESTORE_SECONDS, RESTORED, WRITTEN, LAST_POLL),
)
"""What a process of `tidegate run` exports, beside prometheus-client's `process_*`, `python_*`."""

BRIDGE_ACTIVE: Final = Metric(
    "tidegate_bridge_active", Kind.GAUGE, "1: this bridge watches the Metastore; 0: it stands by."
)
BRIDGE_CALLS: Final = Metric(
    "tidegate_metastore_calls_total",
    Kind.COUNTER,
    "Calls of the Metastore, by name; those that failed too.",
    ("service", "call"),
)
BRIDGE_POLL: Final = Metric(
    "tidegate_metastore_poll_seconds",
    Kind.HISTOGRAM,
    "Duration of a poll of the Metastore, including publication.",
    buckets=_QUICK,
)
BRIDGE_LAST_POLL: Final = Metric(
    "tidegate_metastore_last_poll_timestamp_seconds",
    Kind.GAUGE,
    "When the last poll of the Metastore succeeded, in seconds since the epoch.",
)
BRIDGE_HOLDS: Final = Metric(
    "tidegate_metastore_waiting_holds",
    Kind.GAUGE,
    "Locks and transactions that are waited for, each counted for each table.",
)
BRIDGE_VACUUMS: Final = Metric(
    "tidegate_metastore_unmarked_compactions",
    Kind.GAUGE,
    "Published compactions that are not marked as cleaned in the Metastore's queue yet.",
)
BRIDGE_MARKED: Final = Metric(
    "tidegate_metastore_marked_cleaned_total",
    Kind.COUNTER,
    "Compactions that were marked as cleaned in the Metastore's queue.",
)
BRIDGE_REFUSED: Final = Metric(
    "tidegate_metastore_refused_total",
    Kind.COUNTER,
    "Tables, compactions and events that the bridge can't handle; its log says why, once each.",
)
BRIDGE_METRICS: Final = (
    *(BRIDGE_ACTIVE, BRIDGE_CALLS, BRIDGE_POLL, BRIDGE_LAST_POLL),
    *(BRIDGE_HOLDS, BRIDGE_VACUUMS, BRIDGE_MARKED, BRIDGE_REFUSED),
)
"""What `tidegate bridge metastore` exports besides."""

LAG: Final = Metric(
    "kafka_consumergroup_lag",
    Kind.GAUGE,
    "Records between a group's committed offset and the end of what can be read of the partition.",
    ("consumergroup", "topic", "partition"),
)
CURRENT: Final = Metric(
    "kafka_consumergroup_current_offset",
    Kind.GAUGE,
    "A group's committed offset.",
    ("consumergroup", "topic", "partition"),
)
MEMBERS: Final = Metric(
    "kafka_consumergroup_members",
    Kind.GAUGE,
    "Members of a service's group; 0 where the service does not run.",
    ("consumergroup",),
)
END: Final = Metric(
    "kafka_topic_partition_current_offset",
    Kind.GAUGE,
    "The end offset of what can be read of a partition.",
    ("topic", "partition"),
)
HIDDEN: Final = Metric(
    "tidegate_hidden_offsets",
    Kind.GAUGE,
    "Offsets behind the end of what can be read: an open transaction hides them.",
    ("topic", "partition"),
)
SEEN: Final = Metric(
    "tidegate_outcomes_seen_total",
    Kind.COUNTER,
    "Outcomes appended since the monitor started, of all services and people.",
    ("kind", "reason"),
)
NEW_DEAD_LETTERS: Final = Metric(
    "tidegate_dead_letters_seen_total",
    Kind.COUNTER,
    "Messages put aside as dead letters since the monitor started, by what they failed on:"
    " message, location, service; unknown where another tool wrote the dead letter.",
    ("fault",),
)
WAITING: Final = Metric(
    "tidegate_waiting_vacuums",
    Kind.GAUGE,
    "Vacuums that wait for readers, by the first pattern of [monitoring] tables that matches.",
    ("tables",),
)
OVERDUE: Final = Metric(
    "tidegate_overdue_vacuums",
    Kind.GAUGE,
    "Vacuums that wait longer than the limit of [[alarms]], by the patterns of [monitoring].",
    ("tables",),
)
OLDEST_WAITING: Final = Metric(
    "tidegate_oldest_waiting_vacuum_timestamp_seconds",
    Kind.GAUGE,
    "When the vacuum that has waited longest was published, in seconds since the epoch.",
    ("tables",),
)
WAITING_HOLDS: Final = Metric(
    "tidegate_waiting_holds",
    Kind.GAUGE,
    "Outstanding locks and transactions of waiting vacuums.",
    ("tables", "kind"),
)
IN_QUARANTINE: Final = Metric(
    "tidegate_quarantine_directories",
    Kind.GAUGE,
    "Directories in quarantine that are not removed yet, by the patterns of [monitoring].",
    ("tables",),
)
IN_QUARANTINE_BYTES: Final = Metric(
    "tidegate_quarantine_bytes",
    Kind.GAUGE,
    "Bytes of the files in quarantine, by the patterns of [monitoring].",
    ("tables",),
)
HELD: Final = Metric(
    "tidegate_held_tables",
    Kind.GAUGE,
    "Tables whose cleaning is on hold, by the patterns of [monitoring].",
    ("tables",),
)
OPEN_DEAD_LETTERS: Final = Metric(
    "tidegate_open_dead_letters",
    Kind.GAUGE,
    "Dead letters that are neither redriven nor discarded, by what their messages failed on.",
    ("fault",),
)
PENDING_APPROVALS: Final = Metric(
    "tidegate_pending_approvals", Kind.GAUGE, "Restores that wait for a second person.", ()
)
UNFINISHED_RESTORES: Final = Metric(
    "tidegate_unfinished_restores",
    Kind.GAUGE,
    "Tables whose restore began and did not complete; state is running or failed.",
    ("state",),
)
PINNED: Final = Metric(
    "tidegate_savepoint_pinned_bytes",
    Kind.GAUGE,
    "Bytes that only savepoints keep from Hudi's cleaner, by the patterns of [monitoring], as"
    " last measured (once a day) for each table.",
    ("tables",),
)
PINNED_SINCE: Final = Metric(
    "tidegate_oldest_savepoint_timestamp_seconds",
    Kind.GAUGE,
    "When the oldest savepoint of those tables was made, in seconds since the epoch.",
    ("tables",),
)
MONITOR_LAST_POLL: Final = Metric(
    "tidegate_monitor_last_poll_timestamp_seconds",
    Kind.GAUGE,
    "When the monitor last polled the complete deployment, in seconds since the epoch.",
    (),
)

DEPLOYMENT_METRICS: Final = (
    *(BUILD_INFO, LAG, CURRENT, MEMBERS, END, HIDDEN, SEEN, NEW_DEAD_LETTERS, WAITING),
    *(IN_QUARANTINE, IN_QUARANTINE_BYTES, HELD),
    *(OPEN_DEAD_LETTERS, PENDING_APPROVALS, UNFINISHED_RESTORES),
    *(OVERDUE, OLDEST_WAITING, WAITING_HOLDS, PINNED, PINNED_SINCE, MONITOR_LAST_POLL),
)
"""What `tidegate monitor` exports, read off the broker: a service that stands still is seen too."""
