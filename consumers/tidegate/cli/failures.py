"""Expected errors, in a line each: what went wrong, where, and what to do."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.metadata import requires
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from pydantic import ValidationError

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.output import write_error
from tidegate.errors import ConfigError, InvalidEventError, TidegateError
from tidegate.errors.validation import validation_message

_REQUIREMENT: Final = re.compile(r"""^([A-Za-z0-9._-]+).*extra\s*==\s*["']([A-Za-z0-9_-]+)["']""")
_OF_MODULE: Final = {
    "py4j": "pyspark",
    "venv_pack": "venv-pack",
    "puresasl": "pure-sasl",
    "opentelemetry": "opentelemetry-api",
}
"""Where a module has another name than what is installed."""
_USUAL: Final = "services"
_FOR_DEVELOPERS: Final = frozenset({"test", "dev"})


class Failure(NamedTuple):
    """The exit code of an expected error, and its lines."""

    code: ExitCode
    lines: tuple[str, ...]

    def print(self) -> int:
        """Print the lines on standard error; return the code."""
        for line in self.lines:
            write_error(line)
        return self.code


def explained(error: Exception) -> Failure | None:
    """An expected error in lines; None for a defect."""
    match error:
        case ConfigError() | InvalidEventError():
            return Failure(ExitCode.WRONG, tuple(getattr(error, "lines", (str(error),))))
        case ValidationError():
            line = f"invalid {error.title}: {validation_message(error)}"
            return Failure(ExitCode.WRONG, (line,))
        case TidegateError():
            return Failure(ExitCode.FAILED, (str(error),))
        case KafkaException():
            return Failure(ExitCode.FAILED, (f"Kafka: {error.args[0].str()}",))
        case ModuleNotFoundError():
            missing = missing_extra(error)
            return None if missing is None else Failure(ExitCode.WRONG, (missing,))
        case _:
            return None


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install; None where no extra brings the module: then it is a defect.

    The extras are read from the installed package, so that this list is never out of date. Of
    several that bring it, it is the services', else the smallest.
    """
    module = (error.name or "").partition(".")[0]
    wanted = _plain(_OF_MODULE.get(module, module))
    libraries = defaultdict[str, set[str]](set)
    for requirement in requires("tidegate") or ():
        if found := _REQUIREMENT.match(requirement):
            libraries[found[2]].add(_plain(found[1]))
    bringing = [
        library
        for library, names in libraries.items()
        if wanted in names and library not in _FOR_DEVELOPERS
    ]
    if not bringing:
        return None
    extra = min(bringing, key=lambda library: (library != _USUAL, len(libraries[library]), library))
    return f"this needs {module}, which is not installed: pip install 'tidegate[{extra}]'"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
