"""`tidegate keys`: keys that sign events and requests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.output import write, write_json
from tidegate.errors import ConfigError
from tidegate.events.fields import visible
from tidegate.events.signature import KeyRole
from tidegate.service.settings.sections import SecuritySettings
from tidegate.signatures import SigningKey

keys = typer.Typer(help="Keys that sign events and requests.", no_args_is_help=True)


def _visible(name: str) -> str:
    try:
        return visible(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


EVERY_TABLE: list[str] = ["*"]
EVERYWHERE: list[str] = []


@keys.command()
def new(
    file: Path,
    role: list[KeyRole],
    name: Annotated[str, typer.Option(parser=_visible, metavar="<str>")],
    tables: list[str] = EVERY_TABLE,
    locations: list[str] = EVERYWHERE,
    as_json: bool = False,
) -> None:
    """Make a key: the private half in a new file of mode 0600, the public half as a setting.

    Positional:
        file: The private key's file.

    Options:
        role: What the key is for; repeat it for several roles.
        name: Whose key it is; stands in outcomes.
        tables: A pattern of the tables' names; repeat it. Default: every table.
        locations: A directory of the tables; repeat it. Default: everywhere.

    Examples:
        tidegate keys new /etc/tidegate/ana.pem --name ana --role requester > ana.toml
    """
    key = SigningKey.generate()
    entry = {"name": name, "roles": role, "tables": tables, "locations": locations}
    SecuritySettings.model_validate({"keys": [{**entry, "public_key": key.public_pem}]})
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(key.private_pem)
    except OSError as error:
        raise ConfigError(f"the private key can't be written: {error}") from error
    _show(key, entry, as_json=as_json)


@keys.command()
def show(file: Path, as_json: bool = False) -> None:
    """Show the public half of a key, for its entry in the settings.

    Positional:
        file: The private key's file.

    Examples:
        tidegate keys show /etc/tidegate/ana.pem
    """
    _show(SigningKey.read(file), {}, as_json=as_json)


def _show(key: SigningKey, entry: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        write_json({"key_id": key.key_id, "public_key": key.public_pem, **entry})
        return
    write(f"# key {key.key_id}")
    if entry:
        write("[[security.keys]]")
    for setting, value in entry.items():
        write(f"{setting} = {json.dumps(value)}")
    for line in ('public_key = """', *key.public_pem.splitlines(), '"""'):
        write(line)
