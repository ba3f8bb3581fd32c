"""An event in one line for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from tidegate.errors.commands import command_line
from tidegate.events import CommitFlag, CommitFlagged, Event, RestoreAwaitingApproval, VacuumFlagged
from tidegate.events.fields import span
from tidegate.events.reasons import Reason
from tidegate.events.signature import Proof
from tidegate.hive.write_ids import shortened
from tidegate.ops.event_log import UNVERIFIED, LoggedEvent, reason_of

NO_WRITES: Final = "the table takes no writes until its restore is complete"
_STEP: Final = 1024
_OWN: Final = frozenset({"coordinator", Proof().named("coordinator")})
"""Requesters that a line leaves out where they gave no reason: no person asked."""
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def line_of(logged: LoggedEvent, *, of_table: str | None = None) -> str:
    """An event in one line: the broker's time, table, kind, content, requester and duration.

    The table is left out where it is `of_table`.
    """
    at = f"{logged.at:%Y-%m-%dT%H:%M:%SZ}"
    event = logged.event
    if event is None:
        return f"{at}  unreadable record at {logged.place}: {logged.problem}"
    table = "" if event.table == of_table else f"{event.table}  "
    return f"{at}  {table}{type(event).__name__}  {sentence(event, logged.proof)}"


def sentence(event: Event, proof: Proof | None = None) -> str:
    """An event's content, requester, reason, approver and duration. `proof` is of a request."""
    parts = [content_of(event)]
    why = getattr(event, "why", None)
    if (by := asked_by(event, proof)) and (why or by not in _OWN):
        parts.append(f"requested by {by}" + (f": {why}" if why else ""))
    if approver := getattr(event, "approved_by", None):
        proof = proof or Proof(getattr(event, "approval_signed_by", None))
        parts.append(f"approved by {proof.named(approver)}")
    took = getattr(event, "duration_ms", None)
    if took is not None:
        parts.append(f"took {took / 1000:.1f} s")
    return "; ".join(part for part in parts if part)


def asked_by(event: Event, proof: Proof | None = None) -> str:
    """The requester for people: the signer of the request, or a name that no signature proves."""
    if proof is None:
        proof = Proof(getattr(event, "signed_by", None))
        if reason_of(event) == Reason.BAD_SIGNATURE:
            proof = proof._replace(otherwise=UNVERIFIED)
    by = getattr(event, "requested_by", None)
    return proof.named(by) if by else ""


def approval_command(event: RestoreAwaitingApproval) -> str:
    """The command that approves this restore."""
    return command_line(
        "publish approval",
        request=event.caused_by,
        plan_id=event.plan_id,
        table=event.table,
        location=event.location,
        reason="checked the plan",
    )


def flagged(event: CommitFlagged | VacuumFlagged) -> str:
    """Why a commit or a vacuum needs a person, and the command that shows more."""
    commit, table = isinstance(event, CommitFlagged), event.table
    if not commit:
        look = command_line("waiting", table=table)
    elif event.flag == CommitFlag.NOT_ON_TIMELINE:
        look = command_line("events tail", table=table, topic="commits")
    else:
        look = command_line("savepoints list", table)
    return f"flagged {'commit' if commit else 'vacuum'} of {table}: {content_of(event)}: {look}"


