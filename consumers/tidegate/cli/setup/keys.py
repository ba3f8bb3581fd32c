"""`tidegate keys`: make the keys that sign commands, and show their public halves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tidegate.authorization.key_file import create_key_file
from tidegate.cli.options import AsJson
from tidegate.cli.output import write, write_json
from tidegate.events.names import visible
from tidegate.signatures import SigningKey

keys = typer.Typer(help="Keys that sign commands.", no_args_is_help=True)
PrivateKey = Annotated[Path, typer.Argument(help="The private key's file.")]


def _visible(name: str) -> str:
    try:
        return visible(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Name = Annotated[
    str, typer.Option(help="Whose key it is; stands in outcomes.", parser=_visible, metavar="<str>")
]


@keys.command()
def new(file: PrivateKey, name: Name = "NAME", as_json: AsJson = False) -> None:
    """Make a key: the private half in a new file of mode 0600, the public half as a setting."""
    _show(create_key_file(file), name, as_json=as_json)


@keys.command()
def show(file: PrivateKey, name: Name = "NAME", as_json: AsJson = False) -> None:
    """Show the public half of a key, as the settings of the services want it."""
    _show(SigningKey.read(file), name, as_json=as_json)


def _show(key: SigningKey, name: str, *, as_json: bool) -> None:
    if as_json:
        write_json({"key_id": key.key_id, "name": name, "public_key": key.public_pem})
        return
    write(f"# key {key.key_id}")
    write("[[security.keys]]")
    write(f"name = {json.dumps(name)}")
    write('public_key = """')
    for line in key.public_pem.splitlines():
        write(line)
    write('"""')
    write('commands = ["RestoreRequested", "SavepointRequested"]')
    write('tables = ["*"]')
