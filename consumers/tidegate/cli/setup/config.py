"""`tidegate config`: create, check and show the settings."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import typer

from tidegate.cli.output import write, write_error, write_json
from tidegate.errors import ConfigError, TransientError
from tidegate.errors.commands import command_line
from tidegate.ops.notifications import Notifications
from tidegate.publisher.delivery import ConfirmedProducer
from tidegate.service.settings import Settings
from tidegate.service.settings.reference import settings_reference
from tidegate.service.settings.unused import unused_rules
from tidegate.signatures.keys import PublicKey
from tidegate.tables.warehouse.roots import WarehouseRoots

config = typer.Typer(help="Make, check, show and compare the settings.", no_args_is_help=True)
_HEADER = """\
# The settings of a Tidegate deployment. Commented settings show their defaults.
# An environment variable TIDEGATE_<section>__<name> wins over this file. Any text may contain
# ${NAME}, an environment variable, and ${file:/path}, the content of a file.

[kafka]
# librdkafka's own settings; KAFKA_BOOTSTRAP_SERVERS wins over the first
"bootstrap.servers" = "127.0.0.1:9092"
"""
_WIDTH = 96
_SECONDS: Final = 5.0
_OF_PROCESS: Final = re.compile(
    r"kafka\.(client\..+|sasl\.username|ssl\.(key|certificate)\.location)"
    r"|.+\.(port|callback_port|instance_id|sign_with)"
)
"""Settings of which each process has its own."""
_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - it is compared, not listened on


def settings_template() -> str:
    """A settings file with every setting, its meaning and its default; only the broker is set."""
    parts = [_HEADER]
    for section, settings in groupby(settings_reference(Settings), attrgetter("section")):
        if section:
            parts.append(f"# [{section}]" if _is_optional(section) else f"[{section}]")
            parts += [_lines(*setting) for setting in settings]
            parts.append("")
    return "\n".join(parts)


def _is_optional(section: str) -> bool:
    """Whether an empty section is an error: it needs an address or a name, or is a list's item."""
    needs = ("registry", "bridge.", "savepoints.")
    return "[" in section or '"' in section or section.startswith(needs)


def _lines(section: str, name: str, kind: str, default: str, meaning: str) -> str:
    meaning = textwrap.fill(meaning, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    if kind == "table":
        return f"{meaning}\n# [{section}.{name}]"
    value = "..." if default in {"none", "required"} else default
    return f"{meaning}\n# {name} = {value}    # {kind}"


@config.command()
def init() -> None:
    """Print a settings file with every setting, its meaning and its default.

    Examples:
        tidegate config init > tidegate.toml
    """
    for line in settings_template().splitlines():
        write(line)


@config.command()
def check(as_json: bool = False, config: Path | None = None) -> None:
    """Read the settings as the services do; exit code 2 and a line for each problem.

    A rule that can never apply is a warning.

    What a changed savepoint policy would make and remove: `tidegate plan retention`.

    Examples:
        tidegate config check --config tidegate.toml
    """
    settings = Settings.load(config)
    if settings.warehouse.roots:
        WarehouseRoots.of(*settings.warehouse.roots)
    for key in settings.security.keys:
        PublicKey(key.public_key, f"the public key of {key.name}")
    # librdkafka judges the names; without an address it connects to no broker
    ConfirmedProducer({**settings.connection(), "bootstrap.servers": "", "log_level": 0}).close()
    warnings = unused_rules(settings)
    try:
        Notifications(settings.monitoring.notify, settings.topics.prefix)
    except ModuleNotFoundError:  # only the monitor's machine needs apprise
        warnings.append("[monitoring] notify is not checked: the extra notify is not installed")
    if as_json:
        write_json({"valid": True, "warnings": warnings})
    else:
        for warning in warnings:
            write_error(f"warning: {warning}")
        write(f"the settings are valid; whether the broker agrees: {command_line('doctor')}")


@config.command()
def show(config: Path | None = None, as_json: bool = False) -> None:
    """Print the settings in effect, from the file and the environment. Secrets are hidden.

    Examples:
        tidegate config show --json | jq .services
    """
    values = Settings.load(config).shown()
    if as_json:
        write_json(values)
        return
    for path, value in _flat(values).items():
        write(f"{path} = {json.dumps(value)}")


@config.command()
def diff(at: str | None = None, as_json: bool = False, config: Path | None = None) -> None:
    """Compare the settings with those of a running process. Exit code 1 if they differ.

    The process serves its settings where it serves its metrics. Hidden values are not compared, nor
    what each process has for itself: ports, its key, its instance, its principal.

    Options:
        at: Host and port of the process; default: [monitoring].
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate config diff
        tidegate config diff --at worker-1:9464
    """
    settings = Settings.load(config)
    address = at or _address(settings)
    url = f"http://{address}/settings"
    try:
        with urlopen(url, timeout=_SECONDS) as answer:
            running = _flat(json.load(answer))
    except (OSError, ValueError) as error:
        raise TransientError(f"{url} did not return settings: {error}") from error
    here = _flat(settings.shown())
    names = [
        name
        for name in here | running
        if here.get(name) != running.get(name) and not _OF_PROCESS.fullmatch(name)
    ]
    for name in names:
        if as_json:
            write_json({"setting": name, "running": running.get(name), "here": here.get(name)})
        else:
            write(f"{name}: running {_text(running, name)}, here {_text(here, name)}")
    if not names and not as_json:
        write(f"{address} runs with these settings")
    raise typer.Exit(1 if names else 0)


def _address(settings: Settings) -> str:
    monitoring = settings.monitoring
    if not monitoring.port:
        raise ConfigError("[monitoring] has no fixed port: give --at HOST:PORT")
    host = "127.0.0.1" if monitoring.host in _ANY else monitoring.host
    return f"{host}:{monitoring.port}"


def _text(values: Mapping[str, object], name: str) -> str:
    return json.dumps(values[name]) if name in values else "unset"


def _flat(value: object, path: str = "") -> dict[str, object]:
    """Every setting by its full name."""
    parts: Iterable[tuple[str, object]]
    if isinstance(value, dict):
        parts = ((f"{path}.{name}" if path else name, item) for name, item in value.items())
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        parts = ((f"{path}[{number}]", item) for number, item in enumerate(value))
    else:
        return {path: value}
    return {name: item for part, inner in parts for name, item in _flat(inner, part).items()}
