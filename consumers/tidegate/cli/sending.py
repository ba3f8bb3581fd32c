"""Send events and requests, and wait for their outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import typer

from tidegate.cli.deployment import check_reachable, located
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import duration, person
from tidegate.cli.output import write, write_error, write_json
from tidegate.errors import (
    ConfigError,
    ConfinementError,
    StopService,
    TidegateError,
    TransientError,
)
from tidegate.errors.commands import command_line
from tidegate.events import (
    ANYWHERE,
    Event,
    LockReleased,
    Request,
    RestoreDeclined,
    VacuumFinished,
    WithdrawalRequested,
)
from tidegate.events.base import Verdict
from tidegate.events.signature import SIGNED
from tidegate.events.topics import topic_of
from tidegate.publisher import Answered, Publisher, Receipt
from tidegate.publisher.checks import check_publishable
from tidegate.service.catalogue import COORDINATOR, EXECUTED
from tidegate.service.settings import Settings
from tidegate.signatures import SigningKey
from tidegate.storage import Storage

if TYPE_CHECKING:
    from tidegate.ops.event_log import EventLog

log = logging.getLogger(__name__)
CLI: Final = "tidegate-cli"
ANSWERED: Final = (Request, VacuumFinished)
"""The events whose outcome can be waited for."""
_ENDS: Final = (RestoreDeclined, WithdrawalRequested)
"""Requests that change no table."""
OF_VERDICT: Final = {
    Verdict.DONE: ExitCode.DONE,
    Verdict.REFUSED: ExitCode.REFUSED,
    Verdict.FAILED: ExitCode.FAILED,
    Verdict.UNANSWERED: ExitCode.UNANSWERED,
    Verdict.AWAITING: ExitCode.AWAITING,
}


@dataclass(frozen=True, slots=True)
class Sending:
    """Options for signing, and for waiting for the outcome.

    Options:
        wait: Wait for the outcome, print it, and exit by it: see -h.
        timeout: How long to wait at most, e.g. 90s or 2h.
        new: Accept a table, or a request's id, that no event has named yet.
    """

    wait: bool = False
    timeout: str = "10m"
    sign_with: Path | None = None
    new: bool = False
    as_json: bool = False
    config: Path | None = None


@dataclass(frozen=True, slots=True)
class Requesting(Sending):
    """Options of a person's request: also who asks, and the id that a repeated call keeps."""

    requested_by: str | None = None
    request_id: str | None = None


def request(
    sending: Sending,
    table: str,
    publish_it: Callable[..., Receipt],
    *,
    again: bool = False,
    **fields: object,
) -> None:
    """Publish, and optionally wait for the outcome; `again`: the outcome may exist already.

    Args:
        sending: How to send; a `Requesting` adds who asks, and the request's id.
        table: The table.
        publish_it: A method of `Publisher`, called with `table` and the fields.
        again: Whether the outcome may exist already.
        fields: The fields of the event.
    """
    if isinstance(sending, Requesting):
        fields = {
            "requested_by": person(sending.requested_by),
            "request_id": sending.request_id,
            **fields,
        }
        again = again or sending.request_id is not None
    settings = Settings.load(sending.config)
    if "location" in fields:
        fields["location"] = located(settings, table, cast("str | None", fields["location"]))
    with _ReachablePublisher(settings, CLI, sending.sign_with, new=sending.new) as publisher:
        if not sending.wait:
            receipt = publish_it(publisher, table=table, **fields)
            print_receipt(receipt, as_json=sending.as_json)
            if not sending.as_json:
                write(f"its outcome: {_look(receipt)}")
            return
        seconds = duration(sending.timeout).total_seconds()
        publisher.notes_stopped = True
        check_reachable(settings)  # a watch would wait longer for a broker
        with publisher.watch(table, from_start=again) as watch:
            receipt = publish_it(publisher, table=table, **fields)
            write_error(f"published {receipt.event_id}, waiting for its outcome")
            try:
                raise typer.Exit(_report(watch.answers(receipt, seconds), receipt, sending))
            except KeyboardInterrupt:
                write_error(f"no longer waiting, but it was published: {_look(receipt)}")
                raise


def _report(answers: Iterable[Answered], receipt: Receipt, sending: Sending) -> ExitCode:
    """Print outcomes on standard error as they come; then the last one as a line, or as JSON."""
    from tidegate.ops.summary import sentence  # noqa: PLC0415 - heavy

    last, line = Answered(Verdict.UNANSWERED), "no outcome came"
    for last in answers:
        event = last.outcome
        line = f"{type(event).__name__} {sentence(event)}" if event else last.message
        if sending.as_json or last.verdict is Verdict.UNDER_WAY:
            write_error(line)
    fields = {
        "event_id": receipt.event_id,
        "verdict": last.verdict,
        "kind": type(last.outcome).__name__ if last.outcome else None,
        "message": last.message or None,
        "event": last.outcome,
    }
    write_json(fields) if sending.as_json else write(f"{last.verdict}: {line}")
    if last.verdict is Verdict.UNANSWERED and not sending.as_json:
        write(f"it may still come: {_look(receipt)}")
    return OF_VERDICT[last.verdict]


