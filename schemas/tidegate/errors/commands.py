"""The commands that messages suggest."""

from __future__ import annotations

import re
import shlex
from typing import Final

_SIGNED: Final = re.compile(
    r"\btidegate (?:hold (?:add|remove)|undo|publish (?!commit |condemned )[a-z-]+)(?= )"
)


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


def with_key(text: str) -> str:
    """A text whose suggested commands sign what they publish: a person fills in the key's file."""
    return _SIGNED.sub(r"\g<0> --sign-with KEY.pem", text)
