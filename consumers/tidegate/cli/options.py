"""Options and input that several subcommands share."""

from __future__ import annotations

import getpass
import inspect
import logging
import re
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_type_hints

import typer
from pydantic import ValidationError

from tidegate.errors import ConfigError
from tidegate.errors.validation import validation_message
from tidegate.events import Event, table_identity
from tidegate.events.fields import MAX_WIDE_BYTES, parse_duration

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from tidegate.service.settings import Settings

E = TypeVar("E", bound=Event)
G = TypeVar("G", bound="DataclassInstance")
_YEAR: Final = re.compile(r"[0-9]{4}-")
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest time: negative ones have another meaning in Kafka (-1 ms is the end of a topic)."""

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Settings file (TOML); default: $TIDEGATE_CONFIG."),
]
TableName = Annotated[str, typer.Option("--table", "-t", help="catalog.database.table")]
OptionalTableName = Annotated[
    str | None, typer.Option("--table", "-t", help="catalog.database.table")
]
Location = Annotated[
    str | None,
    typer.Option("--location", "-l", help="Path or URI; default: where events name the table."),
]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="Print a JSON object a line, for scripts.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Execute = Annotated[bool, typer.Option("--execute", help="Carry it out; without it, a dry run.")]
Since = Annotated[
    str | None,
    typer.Option(
        help="Only from this far back, or from this time: 2d, 1h30m, 2026-11-21T07:00:00Z."
    ),
]
RequestedBy = Annotated[
    str | None, typer.Option(help="Your name, for the audit trail; default: the login name.")
]
Reason = Annotated[str, typer.Option(help="Why, for the audit trail.")]


@dataclass(frozen=True, slots=True)
class Logged:
    """Options of a command that runs and logs until it is stopped."""

    config: ConfigFile = None
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at level DEBUG.")] = False
    log_format: Annotated[
        str, typer.Option(help="auto (human on a terminal, else json), human or json.")
    ] = "auto"

    def settings(self) -> Settings:
        """Configure the log, and read the settings.

        Raises:
            typer.BadParameter: there is no such format.
            ConfigError: the settings are invalid.
        """
        from tidegate.monitoring.logs import LogFormat, configure_logging  # noqa: PLC0415 - heavy
        from tidegate.service.settings import Settings  # noqa: PLC0415 - heavy

        styles: dict[str, LogFormat] = {style: style for style in get_args(LogFormat)}
        if self.log_format not in styles:
            choices = ", ".join(styles)
            raise typer.BadParameter(f"choose from {choices}", param_hint="--log-format")
        level = logging.DEBUG if self.verbose else logging.INFO
        configure_logging(level, styles[self.log_format])
        return Settings.load(self.config)

    def run(self, services: Sequence[str]) -> None:
        """Run services and bridges until they are stopped. Raises as `run_services`."""
        settings = self.settings()
        from tidegate.service.runner import run_services  # noqa: PLC0415 - heavy

        read_settings = partial(type(settings).load, self.config)
        run_services(services, settings, threading.Event(), read_settings)


def option_group(group: type[G]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Expand a command's first parameter, a dataclass, into the options that its fields declare.

    Typer knows options only as a function's own parameters, so commands that share a group of them
    would each repeat it.
    """

    def expand(command: Callable[..., None]) -> Callable[..., None]:
        names = [field.name for field in fields(group)]
        own = list(inspect.signature(command).parameters.values())[1:]
        parameters = [*(inspect.signature(group).parameters[name] for name in names), *own]
        types = get_type_hints(command, include_extras=True)
        types |= get_type_hints(group, include_extras=True)

        def call(**values: Any) -> None:  # noqa: ANN401 - typer passes what it has parsed
            command(group(**{name: values.pop(name) for name in names}), **values)

        call.__name__, call.__doc__ = command.__name__, command.__doc__
        vars(call)["__signature__"] = inspect.Signature(
            [
                parameter.replace(
                    kind=inspect.Parameter.KEYWORD_ONLY, annotation=types[parameter.name]
                )
                for parameter in parameters
            ]
        )
        return call

    return expand


def person(requested_by: str | None) -> str:
    """The name of the person at the terminal: the one given, else the login name."""
    return requested_by or getpass.getuser()


def table_of(name: str | None) -> str | None:
    """A table's identity, normalised; None if no name is given.

    Raises:
        ConfigError: it is not a table's name.
    """
    try:
        return None if name is None else table_identity(name)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def table_pattern(name: str) -> str:
    """A table's identity, or a shell pattern of such, in lower case as identities are.

    Raises:
        ConfigError: it is neither.
    """
    if set(name) & set("*?["):
        return name.strip().lower()
    return table_of(name) or ""


def since_of(text: str | None) -> datetime | None:
    """A moment, from a duration before now or from a time.

    Raises:
        ConfigError: it is neither.
    """
    if text is None:
        return None
    return moment_or_ago(text, datetime.now(UTC))


def moment_or_ago(text: str, now: datetime) -> datetime:
    """A time, or a duration before now; one before 1970 becomes the beginning of 1970.

    Raises:
        ConfigError: it is neither.
    """
    if _YEAR.match(text.strip()):
        return moment(text)
    span = duration(text)
    return _BEGINNING if span > now - _BEGINNING else now - span


def duration(text: str) -> timedelta:
    """Read a duration such as 1h30m, 2d or 90s.

    Raises:
        ConfigError: it is not one, or not positive.
    """
    try:
        read = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is {error}") from error
    if read <= timedelta():
        raise ConfigError(f"the duration {text} is not positive")
    return read


def moment(text: str) -> datetime:
    """Read an ISO 8601 time; one before 1970 becomes the beginning of 1970.

    Raises:
        ConfigError: it is not a time, or has no time zone and is ambiguous.
    """
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a time: write 2026-11-21T07:00:00Z") from error
    if read.tzinfo is None:
        raise ConfigError(f"{text} has no time zone: write 2026-11-21T07:00:00Z or +01:00")
    return max(read, _BEGINNING)


def one_of(names: Collection[str], text: str, what: str = "kind") -> str:
    """The name that a text means, ignoring case.

    Raises:
        ConfigError: it is not one of them.
    """
    for name in names:
        if name.lower() == text.strip().lower():
            return name
    lowered = {name.lower(): name for name in names}
    near = get_close_matches(text.strip().lower(), lowered, n=1)
    hint = f"did you mean {lowered[near[0]]}?" if near else f"known: {', '.join(names)}"
    raise ConfigError(f"unknown {what} {text}; {hint}")


def read_text(file: Path, limit: int) -> str:
    """Read a file, or standard input if the file is `-`.

    Raises:
        ConfigError: it is larger than so many bytes.
        OSError, UnicodeDecodeError: it can't be read, or is not UTF-8.
    """
    if str(file) == "-":
        content = sys.stdin.buffer.read(limit + 1)
    else:
        with file.open("rb") as opened:
            content = opened.read(limit + 1)
    if len(content) > limit:
        raise ConfigError(f"{file} is larger than the limit of {limit} bytes")
    return content.decode()


def read_event(kind: type[E], file: Path) -> E:
    """Read an event from a JSON file, or from standard input if the file is `-`.

    Raises:
        ConfigError: the file can't be read, or is not such an event.
    """
    try:
        return kind.model_validate_json(read_text(file, MAX_WIDE_BYTES))
    except ValidationError as error:
        raise ConfigError(
            f"{file} is not a valid {error.title}: {validation_message(error)}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
