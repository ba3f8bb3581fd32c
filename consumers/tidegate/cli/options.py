"""Options and input that several subcommands share."""

from __future__ import annotations

import getpass
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from pydantic import BaseModel, ValidationError
from typer.models import OptionInfo

from tidegate.errors import ConfigError
from tidegate.errors.validation import validation_message
from tidegate.events import table_identity
from tidegate.events.fields import MAX_WIDE_BYTES, parse_duration

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


M = TypeVar("M", bound=BaseModel)
G = TypeVar("G", bound="DataclassInstance")
_YEAR: Final = re.compile(r"[0-9]{4}-")
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest time: negative ones have another meaning in Kafka (-1 ms is the end of a topic)."""

_SHARED: Final[Mapping[str, str]] = {
    "as_json": "Print JSON, for scripts.",
    "config": "Settings file (TOML); default: $TIDEGATE_CONFIG.",
    "execute": "Carry it out; without it, a dry run.",
    "location": "Path or URI; default: where events name the table.",
    "reason": "Why, for the audit trail.",
    "request_id": "Id of the request: repeat a failed call with the same id.",
    "requested_by": "Your name, for the audit trail; default: the login name.",
    "sign_with": "Your private key, which signs it; default: security.sign_with.",
    "since": "Only from this far back, or from this time: 2d, 1h30m, 2026-11-21T07:00:00Z.",
    "source": "Name of the publishing application.",
    "table": "catalog.database.table",
}
"""The help of options that mean the same for every command, unless its docstring says more."""
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "as_json": ("--json",),
    "config": ("--config", "-c"),
    "location": ("--location", "-l"),
    "table": ("--table", "-t"),
    "verbose": ("--verbose", "-v"),
}
_SECTION: Final = re.compile(r"\n\n(Positional|Options|Examples):\n")
_ITEM: Final = re.compile(r"^    (\w+): ((?:.|\n        )+)", re.MULTILINE)


def sections(docstring: str | None) -> dict[str, str]:
    """The sections of a docstring by their titles; the text before them has no title."""
    first, *others = _SECTION.split(inspect.cleandoc(docstring or ""))
    return {"": first, **dict(zip(others[::2], others[1::2], strict=True))}


def parameters(command: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a command, or the fields of a group of options, as typer wants them.

    A parameter is an option, unless its docstring lists it in the section Positional; the section
    has the help. What else an option needs (a range, a second name) is in its annotation.

    Raises:
        KeyError: a docstring describes a parameter that does not exist.
    """
    hints = get_type_hints(command, include_extras=True)
    found, help_of = list[inspect.Parameter](), dict(_SHARED)
    arguments = set[str]()
    for described in reversed(getattr(command, "__mro__", (command,))):
        for title, text in sections(described.__doc__).items():
            if title in {"Positional", "Options"}:
                items = {name: " ".join(words.split()) for name, words in _ITEM.findall(text)}
                if unknown := items.keys() - hints.keys():
                    raise KeyError(f"{command.__name__} has no {', '.join(unknown)}")
                help_of |= items
                arguments |= items.keys() if title == "Positional" else set()
    for parameter in inspect.signature(command).parameters.values():
        name, hint = parameter.name, hints[parameter.name]
        is_annotated = get_origin(hint) is Annotated
        plain, *infos = get_args(hint) if is_annotated else (hint,)
        new = typer.Argument() if name in arguments else typer.Option()
        info = copy(infos[0]) if infos else new
        info.help = info.help or help_of.get(name)
        # a first name in the annotation is typer's `default`
        is_unnamed = isinstance(info, OptionInfo) and info.default is ... and not info.param_decls
        if is_unnamed and parameter.default is not True:
            info.param_decls = _NAMES.get(name, (f"--{name.replace('_', '-')}",))
        annotated: Any = Annotated
        kind = inspect.Parameter.KEYWORD_ONLY
        found.append(parameter.replace(kind=kind, annotation=annotated[plain, info]))
    return found


def option_group(group: type[G]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Expand a command's first parameter, a dataclass, into the options that its fields declare.

    Typer knows options only as a function's own parameters, so commands that share a group of them
    would each repeat it.
    """

    def expand(command: Callable[..., None]) -> Callable[..., None]:
        names = [field.name for field in fields(group)]
        _, *own = parameters(command)

        def call(**values: Any) -> None:  # noqa: ANN401 - typer passes what it has parsed
            command(group(**{name: values.pop(name) for name in names}), **values)

        call.__name__, call.__doc__ = command.__name__, command.__doc__
        vars(call)["__signature__"] = inspect.Signature([*parameters(group), *own])
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


def abbreviated_ids(ids: Iterable[str] | None) -> tuple[str, ...]:
    """Ids, or their first characters.

    Raises:
        ConfigError: one is empty, with which every id begins.
    """
    given = tuple(ids or ())
    if not all(given):
        raise ConfigError("an id is empty: every id begins so")
    return given


def since_of(text: str | None, now: datetime | None = None) -> datetime | None:
    """A time, or a duration before now; one before 1970 becomes the beginning of 1970.

    Raises:
        ConfigError: it is neither, or a time without its zone, which is ambiguous.
    """
    if text is None:
        return None
    if not _YEAR.match(text.strip()):
        span, now = duration(text), now or datetime.now(UTC)
        return _BEGINNING if span > now - _BEGINNING else now - span
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a time: write 2026-11-21T07:00:00Z") from error
    if read.tzinfo is None:
        raise ConfigError(f"{text} has no time zone: write 2026-11-21T07:00:00Z or +01:00")
    return max(read, _BEGINNING)


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


def read_model(kind: type[M], file: Path) -> M:
    """Read an event or a plan from a JSON file, or from standard input if the file is `-`.

    Raises:
        ConfigError: the file can't be read, is too large, or has something else.
    """
    try:
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as opened:
            content = opened.read(MAX_WIDE_BYTES + 1)
        if len(content) > MAX_WIDE_BYTES:
            raise ConfigError(f"{file} is larger than the limit of {MAX_WIDE_BYTES} bytes")
        return kind.model_validate_json(content.decode())
    except ValidationError as error:
        reason = validation_message(error)
        raise ConfigError(f"{file} is not a valid {error.title}: {reason}") from error
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8: {error.reason}") from error
