"""`tidegate dead-letters`: list and show messages that failed; redrive or discard them."""

from __future__ import annotations

import getpass
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidegate.cli.dead_letters_report import row_of, show_listed, show_resolved, text_of
from tidegate.cli.options import AsJson, AsJsonLines, ConfigFile, Execute, RequestedBy, option_group
from tidegate.cli.output import write, write_json
from tidegate.cli.progress import Progress
from tidegate.cli.reachable import reachable
from tidegate.errors import ConfigError, TidegateError

if TYPE_CHECKING:
    from tidegate.events import Event
    from tidegate.ops.dead_letters import (
        DeadLetter,
        DeadLetterBox,
        DeadLetterFilter,
        ListedDeadLetter,
        Original,
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
_NAMED: Final = 10
"""How many kinds of destructive messages an error names."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Options that select dead letters."""

    service: Annotated[str | None, typer.Option(help="Only of this service.")] = None
    topic: Annotated[str | None, typer.Option(help="Only from this topic, e.g. commands.")] = None
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="Only of this table (catalog.db.table).")
    ] = None
    reason: Annotated[str | None, typer.Option(help="Only with this text in the reason.")] = None
    from_time: Annotated[
        str | None, typer.Option(help="Dead-lettered at 2026-11-21T07:00:00Z or later.")
    ] = None
    to_time: Annotated[str | None, typer.Option(help="Dead-lettered before this time.")] = None

    def selection(self, ids: list[str] | None = None) -> DeadLetterFilter:
        """The same as a filter.

        Raises:
            ConfigError: a time or the table's name is invalid.
        """
        from tidegate.cli.options import table_of  # noqa: PLC0415
        from tidegate.ops.dead_letters import DeadLetterFilter  # noqa: PLC0415 - heavy
        from tidegate.ops.moments import moment  # noqa: PLC0415

        return DeadLetterFilter(
            ids=tuple(ids or ()),
            service=self.service,
            topic=self.topic,
            table=table_of(self.table),
            reason=self.reason,
            from_time=moment(self.from_time) if self.from_time else None,
            to_time=moment(self.to_time) if self.to_time else None,
        )


@dataclass(frozen=True, slots=True)
class Selected(Filters):
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
@option_group(Filters)
def list_dead_letters(
    filters: Filters,
    include_resolved: All = False,
    limit: Annotated[int, typer.Option(min=1, help="List at most this many.")] = 100,
    as_json: AsJsonLines = False,
    config: ConfigFile = None,
) -> None:
    """List open dead letters, newest first."""
    from tidegate.ops.dead_letters import DeadLetterBox  # noqa: PLC0415 - heavy

    wanted = filters.selection()
    with DeadLetterBox(reachable(config), Progress()) as box:
        found = box.list(wanted, include_resolved=include_resolved)
        rows = (row_of(row) for row in islice(found, limit))
        show_listed(rows, lambda: next(found, None) is not None, as_json=as_json)


