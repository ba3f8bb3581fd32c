"""Where settings come from: environment variables, which win over the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.service.settings.problems import suggestion

if TYPE_CHECKING:
    from pydantic import BaseModel

PREFIX: Final = "TIDEGATE_"
SEPARATOR: Final = "__"
_SERVERS_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_FILE: Final = "file:"


def resolve_references(value: Any, environment: Mapping[str, str], where: str = "") -> Any:  # noqa: ANN401 - as TOML
    """Replace every reference in the strings of a settings file; `$${` stands for a plain `${`.

    Args:
        value: The settings as read from the file, or a part of them.
        environment: The environment variables.
        where: The path of the part among all settings, for errors.

    Raises:
        ConfigError: a variable is not set, or a file can't be read. No content is quoted.
    """
    below = f"{where}." if where else ""
    match value:
        case str():
            return _REFERENCE.sub(lambda found: _content(found, environment, where), value)
        case dict():
            return {
                name: resolve_references(item, environment, f"{below}{name}")
                for name, item in value.items()
            }
        case list():
            return [
                resolve_references(item, environment, f"{below}{i}") for i, item in enumerate(value)
            ]
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


def from_file(file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Read a settings file, with its references resolved.

    Raises:
        ConfigError: the file can't be read or is not TOML, or a reference can't be resolved.
    """
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no settings file {file}: correct --config or TIDEGATE_CONFIG, or make one:"
            f" {command_line('config init')} > {file}"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: nested too deep") from error
    try:
        return cast("dict[str, Any]", resolve_references(content, environment))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def from_environment(model: type[BaseModel], environment: Mapping[str, str]) -> dict[str, Any]:
    """Read `TIDEGATE_<section>__<name>` and KAFKA_BOOTSTRAP_SERVERS.

    A client setting is named with underscores for dots: TIDEGATE_KAFKA__SECURITY_PROTOCOL.

    Raises:
        ConfigError: there is no such section, or a list or table is not valid JSON.
    """
    found: dict[str, Any] = {}
    for variable in environment:
        section, nested, _ = variable.removeprefix(PREFIX).lower().partition(SEPARATOR)
        if not variable.startswith(PREFIX) or not nested:
            continue
        known = model.model_fields
        if section not in known:
            raise ConfigError(f"{variable}: unknown section{suggestion(section, known)}")
        found = found or _variables(model, environment)
    kafka = {name.replace("_", "."): value for name, value in found.pop("kafka", {}).items()}
    if servers := environment.get(_SERVERS_VARIABLE):
        kafka["bootstrap.servers"] = servers
    return found | ({"kafka": kafka} if kafka else {})


def _variables(model: type[BaseModel], environment: Mapping[str, str]) -> dict[str, Any]:
    # a tenth of a second, for those who use it
    from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError  # noqa: PLC0415

    try:
        return EnvSettingsSource(
            cast("type[BaseSettings]", model),
            env_prefix=PREFIX,
            env_nested_delimiter=SEPARATOR,
            env_ignore_empty=True,
        )()
    except SettingsError as error:  # its cause quotes the value
        section = re.search(r'"(\w+)"', str(error))
        below = f"{PREFIX}{section[1] if section else ''}{SEPARATOR}".upper()
        names = sorted(name for name in environment if name.upper().startswith(below))
        raise ConfigError(
            f"{' or '.join(names)}: write a list or table as JSON, e.g."
            """ TIDEGATE_WAREHOUSE__ROOTS='["/lake"]'"""
        ) from None


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; where a setting is in both, `above` wins."""
    result = dict(below)
    for name, value in above.items():
        before = result.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[name] = merged(before, value)
        else:
            result[name] = value
    return result
