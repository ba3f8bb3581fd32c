"""`tidegate dead-letters`: list and show messages that failed; redrive or discard them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import (
    AsJson,
    AsJsonLines,
    ConfigFile,
    Execute,
    Reason,
    RequestedBy,
    Since,
    option_group,
    person,
    since_of,
    table_of,
)
from tidegate.cli.output import write, write_error, write_json, write_rows, write_table
from tidegate.errors import ConfigError, TidegateError
from tidegate.errors.commands import command_line
from tidegate.events import Event
from tidegate.ops.dead_letters import (
    DeadLetter,
    DeadLetterBox,
    DeadLetterFilter,
    Original,
    is_destructive,
)

dead_letters = typer.Typer(
    help="Messages that could not be processed: list, show, redrive, discard.",
    no_args_is_help=True,
)
All = Annotated[bool, typer.Option("--all", help="Include resolved ones.")]
Destructive = Annotated[
    bool,
    typer.Option("--destructive", help="Also redrive what destroys data."),
]
Shown = Annotated[int, typer.Option("--limit", min=1, help="Print at most this many; do all.")]
_TRACE: Final = "stacktrace"
_NAMED: Final = 10
"""How many kinds of destructive messages an error names."""


@dataclass(frozen=True, slots=True)
class _Filters:
    """Options that select dead letters."""

    service: Annotated[str | None, typer.Option(help="Only of this service.")] = None
    topic: Annotated[str | None, typer.Option(help="Only from this topic, e.g. tasks.")] = None
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="Only of this table (catalog.db.table).")
    ] = None
    error: Annotated[str | None, typer.Option(help="Only with this text in the error.")] = None
    since: Since = None

    def selection(self, ids: list[str] | None = None) -> DeadLetterFilter:
        """The same as a filter.

        Raises:
            ConfigError: a time or the table's name is invalid.
        """
        return DeadLetterFilter(
            ids=tuple(ids or ()),
            service=self.service,
            topic=self.topic,
            table=table_of(self.table),
            reason=self.error,
            from_time=since_of(self.since),
        )


@dataclass(frozen=True, slots=True)
class _Selected(_Filters):
    """Filters, or ids; at least one of them is needed to change anything."""

    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids, abbreviated as long as they are unique.")
    ] = None

    def required(self) -> DeadLetterFilter:
        """The filter.

        Raises:
            ConfigError: nothing is selected, or a time or the table's name is invalid.
        """
        wanted = self.selection(self.ids)
        if wanted.is_empty:
            raise ConfigError("no dead letters selected: give ids, or at least one filter")
        return wanted


@dead_letters.command("list")
@option_group(_Filters)
def list_dead_letters(
    filters: _Filters,
    include_resolved: All = False,
    limit: Annotated[int, typer.Option(min=1, help="List at most this many.")] = 100,
    as_json: AsJsonLines = False,
    config: ConfigFile = None,
) -> None:
    """List open dead letters, newest first.

    Examples:
        tidegate dead-letters list --service restorer
        tidegate dead-letters list --json | jq -r .id
    """
    wanted = filters.selection()
    with DeadLetterBox(reachable(config)) as box:
        found = box.list(wanted, include_resolved=include_resolved)
        rows = map(row_of, islice(found, limit))
        write_rows(rows, "no open dead letter matches", as_json=as_json)
        if next(found, None) is not None:  # standard output is the list
            write_error(f"only the newest {limit} are listed; use --limit or a filter for others")


def row_of(dead_letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as a row of a list."""
    return {
        "id": dead_letter.dead_letter_id,
        "at": dead_letter.at.isoformat(timespec="milliseconds"),
        "service": dead_letter.service,
        "origin": dead_letter.origin_location,
        "table": dead_letter.table,
        "state": dead_letter.state,
        "reason": dead_letter.error,
    }


@dead_letters.command()
def show(
    dead_letter_id: Annotated[str, typer.Argument(help="Its id, abbreviated if unique.")],
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="With the traces of the fault.")
    ] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show a dead letter: headers, key, value, and the event if it can be decoded.

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
        [dead_letter] = box.with_values(found)
        record, event = dead_letter.record, dead_letter.event(box.wire)
    fields: dict[str, Any] = row_of(found[0]) | {
        "key": _text(record.key),
        "value_text": _text(record.value),
        "value_hex": None if record.value is None else record.value.hex(),
        "headers": [[name, _text(content)] for name, content in record.headers],
        "decodes_as": type(event).__name__ if event else None,
        "event": event.model_dump(mode="json") if event else None,
    }
    if as_json:
        write_json(fields)
        return
    headers = fields.pop("headers")
    for name, content in fields.items():
        write(f"{name}: {json.dumps(content) if name == 'event' else content}")
    for header, text in headers:
        if verbose or not header.endswith(_TRACE):
            write(f"header {header}: {text}")


