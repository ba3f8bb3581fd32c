"""The `tidegate` command.

Exit codes: 0 done; 1 the work failed or was refused; 2 the command or the settings are wrong.
Heavy parts are imported by the subcommand that needs them, so that `publish` stays light.
"""

from __future__ import annotations

import sys

import typer

from tidegate.cli.operate import operate
from tidegate.cli.publish import publish
from tidegate.errors import ConfigError, TidegateError

app = typer.Typer(
    name="tidegate",
    help="Keeper of lakehouse tables: savepoints, restores and clean-up, driven by events.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(publish, name="publish")
operate(app)


def main() -> None:
    """Run the command; an expected error is one sentence on standard error."""
    try:
        app()
    except ConfigError as error:
        sys.stderr.write(f"tidegate: {error}\n")
        sys.exit(2)
    except TidegateError as error:
        sys.stderr.write(f"tidegate: {error}\n")
        sys.exit(1)


__all__ = ["app", "main"]
