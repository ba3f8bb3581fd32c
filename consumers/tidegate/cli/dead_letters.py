"""`tidegate dead-letters`: look at what was set aside, send it back, or discard it."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.dead_letters_told import row_of, tell_rows, text_of
from tidegate.cli.options import ConfigFile
from tidegate.errors import ConfigError, TidegateError
from tidegate.settings import Settings

if TYPE_CHECKING:
    from tidegate.deadletters import DeadLetter, LetterFilter, Listed

dead_letters = typer.Typer(
    help="What could not be worked off: list, show, redrive, discard.", no_args_is_help=True
)
Ids = Annotated[list[str] | None, typer.Argument(help="Ids, as short as they are unique.")]
Service = Annotated[str | None, typer.Option(help="Set aside by this service.")]
Topic = Annotated[str | None, typer.Option(help="From this topic: commands.")]
Table = Annotated[str | None, typer.Option("--table", "-t", help="Of this table.")]
Reason = Annotated[str | None, typer.Option("--reason", help="With this text in the reason.")]
FromTime = Annotated[str | None, typer.Option(help="Set aside from 2026-11-21T07:00:00Z on.")]
ToTime = Annotated[str | None, typer.Option(help="Set aside before this time.")]
Everything = Annotated[bool, typer.Option("--all", help="Redriven and discarded ones, too.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is a dry run.")]
RequestedBy = Annotated[str | None, typer.Option(help="For the audit trail; default: you.")]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


@dead_letters.command("list")
def list_letters(
    service: Service = None,
    topic: Topic = None,
    table: Table = None,
    reason: Reason = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    everything: Everything = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the dead letters that wait for a decision."""
    from tidegate.deadletters import DeadLetterBox  # noqa: PLC0415 - heavy

    wanted = _filter(None, service, topic, table, reason, from_time, to_time)
    with DeadLetterBox(Settings.load(config)) as box:
        tell_rows([row_of(each) for each in box.list(wanted, settled=everything)], as_json=as_json)


@dead_letters.command()
def show(
    letter_id: Annotated[str, typer.Argument(help="Its id, as short as it is unique.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show all of a dead letter: headers, key, value, and the event if it decodes by now."""
    from tidegate.deadletters import DeadLetterBox, LetterFilter  # noqa: PLC0415 - heavy

    with DeadLetterBox(Settings.load(config)) as box:
        found = box.list(LetterFilter(letter_ids=(letter_id,)), settled=True)
        if len(found) != 1:
            raise TidegateError(f"{len(found)} dead letters have an id that begins {letter_id}")
        letter = found[0].letter
        event = letter.event(box.wire)
    value = letter.record.value
    told: dict[str, Any] = row_of(found[0]) | {
        "key": text_of(letter.record.key),
        "value_text": text_of(value),
        "value_hex": None if value is None else value.hex(),
        "headers": [[name, text_of(content)] for name, content in letter.record.headers],
        "decodes_as": type(event).__name__ if event else None,
        "event": event.model_dump(mode="json") if event else None,
    }
    if as_json:
        typer.echo(json.dumps(told))
        return
    headers = told.pop("headers")
    for name, content in told.items():
        typer.echo(f"{name}: {json.dumps(content) if name == 'event' else content}")
    for header, text in headers:
        typer.echo(f"header {header}: {text}")


@dead_letters.command()
def redrive(
    ids: Ids = None,
    service: Service = None,
    topic: Topic = None,
    table: Table = None,
    reason: Reason = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    everything: Everything = False,
    requested_by: RequestedBy = None,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Publish messages again on the topic they came from, as they were."""
    from tidegate.deadletters import DeadLetterBox  # noqa: PLC0415 - heavy

    wanted = _some(_filter(ids, service, topic, table, reason, from_time, to_time))
    with DeadLetterBox(Settings.load(config)) as box:
        found = _at_least_one(box.list(wanted, settled=everything))
        stray = [each.letter for each in found if not box.can_redrive(each.letter)]
        if stray:
            raise TidegateError(
                f"{stray[0].letter_id} came from {stray[0].origin.topic or 'no known topic'},"
                " which is none of this deployment's, or its value was too large to be kept"
            )
        if execute:
            box.redrive(_letters(found), requested_by or getpass.getuser(), datetime.now(UTC))
    tell_rows([row_of(each) for each in found], as_json=as_json, doing=("redriven", execute))


@dead_letters.command()
def discard(
    because: Annotated[str, typer.Option("--because", help="Why, for the audit trail.")],
    ids: Ids = None,
    service: Service = None,
    topic: Topic = None,
    table: Table = None,
    reason: Reason = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    requested_by: RequestedBy = None,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Decide that messages are not needed. They stay on the topic and are listed no more."""
    from tidegate.deadletters import DeadLetterBox  # noqa: PLC0415 - heavy

    wanted = _some(_filter(ids, service, topic, table, reason, from_time, to_time))
    with DeadLetterBox(Settings.load(config)) as box:
        found = _at_least_one(box.list(wanted))
        if execute:
            by = requested_by or getpass.getuser()
            box.discard(_letters(found), by, datetime.now(UTC), because)
    tell_rows([row_of(each) for each in found], as_json=as_json, doing=("discarded", execute))


def _filter(
    ids: list[str] | None,
    service: str | None,
    topic: str | None,
    table: str | None,
    reason: str | None,
    from_time: str | None,
    to_time: str | None,
) -> LetterFilter:
    from tidegate.deadletters import LetterFilter  # noqa: PLC0415 - heavy
    from tidegate.events import table_identity  # noqa: PLC0415
    from tidegate.replay.targets import moment  # noqa: PLC0415

    return LetterFilter(
        letter_ids=tuple(ids or ()),
        service=service,
        topic=topic,
        table=table_identity(table) if table else None,
        reason=reason,
        from_time=moment(from_time) if from_time else None,
        to_time=moment(to_time) if to_time else None,
    )


def _some(wanted: LetterFilter) -> LetterFilter:
    if wanted.is_empty:
        raise ConfigError("say which dead letters: by their ids, or with at least one filter")
    return wanted


def _at_least_one(found: list[Listed]) -> list[Listed]:
    if not found:
        raise TidegateError("no dead letter that waits for a decision is meant by this")
    return found


def _letters(found: list[Listed]) -> list[DeadLetter]:
    return [each.letter for each in found]