@dead_letters.command()
@option_group(_Selected)
def redrive(
    selected: _Selected,
    include_resolved: All = False,
    destructive: Destructive = False,
    requested_by: RequestedBy = None,
    limit: Shown = 100,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish the original messages again, unchanged, on the topics that they came from.

    Every dead letter is compared with the record at its origin before any is published, and refused
    if they differ.

    Examples:
        tidegate dead-letters redrive 1b9ce7ae --execute
    """
    wanted = selected.required()
    destructive_ones, undecodable = Counter[str](), list[DeadLetter]()
    with DeadLetterBox(reachable(config)) as box:

        def examined(batch: Sequence[DeadLetter]) -> Iterator[dict[str, Any]]:
            originals = box.originals(batch)
            destructive_ones.update(_destructive(originals))
            undecodable.extend(it.dead_letter for it in originals if it.event is None)
            events = {found.dead_letter.origin_location: found.event for found in originals}
            return (
                row_of(dead_letter) | _event_field(events.get(dead_letter.origin_location))
                for dead_letter in batch
            )

        chosen = _Chosen(box, wanted, include_resolved=include_resolved)
        chosen.examine(limit, examined)
        if execute:
            _check_destructive(destructive_ones, allowed=destructive)
            by = person(requested_by)
            box.redrive(chosen.dead_letters(), by, datetime.now(UTC))
    chosen.show("redriven", executed=execute, as_json=as_json)
    if undecodable:
        again = command_line("dead-letters discard", undecodable[0].dead_letter_id, reason="WHY")
        write_error(
            f"{len(undecodable)} of them fail again, since they can't be decoded: discard these,"
            f" e.g. {again}"
        )


@dead_letters.command()
@option_group(_Selected)
def discard(
    selected: _Selected,
    reason: Reason,
    requested_by: RequestedBy = None,
    limit: Shown = 100,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Mark messages as not needed. They stay on the topic but are no longer listed.

    Examples:
        tidegate dead-letters discard 1b9ce7ae --reason 'sent by a test' --execute
    """
    wanted = selected.required()
    with DeadLetterBox(reachable(config)) as box:
        chosen = _Chosen(box, wanted)
        chosen.examine(limit, lambda batch: map(row_of, batch))
        if execute:
            by = person(requested_by)
            box.discard(chosen.dead_letters(), by, datetime.now(UTC), reason)
    chosen.show("discarded", executed=execute, as_json=as_json)


class _Chosen:
    """The selected dead letters: read as often as they are needed, and never held."""

    def __init__(
        self, box: DeadLetterBox, wanted: DeadLetterFilter, *, include_resolved: bool = False
    ) -> None:
        """Select from those on the topic now; later ones are not part of the selection."""
        self._box, self._wanted, self._include_resolved = box, wanted, include_resolved
        self._spans = box.spans()
        self._rows: list[dict[str, Any]] = []
        self._count = 0

    def dead_letters(self) -> Iterator[Sequence[DeadLetter]]:
        """Read them in batches, newest first."""
        return self._box.batches(
            self._wanted, include_resolved=self._include_resolved, within=self._spans
        )

    def examine(
        self,
        limit: int,
        rows_of: Callable[[Sequence[DeadLetter]], Iterable[dict[str, Any]]],
    ) -> None:
        """Count them, and take the first `limit` rows of their batches, the newest.

        Raises:
            TidegateError: no dead letter matches.
        """
        for batch in self.dead_letters():
            self._rows += islice(rows_of(batch), limit - len(self._rows))
            self._count += len(batch)
        if not self._count:
            raise TidegateError("no open dead letter matches")

    def show(self, done: str, *, executed: bool, as_json: bool) -> None:
        """Print what was done to them, or would be done."""
        rows, count = self._rows, self._count
        if as_json:
            more = {"more": count > len(rows), "count": count, "executed": executed}
            write_json({"dead_letters": rows} | more)
            return
        write_table(rows)
        shown = f" (the newest {len(rows)} are listed)" if count > len(rows) else ""
        would, how = ("", "") if executed else ("would be ", "; add --execute to do it")
        write(f"{count} dead letters {would}{done}{shown}{how}")


def _destructive(originals: Sequence[Original]) -> Iterator[str]:
    """What destroys data among them, in words."""
    for original in originals:
        if original.event is not None and is_destructive(original.event):
            yield f"{type(original.event).__name__} of {original.event.table}"


def _check_destructive(found: Mapping[str, int], *, allowed: bool) -> None:
    if found and not allowed:
        named = ", ".join(sorted(found)[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        raise TidegateError(
            f"{sum(found.values())} of the selected messages destroy data when carried out"
            f" ({named}): show each of them (dead-letters show), then add --destructive"
        )


def _event_field(event: Event | None) -> dict[str, Any]:
    if event is None:
        return {"event": None}
    return {"event": {"kind": type(event).__name__, **event.model_dump(mode="json")}}


def _text(content: bytes | None) -> str | None:
    """Bytes as text; those that are not UTF-8 as escapes."""
    return None if content is None else content.decode(errors="backslashreplace")
