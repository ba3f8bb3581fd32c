"""References in the settings: `${NAME}` to the environment, `${file:/path}` to a file's content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tidegate.errors import ConfigError

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_FILE: Final = "file:"


def resolve_references(
    content: Mapping[str, Any], environment: Mapping[str, str], where: str = ""
) -> dict[str, Any]:
    """Replace every reference in the strings of a settings file; `$${` stands for a plain `${`.

    Args:
        content: The settings as read from the file.
        environment: The environment variables.
        where: The path of `content` among all settings, for errors.

    Raises:
        ConfigError: a variable is not set, or a file can't be read. No content is quoted.
    """
    return {
        name: _resolved(value, environment, f"{where}.{name}" if where else name)
        for name, value in content.items()
    }


def _resolved(value: object, environment: Mapping[str, str], where: str) -> object:
    match value:
        case str():
            return _REFERENCE.sub(lambda found: _content(found, environment, where), value)
        case dict():
            return resolve_references(value, environment, where)
        case list():
            return [_resolved(item, environment, f"{where}.{i}") for i, item in enumerate(value)]
        case _:
            return value


def _content(found: re.Match[str], environment: Mapping[str, str], where: str) -> str:
    name = found[1]
    if name is None:
        return "${"
    if name.startswith(_FILE):
        return _read(Path(name.removeprefix(_FILE)), where)
    if name not in environment:
        raise ConfigError(f"{where}: environment variable {name} is not set")
    return environment[name]


def _read(file: Path, where: str) -> str:
    try:
        # a secret's file often ends with a line break that is not part of it
        return file.read_text("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{where}: can't read {file}: {reason}") from error
