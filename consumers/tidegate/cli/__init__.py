"""The `tidegate` command.

What its exit codes mean is in `exit_codes.py`, and at the end of `tidegate --help`.
Heavy parts are imported by the subcommand that needs them, so that `publish` stays light.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError

from tidegate.cli.examples import add_examples
from tidegate.cli.exit_codes import ExitCode, table
from tidegate.cli.extras import missing_extra
from tidegate.cli.operate import operate
from tidegate.cli.output import write, write_error
from tidegate.cli.progress import add_progress
from tidegate.cli.publish import publish
from tidegate.cli.schemas import print_asyncapi, schemas
from tidegate.errors import ConfigError, InvalidEventError, TidegateError
from tidegate.errors.validation import validation_message
from tidegate.service.settings import InvalidSettingsError

app = typer.Typer(
    name="tidegate",
    help="Keeper of lakehouse tables: savepoints, restores and clean-up, driven by events.",
    epilog=table(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
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


app.add_typer(publish, name="publish")
app.add_typer(schemas, name="schemas")
app.command("asyncapi")(print_asyncapi)
operate(app)
add_examples(app)
add_progress(app)


def main() -> None:
    """Run the command; an expected error is one line on standard error, or one a setting."""
    try:
        app()
    except InvalidSettingsError as error:
        _end(ExitCode.WRONG, *error.lines)
    except (ConfigError, InvalidEventError) as error:
        _end(ExitCode.WRONG, str(error))
    except ValidationError as error:
        _end(ExitCode.WRONG, f"invalid {error.title}: {validation_message(error)}")
    except TidegateError as error:
        _end(ExitCode.FAILED, str(error))
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        _end(ExitCode.WRONG, missing)
    except Exception as error:
        if (fault := _kafka_fault(error)) is None:
            raise
        _end(ExitCode.FAILED, fault)


def _kafka_fault(error: Exception) -> str | None:
    """What the Kafka client reports, if that is where an error comes from."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 - heavy

    return f"Kafka: {error.args[0].str()}" if isinstance(error, KafkaException) else None


def _end(code: int, *lines: str) -> NoReturn:
    for line in lines:
        write_error(line)
    sys.exit(code)


__all__ = ["app", "main"]