class _ReachablePublisher(Publisher):
    """A publisher that first checks that the broker and the topics exist.

    An invalid event is reported before that. A producer alone would wait half a minute for a broker
    that is down or a missing topic, and then not report which.
    """

    def __init__(
        self, settings: Settings, source: str, sign_with: Path | None, *, new: bool = False
    ) -> None:
        """Take the deployment, the source of the events, and whether tables may be new."""
        super().__init__(
            source=source,
            prefix=settings.topics.prefix,
            config=settings.connection(),
            registry=settings.registry,
            sign_with=sign_with or settings.security.sign_with,
        )
        self._settings, self._new = settings, new
        self._key = sign_with or settings.security.sign_with
        self.notes_stopped = False
        """Whether a line is written where a service does not run that answers a request."""

    def publish(self, *events: Event) -> list[Receipt]:
        """Publish events; see `Publisher`.

        Raises:
            ConfigError: a key is needed, a topic does not exist, the broker refuses the login, or
                a request is for a table that no event has named, or for another table's location,
                or the settings do not let its key sign it.
            TransientError: no broker answers.
        """
        needs_key = self._settings.security.require_signatures and self._key is None
        for event in events:
            check_publishable(event)
            if needs_key and isinstance(event, SIGNED):  # a service would refuse it
                raise ConfigError("security.require_signatures is on: give --sign-with KEY")
        check_reachable(self._settings, *{topic_of(type(event)).suffix for event in events})
        for event in events:
            for check in (
                self._check_key,
                self._check_named,
                self._check_location,
                self._check_hold,
            ):
                try:
                    check(event)
                except TidegateError as doubt:
                    if isinstance(event, Request) and not isinstance(event, _ENDS):
                        raise
                    if isinstance(doubt, ConfigError):
                        write_error(f"note: {doubt}")
                    else:  # a writer need not have the right to read
                        log.debug("%s was not checked: %s", event.event_id, doubt)
        if self.notes_stopped:
            self._note_stopped(events)
        return super().publish(*events)

    @cached_property
    def _log(self) -> EventLog:
        from tidegate.ops.event_log import EventLog  # noqa: PLC0415 - heavy

        return EventLog.of(self._settings)

    def _note_stopped(self, events: Iterable[Event]) -> None:
        from tidegate.ops.groups import Groups  # noqa: PLC0415 - heavy

        kinds = tuple(map(type, events))
        needed = [COORDINATOR, *(name for name, of in EXECUTED.items() if {*kinds} & {*of})]
        groups, prefix = Groups(self._settings.connection()), self._settings.topics.prefix
        with suppress(TidegateError):  # a person need not have the right to see the groups
            if down := groups.stopped(prefix, needed):
                run, named = command_line("run", *down), ", ".join(down)
                write_error(f"note: not running, but needed for an outcome: {named}: {run}")

    def _check_key(self, event: Event) -> None:
        from tidegate.service.assembly import trusted_keys  # noqa: PLC0415 - heavy

        if self._key is None or not self._settings.security.keys or not isinstance(event, SIGNED):
            return
        own, now = SigningKey.read(self._key).key_id, datetime.now(UTC)
        for key in trusted_keys(self._settings):
            if key.public.key_id == own and (why := key.refuses(event, now)):
                raise ConfigError(why)

    def _check_named(self, event: Event) -> None:
        if self._new:
            return
        is_asked = isinstance(event, Request)
        otherwise = "--new accepts a new table" if is_asked else "it counts as a new table"
        try:
            self._log.check_named(event.table, otherwise)
        except StopService as denied:
            unread = f"whether an event names {event.table} can't be read"
            raise StopService(f"{unread}: {denied}; --new sends it unchecked") from denied

    def _check_location(self, event: Event) -> None:
        from tidegate.tables.hudi import check_owner  # noqa: PLC0415 - heavy
        from tidegate.tables.refusal import Refused  # noqa: PLC0415
        from tidegate.tables.warehouse.roots import WarehouseRoots  # noqa: PLC0415

        warehouse, where = self._settings.warehouse, event.location
        if where == ANYWHERE:
            return
        try:
            if warehouse.roots:
                WarehouseRoots.of(*warehouse.roots).below(where)
            if not isinstance(event, LockReleased):  # it changes nothing there
                partition = getattr(event, "partition", None)
                check_owner(Storage(warehouse.options), where, event.table, partition)
        except ConfinementError as outside:  # by these settings; a service may have others
            write_error(f"note: {outside}")
        except Refused as refused:
            raise ConfigError(refused.message) from refused
        except (TidegateError, OSError) as error:
            log.debug("%s can't be read from here: %s", where, error)

    def _check_hold(self, event: Event) -> None:
        from tidegate.ops.waiting import is_waited_for  # noqa: PLC0415 - heavy

        if not isinstance(event, LockReleased):
            return
        try:
            locations = self._log.locations_of(event.table)
            is_known = is_waited_for(self._settings, event)
        except ConfigError as denied:  # a writer need not have the right to read
            raise TransientError(str(denied)) from denied
        if locations and event.location.rstrip("/") not in locations:
            named, given = ", ".join(locations), event.location
            write_error(f"note: events name {event.table} at {named}, not at {given}: is it right?")
        if not is_known:
            raise ConfigError(
                "no vacuum that the coordinator has read waits for this lock or transaction: it"
                " counts for one that comes later; is the id right? "
                + command_line("waiting", table=event.table)
            )


def publisher_of(
    settings: Settings, source: str, sign_with: Path | None = None
) -> _ReachablePublisher:
    """A publisher for a deployment."""
    return _ReachablePublisher(settings, source, sign_with)


def print_receipt(receipt: Receipt, *, as_json: bool) -> None:
    """Print an event's id, and where it was stored."""
    if as_json:
        write_json(receipt._asdict())
    else:
        write(f"published {receipt.event_id} to {receipt.topic}")


def _look(receipt: Receipt) -> str:
    return command_line("explain", receipt.event_id)
