"""An event in one line for people, and in one flat row for scripts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any, Final

from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningHeld,
    CleaningHoldRemoved,
    CleaningProgressed,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRequested,
    CommitCompleted,
    CommitCondemned,
    CommitFlagged,
    DeadLetterDiscarded,
    DeadLetterRedriven,
    DirectoriesCleaned,
    Event,
    LockReleased,
    QuarantineRemovalRequested,
    QuarantineRemoved,
    RequestWithdrawn,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreDeclined,
    RestoreFailed,
    RestorePlanned,
    RestoreProgressed,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
    SavepointCreated,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    SavepointRequested,
    SavepointsChecked,
    SavepointsCheckRequested,
    StopRequested,
    TaskEnded,
    TaskIssued,
    UnknownTableResolved,
    VacuumFinished,
    VacuumOverdueResolved,
    WithdrawalRefused,
    WithdrawalRequested,
    WritesAborted,
)
from tidegate.events.outcomes import Answer, DirectoriesOutcome
from tidegate.hive import shortened
from tidegate.ops.event_log.logged import LoggedEvent

_STEP: Final = 1024
_OWN: Final = frozenset({"coordinator", "coordinator, unsigned"})
"""Requesters that a line leaves out where they gave no reason: no person asked."""
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def row_of(logged: LoggedEvent) -> dict[str, Any]:
    """An event for scripts: the fields to filter by, then the complete event.

    Fields that its kind does not have are None. `at` is the broker's time.
    """
    event = logged.event
    row: dict[str, Any] = {
        "at": logged.at.isoformat(timespec="milliseconds"),
        "table": event.table if event else (logged.record.key or b"").decode(errors="replace"),
        "kind": type(event).__name__ if event else None,
    }
    row |= {name: getattr(event, name, None) for name in ("event_id", "caused_by")}
    row["reason"] = reason_of(event) if event else None
    names = ("message", "requested_by", "why", "signed_by", "duration_ms")
    row |= {name: getattr(event, name, None) for name in names}
    row |= {"place": logged.place, "problem": logged.problem or None}
    return row | {"event": event.model_dump(mode="json") if event else None}


def reason_of(event: Event) -> str | None:
    """The code of a refusal or a flag; None for other events."""
    reason = getattr(event, "reason", None) or getattr(event, "flag", None)
    return None if reason is None else str(reason)


def line_of(logged: LoggedEvent, *, of_table: str | None = None) -> str:
    """An event in one line: the broker's time, table, kind, content, requester and duration.

    The table is left out where it is `of_table`.
    """
    at = f"{logged.at:%Y-%m-%dT%H:%M:%SZ}"
    event = logged.event
    if event is None:
        return f"{at}  unreadable record at {logged.place}: {logged.problem}"
    table = "" if event.table == of_table else f"{event.table}  "
    return f"{at}  {table}{type(event).__name__}  {sentence(event)}"


def sentence(event: Event) -> str:
    """An event's content, requester, reason and duration."""
    parts = [content_of(event)]
    why = getattr(event, "why", None)
    if (by := asked_by(event)) and (why or by not in _OWN):
        parts.append(f"requested by {by}" + (f" ({why})" if why else ""))
    if approver := getattr(event, "approved_by", None):
        parts.append(f"approved by {approver}")
    took = getattr(event, "duration_ms", None)
    if took is not None:
        parts.append(f"took {took / 1000:.1f} s")
    return "; ".join(part for part in parts if part)


def asked_by(event: Event) -> str:
    """The requester for people: the signer of the request, or a name that no signature proves."""
    by = getattr(event, "requested_by", None)
    if not by or not isinstance(event, Answer):
        return by or ""
    signer = event.signed_by
    if signer is None:
        return f"{by}, unsigned"
    return by if signer == by else f"{signer}, who signed as {by}"


def content_of(event: Event) -> str:
    """The content of an event; by default its reason and message."""
    template = _TEMPLATES.get(type(event))
    content = _content(event) if template is None else template.format(event)
    partition = getattr(event, "partition", None)
    return content if partition is None else f"{partition}: {content}"


