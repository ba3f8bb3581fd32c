"""The exit codes of the command: one table, for the code and for `tidegate --help`."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What a script learns from the command's end."""

    DONE = 0
    FAILED = 1
    WRONG = 2
    REFUSED = 3
    UNANSWERED = 4
    AWAITING = 5


MEANINGS: Final = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "the work failed, a check found something, or no broker answers",
    ExitCode.WRONG: "the command, an event or the settings are wrong; nothing was done",
    ExitCode.REFUSED: "with --wait: the request was refused, nothing was changed",
    ExitCode.UNANSWERED: "with --wait: no final outcome came in time; it may still come",
    ExitCode.AWAITING: "with --wait: another person has to approve it; nothing was changed so far",
}


def table() -> str:
    """The exit codes and their meanings, a line each, as a block that typer leaves as it is."""
    lines = [f"  {code.value}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Exit codes:", *lines])