_AMOUNT: Final = "{instants:instant}, {files:file}, {bytes:size}"
_DIRECTORIES: Final = (
    "{directories:names}: {files:file}, {bytes:size}[ (part {part} of {parts})]"
    "[; later vacuums made {superseded_by:names}][; in quarantine for {keep_ms:milliseconds}]"
)
_PLANNED: Final = (
    "to {savepoint}[!instants:: nothing to do, it is the newest commit]"
    f"[?instants:: {_AMOUNT}], plan {{plan_id}}[?resumed:, resumed][. {{message}}]"
)
_DEAD_LETTER: Final = (
    "of {service}, from {origin_topic}/{origin_partition}/{origin_offset} ({error})"
)
SENTENCES: Final[Mapping[str, str]] = {
    "CommitCompleted": "{action} {instant}[ {operation}], by {source}",
    "CommitCondemned": "{instant} by {source}: {reason}",
    "CommitFlagged": "{instant}: {flag}: {message}",
    "VacuumFinished": "{kind} made {directories:names}; holds: {locks:lock},"
    " {open_transactions:open transaction}; by {source}",
    "LockReleased": "[?lock_id:lock {lock_id}[ of transaction {transaction_id}]]"
    "[!lock_id:transaction {transaction_id}] {reason}, by {source}",
    "WritesAborted": "aborted writes of {valid_write_ids:shortened}",
    "SavepointRequested": "on [{instant}][!instant:the newest commit][, for {tiers:list}]",
    "SavepointsCheckRequested": "of the table[, for condemned {condemned}]",
    "SavepointsChecked": "{savepoints:savepoint}, {made} made, {removed} removed"
    "[; no rule owns {unowned:savepoint}][; they pin {pinned_bytes:size}]",
    "SavepointRemovalRequested": "of {instant}: {reason}",
    "SavepointRemovalRejected": "{instant}: {reason}: {message}",
    "SavepointCreated": "{instant}: {files:file} in {partitions:partition}"
    "[, for {tiers:list}][?already_there:, existed already[!decided_at:, and stays until a person"
    " removes it]][, kept for at least {lifetime_seconds:span} at a person's request]",
    "SavepointRemoved": "{instant}[?already_gone:: was gone already][!already_gone:[ of {made_by}]"
    "[, which protected {files:file}]; {savepoints_left:savepoint} left]",
    "RestoreRequested": "to {savepoint}[?plan_only:, only a plan]: {reason}",
    "RestoreApproved": "of request {request}, plan {plan_id}: {reason}",
    "RestoreApprovalRejected": "of request {request}: {reason}: {message}",
    "RestoreDeclined": "of request {request}: {reason}",
    "WithdrawalRequested": "of request {request}: {reason}",
    "RequestWithdrawn": "request {request} ends",
    "WithdrawalRefused": "of request {request}: {reason}: {message}",
    "StopRequested": "of task {stops}: {kind}",
    "RestorePlanned": _PLANNED,
    "RestoreAwaitingApproval": f"to {{savepoint}}: {_AMOUNT}; a second person has to approve"
    "[ by {expires_at:time}]: plan {plan_id}, request {caused_by}",
    "RestoreStarted": _PLANNED,
    "RestoreProgressed": "to {savepoint}: {instants_done} of {instants_total:instant} rolled back,"
    " {files_done} of {files_total:file} deleted ({files_done:% files_total} %)",
    "RestoreCompleted": "to {savepoint}: {instants:instant} rolled back, {files_deleted:file}"
    " deleted[?already_done:, before this request]",
    "RestoreRejected": "to {savepoint}: {reason}: {message}",
    "RestoreFailed": "to {savepoint}: {message}",
    "CleaningReleased": "{kind} that made {directories:names}",
    "AbortedCleaningReleased": "aborted writes of {valid_write_ids:shortened}",
    "CleaningStarted": _DIRECTORIES,
    "DirectoriesCleaned": _DIRECTORIES,
    "CleaningProgressed": "{directories_done} of {directories_total:directory} removed, with"
    " {files_done} of {files_total:file} ({directories_done:% directories_total} %)",
    "CleaningDeferred": "{reason}: {message}; it is tried again",
    "CleaningHeld": "cleaning of the table is paused",
    "CleaningHoldRemoved": "{released:vacuum} released",
    "CleaningUndoRequested": "of {cleaning}[?plan_only:, only a plan]: {reason}",
    "CleaningUndoPlanned": _DIRECTORIES,
    "CleaningUndone": _DIRECTORIES,
    "QuarantineRemovalRequested": "of {cleaning}: its time has passed",
    "QuarantineRemoved": _DIRECTORIES,
    "VacuumOverdueResolved": "[?replaced_by:replaced by a later publication]"
    "[!replaced_by:its cleaning was released]; waited since {since:time}",
    "UnknownTableResolved": "a vacuum came; releases had come since {since:time}",
    "DeadLetterRedriven": _DEAD_LETTER,
    "DeadLetterDiscarded": f"{_DEAD_LETTER}: {{reason}}",
    "TaskIssued": "task {number}: {kind}",
    "AttemptFailed": "task {number} ({kind}) is tried again: attempt {attempt} failed: {message}"
    " (since {since:time})",
    "TaskEnded": "task {number} has ended: {end}[: {message}]",
}
"""By kind of event, a template of its fields.

`{files:file}` counts, `{bytes:size}` has a unit, `{done:% total}` is a percentage. A part in
brackets needs all of its fields; `[?field:...]` and `[!field:...]` depend on one field.
"""
_PART: Final = re.compile(r"\[(?:([?!])(\w+):)?((?:[^\[\]]|\[[^\[\]]*\])*)\]")
_FIELD: Final = re.compile(r"\{(\w+)(?::([^}]+))?\}")


def content_of(event: Event) -> str:
    """The content of an event; by default its reason and message."""
    template = SENTENCES.get(type(event).__name__)
    if template is None:
        content = ": ".join(filter(None, (reason_of(event), getattr(event, "message", None))))
    else:
        content = _FIELD.sub(lambda it: _value(event, *it.groups()), _parts(event, template))
    partition = getattr(event, "partition", None)
    return content if partition is None else f"{partition}: {content}"


def _parts(event: Event, template: str) -> str:
    """A template without the parts that an event does not have."""

    def part(found: re.Match[str]) -> str:
        sign, name, text = found.groups()
        names = [name] if name else [field for field, _ in _FIELD.findall(text)]
        values = [getattr(event, field, None) for field in names]
        has_all = all(value not in (None, ()) and value is not False for value in values)
        return _parts(event, text) if has_all != (sign == "!") else ""

    return _PART.sub(part, template)


def _value(event: Event, name: str, form: str | None) -> str:
    value = getattr(event, name)
    if form is None:
        return str(value)
    if form.startswith("% "):
        return str(100 * value // max(1, getattr(event, form[2:])))
    if form in _FORMS:
        return _FORMS[form](value)
    return counted(value if isinstance(value, int) else len(value), form)


def _names(directories: tuple[str, ...]) -> str:
    more = f" and {len(directories) - 3} more" if len(directories) > 3 else ""  # noqa: PLR2004
    return f"{', '.join(directories[:3])}{more}" or "nothing"


def size(count: int) -> str:
    """A number of bytes in a readable unit."""
    value, unit = float(count), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{count} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def age_of(span: timedelta) -> str:
    """A duration in its largest unit and the next: 3d 4h, 1m 30s, 5s."""
    seconds = max(0, int(span.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days}d {hours % 24}h"
    if hours:
        return f"{hours}h {minutes % 60}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"


def counted(number: int, thing: str) -> str:
    """A number of things, with its noun."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number} {thing}" if number == 1 else f"{number} {plural}"


_FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    "size": size,
    "time": "{:%Y-%m-%dT%H:%M:%SZ}".format,
    "milliseconds": lambda milliseconds: span(timedelta(milliseconds=milliseconds)),
    "list": ", ".join,
    "names": _names,
    "shortened": shortened,
    "span": lambda seconds: span(timedelta(seconds=seconds)),
}
