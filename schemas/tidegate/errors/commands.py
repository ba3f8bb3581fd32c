"""The commands that messages suggest."""

from __future__ import annotations

import shlex


def command_line(command: str, *arguments: object, **options: object) -> str:
    """A suggested command, quoted for a shell: it runs as pasted.

    A test parses every call with the command tree, so a suggestion can't miss a required option.

    Args:
        command: The subcommand, e.g. `hold remove`.
        arguments: Its arguments.
        options: Its options by their long names; True: a flag, None: left out.
    """
    words = ["tidegate", *command.split(), *map(str, arguments)]
    for name, value in options.items():
        if value is not None:
            words.append(f"--{name.strip('_').replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return shlex.join(words)