_TEMPLATES: Final[Mapping[type[Event], str]] = {
    CommitCondemned: "{0.instant} by {0.source}: {0.reason}",
    CommitFlagged: "{0.instant}: {0.flag}: {0.message}",
    SavepointRemovalRequested: "of {0.instant}: {0.reason}",
    SavepointRemovalRejected: "{0.instant}: {0.reason}: {0.message}",
    RestoreApproved: "of request {0.request}, plan {0.plan_id}: {0.reason}",
    RestoreApprovalRejected: "of request {0.request}: {0.reason}: {0.message}",
    RestoreDeclined: "of request {0.request}: {0.reason}",
    WithdrawalRequested: "of request {0.request}: {0.reason}",
    RequestWithdrawn: "request {0.request} ends",
    WithdrawalRefused: "of request {0.request}: {0.reason}: {0.message}",
    RestoreRejected: "to {0.savepoint}: {0.reason}: {0.message}",
    RestoreFailed: "to {0.savepoint}: {0.message}",
    QuarantineRemovalRequested: "of {0.cleaning}: its time is over",
    CleaningHeld: "cleaning of the table is paused",
    UnknownTableResolved: "a vacuum came; releases had come since {0.since:%Y-%m-%dT%H:%M:%SZ}",
    TaskIssued: "task {0.number}: {0.kind}",
    StopRequested: "of task {0.stops}, a {0.kind}",
}


@singledispatch
def _content(event: Event) -> str:
    return ": ".join(filter(None, (reason_of(event), getattr(event, "message", None))))


@_content.register
def _(event: CommitCompleted) -> str:
    return " ".join(filter(None, (event.action, event.instant, event.operation)))


@_content.register
def _(event: VacuumFinished) -> str:
    txns = counted(len(event.open_transactions), "open transaction")
    made = f"{event.kind} made {_names(event.directories)}"
    return f"{made}; holds: {counted(len(event.locks), 'lock')}, {txns}"


@_content.register(WritesAborted)
@_content.register(AbortedCleaningReleased)
def _(event: WritesAborted | AbortedCleaningReleased) -> str:
    return f"aborted writes of {shortened(event.valid_write_ids)}"


@_content.register
def _(event: LockReleased) -> str:
    lock = "" if event.lock_id is None else f"lock {event.lock_id}"
    txn = "" if event.transaction_id is None else f"transaction {event.transaction_id}"
    return f"{' of '.join(filter(None, (lock, txn)))} {event.reason}"


@_content.register
def _(event: SavepointRequested) -> str:
    return f"on {event.instant or 'the newest commit'}{_tiers(event)}"


@_content.register
def _(event: SavepointsCheckRequested) -> str:
    return f"of the table{f', for condemned {event.condemned}' if event.condemned else ''}"


@_content.register
def _(event: SavepointsChecked) -> str:
    unowned = f"; no rule owns {counted(len(event.unowned), 'savepoint')}" if event.unowned else ""
    pinned = f"; they pin {size(event.pinned_bytes)}" if event.pinned_bytes else ""
    there = counted(event.savepoints, "savepoint")
    return f"{there}, {event.made} made, {event.removed} removed{unowned}{pinned}"


@_content.register(RestoreRequested)
@_content.register(CleaningUndoRequested)
def _(event: RestoreRequested | CleaningUndoRequested) -> str:
    what = (
        f"to {event.savepoint}" if isinstance(event, RestoreRequested) else f"of {event.cleaning}"
    )
    return f"{what}{', only a plan' if event.plan_only else ''}: {event.reason}"


@_content.register(CleaningReleased)
def _(event: CleaningReleased) -> str:
    return f"{event.kind} that made {_names(event.directories)}"


@_content.register
def _(event: SavepointCreated) -> str:
    there = ", existed already" if event.already_there else ""
    files = f"{counted(event.files, 'file')} in {counted(event.partitions, 'partition')}"
    return f"{event.instant}: {files}{_tiers(event)}{there}"


@_content.register
def _(event: SavepointRemoved) -> str:
    if event.already_gone:
        return f"{event.instant}: was gone already"
    files = "" if event.files is None else f", which protected {counted(event.files, 'file')}"
    made = f" of {event.made_by}" if event.made_by else ""
    return f"{event.instant}{made}{files}; {counted(event.savepoints_left, 'savepoint')} left"


@_content.register(RestorePlanned)
@_content.register(RestoreStarted)
def _(event: RestorePlanned | RestoreStarted) -> str:
    if not event.instants:
        return f"to {event.savepoint}: nothing to do, it is the newest commit, plan {event.plan_id}"
    resumed = ", resumed" if isinstance(event, RestoreStarted) and event.resumed else ""
    message = event.message if isinstance(event, RestorePlanned) else None
    text = f"to {event.savepoint}: {_amount(event)}, plan {event.plan_id}{resumed}"
    return f"{text}. {message}" if message else text


