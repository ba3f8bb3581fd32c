"""`tidegate config`: create, check and show the settings."""

from __future__ import annotations

import textwrap
from itertools import groupby
from operator import attrgetter

import typer

from tidegate.cli.options import AsJson, ConfigFile
from tidegate.cli.output import write, write_json
from tidegate.errors.commands import command_line
from tidegate.service.settings import Settings
from tidegate.service.settings.reference import Setting, settings_reference

config = typer.Typer(help="Make, check and show the settings.", no_args_is_help=True)
_HEADER = """\
# The settings of a Tidegate deployment. Commented settings show their defaults.
# An environment variable TIDEGATE_<section>__<name> wins over this file. Any text may contain
# ${NAME}, an environment variable, and ${file:/path}, the content of a file.

[kafka]
# librdkafka's own settings; KAFKA_BOOTSTRAP_SERVERS wins over the first
"bootstrap.servers" = "127.0.0.1:9092"
"""
_WIDTH = 96


def settings_template() -> str:
    """A settings file with every setting, its meaning and its default; only the broker is set."""
    parts = [_HEADER]
    for section, settings in groupby(settings_reference(Settings), attrgetter("section")):
        if section:
            parts.append(f"# [{section}]" if _is_optional(section) else f"[{section}]")
            parts += [_lines(setting, section) for setting in settings]
            parts.append("")
    return "\n".join(parts)


def _is_optional(section: str) -> bool:
    """Whether an empty section is an error: it needs an address or a name, or is a list's item."""
    needs = ("registry", "bridge.", "savepoints.")
    return "[" in section or '"' in section or section.startswith(needs)


def _lines(setting: Setting, section: str) -> str:
    meaning = textwrap.fill(setting.meaning, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    if setting.kind == "table":
        return f"{meaning}\n# [{section}.{setting.name}]"
    value = setting.default
    if value in {"none", "required"}:
        value = "..."
    return f"{meaning}\n# {setting.name} = {value}    # {setting.kind}"


@config.command()
def init() -> None:
    """Print a settings file with every setting, its meaning and its default."""
    for line in settings_template().splitlines():
        write(line)


@config.command()
def check(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Read the settings as the services do; exit code 2 and a line for each problem."""
    Settings.load(config).connection()
    if as_json:
        write_json({"valid": True})
    else:
        write(f"the settings are valid; whether the broker agrees: {command_line('doctor')}")


@config.command()
def show(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Print the settings in effect, from the file and the environment. Secrets are hidden."""
    values = Settings.load(config).model_dump(mode="json", exclude_none=True)
    values["warehouse"]["storage"] = _hidden(values["warehouse"]["storage"])
    values["spark"]["conf"] = _hidden(values["spark"]["conf"])
    if as_json:
        write_json(values)
        return
    for name, section in values.items():
        for path, value in _flat(name, section):
            write(f"{path} = {value!r}")


def _hidden(value: object) -> object:
    """Options of other programs: any may be a secret, so their names alone are shown."""
    if isinstance(value, dict):
        return {name: _hidden(item) for name, item in value.items()}
    return "**********"


def _flat(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [pair for name, item in value.items() for pair in _flat(f"{path}.{name}", item)]
    return [(path, value)]
