"""The `tidegate` command.

What its exit codes mean is in `exit_codes.py`, and at the end of `tidegate --help`. Only typer is
imported here: `tree.py` imports a command's module when the command is called.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidegate.cli.exit_codes import table
from tidegate.cli.output import write
from tidegate.cli.tree import CommandTree

app = typer.Typer(
    name="tidegate",
    cls=CommandTree,
    help="Keeper of lakehouse tables: savepoints, restores and clean-up, driven by events.",
    epilog=table(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - heavy

        write(f"tidegate {version('tidegate')}")
        raise typer.Exit


@app.callback()
def _global_options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Keeper of lakehouse tables: savepoints, restores and clean-up, driven by events."""


def main() -> None:
    """Run the command; an expected error is one line on standard error, or one a setting."""
    try:
        app()
    except Exception as error:
        from tidegate.cli.failures import explained  # noqa: PLC0415 - heavy

        if (failure := explained(error)) is None:
            raise
        sys.exit(failure.print())


__all__ = ["app", "main"]
