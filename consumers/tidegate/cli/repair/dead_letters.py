"""`tidegate dead-letters` and `tidegate skip`: messages and records that cannot be processed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import abbreviated_ids, one_of, option_group, person, since_of, table_of
from tidegate.cli.output import write, write_error, write_json, write_rows, write_table
from tidegate.errors import ConfigError, TidegateError
from tidegate.errors.commands import command_line
from tidegate.events import Event
from tidegate.events.reasons import Reason
from tidegate.ops.dead_letters import DeadLetter, DeadLetterBox, DeadLetterFilter, is_destructive
from tidegate.ops.dead_letters.dead_letter import TRACE, again_command
from tidegate.ops.dead_letters.skipping import carry_out_skip, plan_skip
from tidegate.ops.event_log import EventLog
from tidegate.ops.summary import age_of, counted, line_of
from tidegate.service.catalogue import NAMES
from tidegate.service.settings import Settings

dead_letters = typer.Typer(
    help="Messages that could not be processed: list, show, redrive, discard.", no_args_is_help=True
)
_NOTHING: Final = "no open dead letter matches"
_NAMED: Final = 10
"""How many messages an error names."""


@dataclass(frozen=True, slots=True)
class _Filters:
    """Options that select dead letters.

    Options:
        service: Only of this service.
        topic: Only from this topic, e.g. tasks.
        table: Only of this table (catalog.db.table).
        error: Only with this text in the error.
    """

    service: str | None = None
    topic: str | None = None
    table: str | None = None
    error: str | None = None
    since: str | None = None

    def selection(self, ids: list[str] | None = None) -> DeadLetterFilter:
        """The same as a filter.

        Raises:
            ConfigError: an id is empty, a time or the table's name is invalid, or there is no such
                service.
        """
        return DeadLetterFilter(
            ids=abbreviated_ids(ids),
            service=self.service and one_of(NAMES, self.service, "service"),
            topic=self.topic,
            table=table_of(self.table),
            reason=self.error,
            from_time=since_of(self.since),
        )

    def check_table(self, settings: Settings) -> None:
        """Check the table's name, where no dead letter matches.

        Raises:
            ConfigError: no event names the table.
        """
        if name := table_of(self.table):
            EventLog.of(settings).check_named(name, _NOTHING)


@dataclass(frozen=True, slots=True)
class _Selected(_Filters):
    """Filters, or ids; at least one of them is needed to change anything. And how to change it.

    Positional:
        ids: Ids, abbreviated as long as they are unique.

    Options:
        limit: Print at most this many; do all.
    """

    ids: list[str] | None = None
    requested_by: str | None = None
    limit: Annotated[int, typer.Option(min=1)] = 100
    execute: bool = False
    as_json: bool = False
    config: Path | None = None

    def box(self) -> DeadLetterBox:
        """The deployment's dead letters.

        Raises:
            ConfigError: nothing is selected, or a time or the table's name is invalid.
        """
        if self.selection(self.ids) == DeadLetterFilter():
            raise ConfigError(
                "no dead letters selected: give ids as `tidegate dead-letters list` shows them, or"
                " a filter such as --service cleaner"
            )
        return DeadLetterBox(reachable(self.config))

    def matching(self, box: DeadLetterBox, *, include_resolved: bool = False) -> list[DeadLetter]:
        """The selected dead letters.

        Raises:
            TidegateError: there are none.
            ConfigError: nor does an event name the table.
        """
        found = list(box.list(self.selection(self.ids), include_resolved=include_resolved))
        if not found:
            self.check_table(Settings.load(self.config))
            raise TidegateError(_NOTHING)
        return found

    def show(self, rows: list[dict[str, Any]], count: int, done: str) -> None:
        """Print what was done to dead letters, or would be done; rows are the newest of them."""
        if self.as_json:
            more = {"more": count > len(rows), "count": count, "executed": self.execute}
            write_json({"dead_letters": rows} | more)
            return
        write_table(
            [
                row | {"event": row["event"]["kind"] if row["event"] else "can't be decoded"}
                if "event" in row
                else row
                for row in rows
            ]
        )
        shown = f" (the newest {len(rows)} are listed)" if count > len(rows) else ""
        would, how = ("", "") if self.execute else ("would be ", "; add --execute to do it")
        write(f"{counted(count, 'dead letter')} {would}{done}{shown}{how}")


@dead_letters.command("list")
@option_group(_Filters)
def list_dead_letters(
    filters: _Filters,
    include_resolved: Annotated[bool, typer.Option("--all")] = False,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """List open dead letters, newest first.

    Options:
        include_resolved: Include resolved ones.
        limit: List at most this many.
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate dead-letters list --service restorer
        tidegate dead-letters list --json | jq -r .id
    """
    with DeadLetterBox(settings := reachable(config)) as box:
        found = box.list(filters.selection(), include_resolved=include_resolved)
        if not (first := list(islice(found, 1))):
            filters.check_table(settings)
        rows = (dead_letter.row for dead_letter in chain(first, islice(found, limit - 1)))
        write_rows(rows, _NOTHING, as_json=as_json)
        if next(found, None) is not None:  # standard output is the list
            write_error(f"only the newest {limit} are listed; use --limit or a filter for others")


@dead_letters.command()
def show(
    dead_letter_id: str, verbose: bool = False, as_json: bool = False, config: Path | None = None
) -> None:
    """Show a dead letter: headers, key, value, and the event if it can be decoded.

    Positional:
        dead_letter_id: Its id, abbreviated if unique.

    Options:
        verbose: With the traces of the fault.

    Examples:
        tidegate dead-letters show 1b9ce7ae
    """
    with DeadLetterBox(reachable(config)) as box:
        wanted = DeadLetterFilter(ids=(dead_letter_id,))
        found = list(box.list(wanted, include_resolved=True))
        if len(found) != 1:
            count = len(found) or "no"
            has = "have ids that start" if found[1:] else "has an id that starts"
            noun = "dead letters" if found[1:] else "dead letter"
            raise TidegateError(f"{count} {noun} {has} with {dead_letter_id}")
        [[dead_letter]] = box.batches(found)
        record, event = dead_letter.record, dead_letter.content(box.wire)
    row: dict[str, Any] = found[0].row
    content: dict[str, Any] = {
        "key": _text(record.key),
        "value_text": _text(record.value),
        "value_hex": None if record.value is None else record.value.hex(),
        "headers": [[name, _text(text)] for name, text in record.headers],
        "decodes_as": type(event).__name__ if event else None,
        "event": event.model_dump(mode="json") if event else None,
    }
    if as_json:
        write_json(row | content)
        return
    for name, value in row.items():
        write(f"{name}: {value}")
    if row["state"] == "open":
        if event:
            write(f"to redrive it: {command_line('dead-letters redrive', row['id'])}")
        write(f"to discard it: {command_line('dead-letters discard', row['id'], reason='WHY')}")
    headers = content.pop("headers")
    for name, value in content.items():
        write(f"{name}: {json.dumps(value) if name == 'event' else value}")
    for name, text in headers:
        if verbose or not name.endswith(TRACE):
            write(f"header {name}: {text}")


@dead_letters.command()
@option_group(_Selected)
def redrive(
    selected: _Selected,
    include_resolved: Annotated[bool, typer.Option("--all")] = False,
    destructive: bool = False,
) -> None:
    """Publish the original messages again, unchanged, on the topics that they came from.

    Every dead letter is compared with the record at its origin before any is published, and refused
    if they differ.

    Options:
        include_resolved: Include resolved ones.
        destructive: Also redrive what destroys data.

    Examples:
        tidegate dead-letters redrive 1b9ce7ae --execute
    """
    rows, destructive_ones = list[dict[str, Any]](), list[Event]()
    undecodable, unsigned, refused = list[str](), list[str](), dict[str, str]()
    with selected.box() as box:
        found = selected.matching(box, include_resolved=include_resolved)
        compared = chain.from_iterable(map(box.originals, box.batches(found)))
        for dead_letter, original, problem in compared:
            if original is None or problem:
                refused[dead_letter.dead_letter_id] = problem
                continue
            event = replace(dead_letter, record=original).event(box.wire)
            if event is None:
                undecodable.append(dead_letter.dead_letter_id)
            elif is_destructive(event):
                destructive_ones.append(event)
            if dead_letter.error.startswith(f"{Reason.NOT_SIGNED}:"):
                unsigned.append(dead_letter.dead_letter_id)
            if len(rows) < selected.limit:
                rows.append(dead_letter.row | {"event": _fields(event)})
        rest = [it.dead_letter_id for it in found if it.dead_letter_id not in refused]
        again = command_line(
            "dead-letters redrive",
            *rest[: selected.limit],
            all=include_resolved or None,
            destructive=destructive or None,
            execute=selected.execute or None,
        )
        _check_redrivable(refused, f". To redrive the others: {again}" if rest else "")
        if selected.execute:
            _check_destructive(destructive_ones, allowed=destructive)
            box.redrive(found, person(selected.requested_by), datetime.now(UTC))
    selected.show(rows, len(found), "redriven")
    discarding = command_line("dead-letters discard", *undecodable[:1], reason="WHY")
    for ids, why in (
        (undecodable, f", since the payload can't be decoded. To discard: {discarding}"),
        (unsigned, ": publish it again, signed"),
    ):
        if ids:
            fail = "fails" if len(ids) == 1 else "fail"
            write_error(f"{len(ids)} of them {fail} again{why}")


@dead_letters.command()
@option_group(_Selected)
def discard(selected: _Selected, reason: str) -> None:
    """Mark messages as not needed. They stay on the topic but are no longer listed.

    Examples:
        tidegate dead-letters discard 1b9ce7ae --reason 'sent by a test' --execute
    """
    with selected.box() as box:
        found = selected.matching(box)
        if selected.execute:
            box.discard(found, person(selected.requested_by), datetime.now(UTC), reason)
    rows = [dead_letter.row for dead_letter in found[: selected.limit]]
    selected.show(rows, len(found), "discarded")


def _check_redrivable(refused: Mapping[str, str], otherwise: str) -> None:
    if refused:
        named = _first([f"{id_} ({problem})" for id_, problem in refused.items()])
        raise TidegateError(f"nothing is redriven, since these can't be: {named}{otherwise}")


def _check_destructive(found: Sequence[Event], *, allowed: bool) -> None:
    if found and not allowed:
        named = _first(sorted({f"{type(event).__name__} of {event.table}" for event in found}))
        raise TidegateError(
            f"{len(found)} of the selected messages destroy data when carried out ({named}):"
            " show each of them (dead-letters show), then add --destructive"
        )


def _first(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return ", ".join([*texts[:_NAMED], *more])


def _fields(event: Event | None) -> dict[str, Any] | None:
    return {"kind": type(event).__name__, **event.model_dump(mode="json")} if event else None


def _text(content: bytes | None) -> str | None:
    """Bytes as text; those that are not UTF-8 as escapes."""
    return None if content is None else content.decode(errors="backslashreplace")


def skip(
    service: str,
    topic: str,
    partition: Annotated[int, typer.Option(min=0)],
    offset: Annotated[int, typer.Option(min=0)],
    reason: str,
    requested_by: str | None = None,
    execute: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Skip one offset, with an audit event and a dead letter that copies the record if it can.

    The record is NOT processed: whatever it asked for will not happen.

    Options:
        service: The service; stop it first.
        topic: Its input topic, e.g. tasks.
        partition: The partition.
        offset: The offset that it reads next.

    Examples:
        tidegate skip --service restorer --topic tasks --partition 0 --offset 7
            --reason 'no worker can read it'
    """
    settings, now = reachable(config), datetime.now(UTC)
    found, dead_letter_id = plan_skip(settings, service, topic, partition, offset), ""
    if execute:
        by = person(requested_by)
        dead_letter_id = carry_out_skip(
            settings, service, found.record, by=by, reason=reason, at=now
        )
    if as_json:
        skipped = {"executed": execute, "dead_letter_id": dead_letter_id or None}
        write_json({**skipped, "record": found})
        return
    age = f" ({age_of(now - found.at)} ago)" if found.record.timestamp_ms else ""
    write(f"{line_of(found)}{age}")
    if found.event:
        write(f"its history: {command_line('explain', found.event.event_id)}")
    if execute:
        write(f"{service} goes on after {found.place}; dead letter {dead_letter_id}")
        write(f"to publish it again, while it is on its topic: {again_command(dead_letter_id)}")
    else:
        write(f"{service} would go on after {found.place}; add --execute to do it")