@dead_letters.command()
def show(
    dead_letter_id: Annotated[str, typer.Argument(help="Its id, abbreviated if unique.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show a dead letter: headers, key, value, and the event if it can be decoded."""
    from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter  # noqa: PLC0415 - heavy

    with DeadLetterBox(reachable(config), Progress()) as box:
        wanted = DeadLetterFilter(ids=(dead_letter_id,))
        found = list(box.list(wanted, include_resolved=True))
        if len(found) != 1:
            count = len(found) or "no"
            has = "have ids that start" if found[1:] else "has an id that starts"
            noun = "dead letters" if found[1:] else "dead letter"
            raise TidegateError(f"{count} {noun} {has} with {dead_letter_id}")
        dead_letter = box.with_value(found[0].dead_letter)
        record, event = dead_letter.record, dead_letter.event(box.wire)
    fields: dict[str, Any] = row_of(found[0]) | {
        "key": text_of(record.key),
        "value_text": text_of(record.value),
        "value_hex": None if record.value is None else record.value.hex(),
        "headers": [[name, text_of(content)] for name, content in record.headers],
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
        write(f"header {header}: {text}")


@dead_letters.command()
@option_group(Selected)
def redrive(
    selected: Selected,
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
    """
    from tidegate.ops.dead_letters import DeadLetterBox  # noqa: PLC0415 - heavy

    wanted = selected.required()
    with DeadLetterBox(reachable(config), Progress()) as box:
        chosen = _Chosen(box, wanted, include_resolved=include_resolved)
        summary, destructive_ones = _Summary(limit), Counter[str]()
        for batch in chosen.batches():
            originals = box.originals([row.dead_letter for row in batch])
            destructive_ones.update(_destructive(originals))
            events = {
                original.dead_letter.origin_location: original.event for original in originals
            }
            summary.add(batch, partial(_with_event, events))
        summary.require_any()
        if execute:
            _check_destructive(destructive_ones, allowed=destructive)
            by = requested_by or getpass.getuser()
            box.redrive(chosen.dead_letters(), by, datetime.now(UTC))
    summary.show("redriven", executed=execute, as_json=as_json)


@dead_letters.command()
@option_group(Selected)
def discard(
    selected: Selected,
    because: Annotated[str, typer.Option("--because", help="Why, for the audit trail.")],
    requested_by: RequestedBy = None,
    limit: Shown = 100,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Mark messages as not needed. They stay on the topic but are no longer listed."""
    from tidegate.ops.dead_letters import DeadLetterBox  # noqa: PLC0415 - heavy

    wanted = selected.required()
    with DeadLetterBox(reachable(config), Progress()) as box:
        chosen, summary = _Chosen(box, wanted), _Summary(limit)
        for batch in chosen.batches():
            summary.add(batch)
        summary.require_any()
        if execute:
            by = requested_by or getpass.getuser()
            box.discard(chosen.dead_letters(), by, datetime.now(UTC), because)
    summary.show("discarded", executed=execute, as_json=as_json)


class _Chosen:
    """The selected dead letters: read as often as they are needed, and never held."""

    def __init__(
        self, box: DeadLetterBox, wanted: DeadLetterFilter, *, include_resolved: bool = False
    ) -> None:
        """Of those that there are now: what comes later is not part of the selection."""
        self._box, self._wanted, self._include_resolved = box, wanted, include_resolved
        self._spans = box.spans()

    def batches(self) -> Iterator[Sequence[ListedDeadLetter]]:
        """Read them, newest first."""
        from tidegate.ops.dead_letters import in_batches  # noqa: PLC0415 - heavy

        found = self._box.list(
            self._wanted,
            include_resolved=self._include_resolved,
            within=self._spans,
            values=True,
        )
        return in_batches(found)

    def dead_letters(self) -> Iterator[Sequence[DeadLetter]]:
        """The same, without their states."""
        return ([row.dead_letter for row in batch] for batch in self.batches())


@dataclass(slots=True)
class _Summary:
    """How many were selected, and the first of them as rows."""

    limit: int
    count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(
        self,
        batch: Sequence[ListedDeadLetter],
        more_of: Callable[[ListedDeadLetter], dict[str, Any]] = lambda _: {},
    ) -> None:
        """Count them; of the first ones keep rows, with what `more_of` says of each."""
        kept = batch[: self.limit - len(self.rows)]
        self.rows += [row_of(row) | more_of(row) for row in kept]
        self.count += len(batch)

    def require_any(self) -> None:
        """Check that something was selected.

        Raises:
            TidegateError: nothing was.
        """
        if not self.count:
            raise TidegateError("no open dead letter matches")

    def show(self, done: str, *, executed: bool, as_json: bool) -> None:
        """Print them."""
        show_resolved(self.rows, self.count, done, executed=executed, as_json=as_json)


def _destructive(originals: Sequence[Original]) -> Iterator[str]:
    """What destroys data among them, in words."""
    from tidegate.ops.dead_letters import is_destructive  # noqa: PLC0415 - heavy

    for original in originals:
        if original.event is not None and is_destructive(original.event):
            yield f"{type(original.event).__name__} of {original.event.table}"


def _check_destructive(found: Mapping[str, int], *, allowed: bool) -> None:
    if found and not allowed:
        named = ", ".join(sorted(found)[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        raise TidegateError(
            f"{sum(found.values())} of the selected messages destroy data when carried out"
            f" ({named}): look at each of them (dead-letters show), then add --destructive"
        )


def _with_event(events: Mapping[str, Event | None], listed: ListedDeadLetter) -> dict[str, Any]:
    event = events.get(listed.dead_letter.origin_location)
    if event is None:
        return {"event": None}
    return {"event": {"kind": type(event).__name__, **event.model_dump(mode="json")}}
