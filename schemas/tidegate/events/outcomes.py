"""Outcomes: what the executors did, or why they did not. The audit trail."""

from __future__ import annotations

from tidegate.events.base import Count, Outcome, Text, Value


class InstantRef(Value, frozen=True):
    """An instant on a Hudi timeline, as Hudi's HoodieInstantInfo names it."""

    instant: Text
    action: Text


class SavepointCreated(Outcome, frozen=True):
    """The savepoint is on the timeline, now or already before (`already_there`)."""

    instant: Text
    partitions: Count
    files: Count
    already_there: bool = False
    duration_ms: Count


class SavepointRejected(Outcome, frozen=True):
    """No savepoint was written and nothing was changed. `reason` is a fixed code."""

    instant: Text | None = None
    reason: Text
    message: Text


class RestorePlan(Outcome, frozen=True):
    """What a restore does: the fields that its plan and its start have in common."""

    savepoint: Text
    plan_id: Text
    instants: tuple[InstantRef, ...]
    files: Count
    bytes: Count


class RestorePlanned(RestorePlan, frozen=True):
    """The answer to a request with `plan_only`: nothing was changed."""


class RestoreStarted(RestorePlan, frozen=True):
    """The restore is about to change the table; `resumed` if an earlier attempt had begun."""

    restore_instant: Text
    resumed: bool = False


class RestoreCompleted(Outcome, frozen=True):
    """The savepoint is the table's last instant again."""

    savepoint: Text
    restore_instant: Text
    instants: tuple[InstantRef, ...]
    files_deleted: Count
    duration_ms: Count


class RestoreRejected(Outcome, frozen=True):
    """Nothing was changed. `reason` is a fixed code."""

    savepoint: Text
    reason: Text
    message: Text


class RestoreFailed(Outcome, frozen=True):
    """The restore began and could not finish: the same request resumes it."""

    savepoint: Text
    restore_instant: Text
    message: Text


class CleaningStarted(Outcome, frozen=True):
    """What is about to be removed, said before it is: a crash can't lose the record of it."""

    partition: Text | None = None
    directories: tuple[Text, ...]
    files: Count
    bytes: Count


class DirectoriesCleaned(Outcome, frozen=True):
    """Nothing that the vacuum made obsolete is left. `directories` went in this run."""

    partition: Text | None = None
    directories: tuple[Text, ...]
    files: Count
    bytes: Count
    duration_ms: Count


class CleaningRefused(Outcome, frozen=True):
    """Nothing was removed. `reason` is a fixed code."""

    partition: Text | None = None
    reason: Text
    message: Text
