"""The `tidegate` command.

Exit codes: 0 done; 1 the work failed or was refused; 2 the command or the settings are wrong.
Heavy parts are imported by the subcommand that needs them, so that `publish` stays light.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer
from pydantic import ValidationError

from tidegate.cli.operate import operate
from tidegate.cli.options import problems
from tidegate.cli.publish import publish
from tidegate.cli.schemas import print_asyncapi, schemas
from tidegate.errors import ConfigError, TidegateError

app = typer.Typer(
    name="tidegate",
    help="Keeper of lakehouse tables: savepoints, restores and clean-up, driven by events.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(publish, name="publish")
app.add_typer(schemas, name="schemas")
app.command("asyncapi")(print_asyncapi)
operate(app)


def main() -> None:
    """Run the command; an expected error is one sentence on standard error."""
    try:
        app()
    except ConfigError as error:
        _end(2, str(error))
    except ValidationError as error:
        _end(2, problems(error))
    except TidegateError as error:
        _end(1, str(error))


def _end(code: int, sentence: str) -> NoReturn:
    sys.stderr.write(f"tidegate: {' '.join(sentence.split())}\n")
    sys.exit(code)


__all__ = ["app", "main"]