@_content.register
def _(event: RestoreAwaitingApproval) -> str:
    until = f" by {event.expires_at:%Y-%m-%dT%H:%M:%SZ}" if event.expires_at else ""
    plan = f"plan {event.plan_id}, request {event.caused_by}"
    return f"to {event.savepoint}: {_amount(event)}; a second person has to approve{until}: {plan}"


@_content.register
def _(event: RestoreProgressed) -> str:
    instants = f"{event.instants_done} of {counted(event.instants_total, 'instant')}"
    files = f"{event.files_done} of {counted(event.files_total, 'file')}"
    percent = 100 * event.files_done // event.files_total if event.files_total else 0
    return f"to {event.savepoint}: {instants} rolled back, {files} deleted ({percent} %)"


@_content.register
def _(event: RestoreCompleted) -> str:
    instants = counted(len(event.instants), "instant")
    files = counted(event.files_deleted, "file")
    before = ", before this request" if event.already_done else ""
    return f"to {event.savepoint}: {instants} rolled back, {files} deleted{before}"


@_content.register(CleaningStarted)
@_content.register(DirectoriesCleaned)
@_content.register(CleaningUndoPlanned)
@_content.register(CleaningUndone)
@_content.register(QuarantineRemoved)
def _(event: DirectoriesOutcome) -> str:
    text = f"{_names(event.directories)}: {counted(event.files, 'file')}, {size(event.bytes)}"
    if event.part is not None:
        text += f" (part {event.part} of {event.parts})"
    if isinstance(event, DirectoriesCleaned) and event.superseded_by:
        text += f"; later vacuums made {_names(event.superseded_by)}"
    if (keep_ms := getattr(event, "keep_ms", None)) is not None:
        text += f"; in quarantine for {keep_ms / 3_600_000:g} h"
    return text


@_content.register
def _(event: CleaningDeferred) -> str:
    return f"{event.reason}: {event.message}; it is tried again"


@_content.register
def _(event: CleaningHoldRemoved) -> str:
    return f"{counted(event.released, 'vacuum')} released"


@_content.register
def _(event: CleaningProgressed) -> str:
    directories = f"{event.directories_done} of {counted(event.directories_total, 'directory')}"
    files = f"{event.files_done} of {counted(event.files_total, 'file')}"
    percent = 100 * event.directories_done // max(1, event.directories_total)
    return f"{directories} removed, with {files} ({percent} %)"


@_content.register
def _(event: VacuumOverdueResolved) -> str:
    how = "replaced by a later publication" if event.replaced_by else "its cleaning was released"
    return f"{how}; waited since {event.since:%Y-%m-%dT%H:%M:%SZ}"


@_content.register(DeadLetterRedriven)
@_content.register(DeadLetterDiscarded)
def _(event: DeadLetterRedriven | DeadLetterDiscarded) -> str:
    place = f"{event.origin_topic}/{event.origin_partition}/{event.origin_offset}"
    reason = f": {event.reason}" if isinstance(event, DeadLetterDiscarded) else ""
    return f"of {event.service}, from {place} ({event.error}){reason}"


@_content.register
def _(event: TaskEnded) -> str:
    ended = f"task {event.number} has ended: {event.end}"
    return f"{ended}: {event.message}" if event.message else ended


def size(count: int) -> str:
    """A number of bytes in a readable unit."""
    value, unit = float(count), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{count} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def counted(number: int, thing: str) -> str:
    """A number of things, with its noun."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number} {thing}" if number == 1 else f"{number} {plural}"


def _amount(event: RestorePlanned | RestoreStarted | RestoreAwaitingApproval) -> str:
    instants = counted(len(event.instants), "instant")
    return f"{instants}, {counted(event.files, 'file')}, {size(event.bytes)}"


def _tiers(event: SavepointRequested | SavepointCreated) -> str:
    return f", for {', '.join(event.tiers)}" if event.tiers else ""


def _names(directories: tuple[str, ...]) -> str:
    shown = ", ".join(directories[:3])
    more = len(directories) - 3
    return (f"{shown} and {more} more" if more > 0 else shown) or "nothing"
