"""The `tidegate` command.

What its exit codes mean is in `exit_codes.py`, and at the end of `tidegate --help`. Only typer is
imported here: `tree.py` imports a command's module when the command is called.
"""

from __future__ import annotations

import sys

from tidegate.cli.output import write_error
from tidegate.cli.tree import app


def main() -> None:
    """Run the command; an expected error is one line on standard error, or one a setting."""
    try:
        app()
    except Exception as error:
        from tidegate.cli.failures import explained  # noqa: PLC0415 - heavy

        if (failure := explained(error)) is None:
            raise
        code, lines = failure
        for line in lines:
            write_error(line)
        sys.exit(code)


__all__ = ["app", "main"]
